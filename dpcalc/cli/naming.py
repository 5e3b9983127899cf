"""The names of fields as this command line has them: the one place that turns a field into its option."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from dpcalc.asked import Field
from dpcalc.errors import DpcalcError

# A field in a message: `sigma`, with a value `mode=drop`, or a whole call `train(filter=gdp, algorithm=gd)`.
_MARKED = re.compile(r"`(?P<name>[a-z]\w*)(?:=(?P<value>[^`]*)|\((?P<call>[^`]*)\))?`")


def by_option(error: DpcalcError, fields: Iterable[Field]) -> DpcalcError:
    """The error with the options, or the places, of the fields that it names."""
    options = {name: _option(each) for each in fields for name in (each.name, each.argument)}

    def told(text: str) -> str:
        return _MARKED.sub(lambda found: _typed(found, options), text)

    where = error.where or ""
    error.allowed = None if error.allowed is None else told(error.allowed)
    return error.at(options.get(where) or told(where) or None, told(error.message))


def _option(field: Field) -> str:
    return max(field.option.flags, key=len, default=field.option.metavar or field.name)


def _typed(found: re.Match[str], options: Mapping[str, str]) -> str:
    """A field as it is typed; what is no field of this command stays as it is."""
    if found["call"] is not None:
        pairs = (each.partition("=") for each in found["call"].split(", "))
        return " ".join(["dpcalc", found["name"], *(f"{options.get(name, name)} {value}" for name, _, value in pairs)])
    if found["name"] not in options:
        return found[0]
    option = options[found["name"]]
    return option if found["value"] is None else f"{option} {found['value']}"

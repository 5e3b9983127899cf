"""The commands as functions: options are arguments of the same name with underscores, checked in the same way."""

from __future__ import annotations

import inspect
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from dpcalc.api.mechanisms import Mechanism
from dpcalc.api.result import Result
from dpcalc.errors import DpcalcError, InputError
from dpcalc.guarantee import Budget

_LIMITS = ("max_epsilon", "max_delta", "max_mu", "max_rho", "max_advantage")
_SEPARATORS = {"tpr": "@"}


def compose(*releases: Any, **options: Any) -> Result:
    """ε at `delta` (or δ at `epsilon`) of mechanisms composed, certified from above and below.

    Releases are mechanisms, results, paths of specs, or mappings as they would stand in one:

    >>> import dpcalc
    >>> dpcalc.compose(dpcalc.Gaussian(sigma=2, sensitivity=1), delta=1e-5)
    ε = 1.994 at δ = 1e-5, exactly (certified, add-remove)
    μ = 0.5, ρ = 0.125
    by Dong, Roth, Su 2022, Corollaries 1 and 2

    Options: `delta` (one or several), `epsilon`, `curve`, `accountant`, `adjacency`, `tolerance`, and limits.
    """
    return _called("compose", {**options, "spec": _documents(releases)})


def calibrate(*releases: Any, **options: Any) -> Result:
    """The one number that is the word "solve", so that the releases stay within a budget; `details["solution"]`.

    >>> import dpcalc
    >>> found = dpcalc.calibrate(dpcalc.Gaussian(noise_multiplier="solve"), epsilon=1, delta=1e-5)
    >>> round(found.details["solution"], 2)
    3.73

    Targets: `epsilon` with `delta`, `advantage`, `tpr=(T, F)`, `mu`, `rho`.
    """
    return _called("calibrate", {**options, "spec": _documents(releases)})


def convert(**options: Any) -> Result:
    """One notion in all the others: `gdp`, `zcdp`, `dp=(ε, δ)` or `rdp=[(α, ε), …]`, at a `delta` or an `epsilon`.

    >>> import dpcalc
    >>> round(dpcalc.convert(gdp=1.2, delta=1e-5).epsilon, 3)
    5.413
    """
    return _called("convert", options)


def filter(log: Any, **options: Any) -> Result:
    """A log of norms through a privacy filter: who takes part when, and what each has lost.

    `log` is an array (steps × records), a DataFrame with step, id and norm, or a path. `filter` is "gdp", "rdp" or
    "dp", with `sigma` (or `noise_multiplier` and `clip`) and a budget: `mu`, `epsilon` with `delta`, `norm_budget`, or
    `order` with `rho`.
    """
    with _as_file(log) as path:
        return _called("filter", {**options, "log": path})


def sgd_bound(**options: Any) -> Result:
    """ε when only the last iterate of a convex run is released (Bok, Su, Altschuler 2024)."""
    return _called("sgd_bound", options)


def exp_mech(**options: Any) -> Result:
    """ε of the exponential mechanism, exact or by Langevin sampling."""
    return _called("exp_mech", options)


def train(**options: Any) -> Result:
    """Train a model with differential privacy on a built-in or given data set, and say what it cost."""
    return _called("train", options)


def verify(*results: Any, **options: Any) -> Result:
    """Results (paths) computed again in ball arithmetic: confirmed, contradicted or not checked."""
    return _called("verify", {**options, "result": [str(each) for each in results]})


def diff(before: Any, after: Any, **options: Any) -> Result:
    """What changed between two releases (paths of specs or results), by entry and in ε."""
    return _called("diff", {**options, "before": str(before), "after": str(after)})


def _documents(releases: Sequence[Any]) -> list[Any]:
    """Paths as they are, everything else as the documents that it would be in a file."""
    found: list[Any] = []
    entries: list[dict[str, Any]] = []
    for each in _flat(releases):
        if isinstance(each, (str, Path)):
            found.append(str(each))
        elif isinstance(each, Result):
            found.append(_document(each.to_dict(), "a result"))
        elif isinstance(each, Mechanism):
            entries.append(each.spec())
        elif isinstance(each, Mapping):
            if "type" in each:
                entries.append(dict(each))
            else:
                found.append(_document(dict(each), "a mapping"))
        else:
            raise InputError(f"expected a mechanism, a result, a mapping or a path, got {type(each).__name__}")
    return [*found, *([_document({"mechanisms": entries}, "")] if entries else [])]


def _flat(releases: Sequence[Any]) -> Iterator[Any]:
    for each in releases:
        if isinstance(each, (list, tuple)):
            yield from _flat(each)
        else:
            yield each


def _document(data: Mapping[str, Any], source: str) -> Any:
    from dpcalc.spec.specification import read_document
    from dpcalc.spec.text import from_data

    try:
        return read_document(from_data(data, source))
    except (TypeError, ValueError) as error:
        raise InputError(f"expected plain numbers and words ({error})", where=source or "mechanisms") from None


@contextmanager
def _as_file(log: Any) -> Iterator[str]:
    """The path of a log; an array or a frame is written for its owner alone and removed afterwards."""
    if isinstance(log, (str, Path)):
        yield str(log)
        return
    with tempfile.TemporaryDirectory(prefix="dpcalc-") as folder:
        if hasattr(log, "to_csv"):
            path = Path(folder) / "log.csv"
            log.to_csv(path, index=False)
        else:
            import numpy as np

            path = Path(folder) / "log.npy"
            try:
                np.save(path, np.asarray(log, dtype=float), allow_pickle=False)
            except (TypeError, ValueError) as error:
                raise InputError(f"expected numbers, steps × records ({error})", where="log") from None
        yield str(path)


def _called(word: str, given: Mapping[str, Any]) -> Result:
    """What the command answers to these arguments; errors speak of arguments."""
    from dpcalc.cli.command import completed

    app = getattr(import_module(f"dpcalc.cli.{word}"), word)
    function: Callable[..., Any] = inspect.unwrap(app.registered_commands[0].callback)
    names = _names(function)
    shared = {key: given[key] for key in (*_LIMITS, "prior") if given.get(key) is not None}
    unknown = [key for key in given if key not in names and key not in (*_LIMITS, "prior")]
    if unknown:
        raise InputError(_unknown(unknown[0], [*names, *_LIMITS, "prior"]), where=word)
    try:
        limits = Budget(**{key: _limit(key, shared[key]) for key in _LIMITS if key in shared})
        prior = _limit("prior", shared.get("prior", 0.5))
        arguments = {
            names[key].parameter: _converted(key, value, names[key])
            for key, value in given.items()
            if value is not None and key in names
        }
        missing = [key for key, about in names.items() if about.needed and about.parameter not in arguments]
        if missing:
            raise InputError("is missing", where=missing[0])
        told = completed(function, arguments, limits, prior)
    except DpcalcError as error:
        where = None if error.where is None else _without_flags(error.where).lstrip(": ")
        raise type(error)(_without_flags(error.message), where=where) from None
    return Result(told, prior=prior)


def _unknown(name: str, known: Sequence[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, known, n=1)
    guess = f"; did you mean {close[0]}?" if close else ""
    return f"has no argument {name}{guess}"


class _Argument(NamedTuple):
    """A parameter of a command: its type, what reads it from text, and whether it must be given."""

    parameter: str
    kind: Any
    parser: Any
    needed: bool


def _names(function: Callable[..., Any]) -> dict[str, _Argument]:
    """The parameters of a command by the names of its options, with underscores."""
    hints = get_type_hints(function, include_extras=True)
    found = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in ("limits", "prior", "plot"):
            continue
        kind, about = hints[parameter.name], None
        if get_origin(kind) is Annotated:
            kind, about = get_args(kind)[0], get_args(kind)[1]
        # An option's first name is its `default` until typer has looked at it.
        stated = (getattr(about, "default", None), *(getattr(about, "param_decls", None) or ()))
        flags = [flag for flag in stated if isinstance(flag, str) and flag.startswith("--")]
        name = max(flags, key=len).removeprefix("--").replace("-", "_") if flags else parameter.name
        needed = parameter.default is inspect.Parameter.empty
        found[name] = _Argument(parameter.name, kind, getattr(about, "parser", None), needed)
    return found


def _converted(name: str, value: Any, argument: _Argument) -> Any:
    """A value as the command's own parser makes it from text, so that both check the same."""
    kind = argument.kind
    if get_origin(kind) in (Union, UnionType):
        kind = next(each for each in get_args(kind) if each is not type(None))
    if get_origin(kind) is not list:
        return _one(name, value, kind, argument.parser)
    (kind,) = get_args(kind)
    several = isinstance(value, (list, tuple))
    if several and hasattr(kind, "_fields"):  # a pair such as an order and its ε, and not a list of them
        several = any(isinstance(each, (list, tuple, str)) for each in value)
    return [_one(name, each, kind, argument.parser) for each in (value if several else [value])]


def _one(name: str, value: Any, kind: Any, parser: Any) -> Any:
    import typer

    value = value.item() if hasattr(value, "item") else value
    if isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError:
            allowed = ", ".join(str(each.value) for each in kind)
            raise InputError(f"expected one of {allowed}, got {value!r}", where=name) from None
    if parser is None:
        return Path(value) if kind is Path else value
    if isinstance(value, bool) or not isinstance(value, (str, int, float, list, tuple)):
        raise InputError(f"expected a number, got {value!r}", where=name)
    text = _SEPARATORS.get(name, ",").join(map(_text, value)) if isinstance(value, (list, tuple)) else _text(value)
    try:
        return parser(text)
    except typer.BadParameter as error:
        raise InputError(str(error.message), where=name) from None


def _text(value: Any) -> str:
    value = value.item() if hasattr(value, "item") else value
    return value if isinstance(value, str) else repr(value)


def _limit(name: str, value: Any) -> float:
    from dpcalc.numbers import NON_NEGATIVE, PROBABILITY, parse_number

    try:
        return parse_number(_text(value), PROBABILITY if name == "prior" else NON_NEGATIVE)
    except ValueError as error:
        raise InputError(str(error), where=name) from None


def _without_flags(text: str) -> str:
    """The message with arguments where the command line says options."""
    return re.sub(r"--([a-z][a-z-]*[a-z]|[a-z])", lambda found: found[1].replace("-", "_"), text)

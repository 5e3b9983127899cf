"""Options read by their own rules, so that typer need not load the library with which it reads them otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import typer

Read = Callable[[Any], Any]


class _Reader:
    """What typer asks for the value of an option; what is wrong with it is told with the option."""

    def __init__(self, read: Read) -> None:
        self.read = read

    def itself(self) -> _Reader:
        return self

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None or value is param.default:
            return value
        try:
            return [self.read(each) for each in value] if isinstance(value, (list, tuple)) else self.read(value)
        except ValueError as error:
            raise typer.BadParameter(str(error), ctx=ctx, param=param) from None


def read_by(parameters: Iterable[Any], rules: Mapping[str, Read]) -> None:
    """Let these rules read the options of their names, and take all others as they are.

    A typer without this place to hook in reads by the parsers that the options have too.
    """
    for parameter in parameters:
        if hasattr(parameter, "get_runtime_param"):
            parameter.get_runtime_param = _Reader(rules.get(parameter.name, lambda value: value)).itself

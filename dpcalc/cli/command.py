"""What every command has in common, so that a new command is a page: formats, budget limits, exit codes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_type_hints

import typer

from dpcalc.cli import options
from dpcalc.guarantee import Budget, Result

_SHARED: dict[str, tuple[Any, Any]] = {
    "format": (options.FormatOption, options.Format.table),
    "output": (options.OutputOption, None),
    "max_epsilon": (options.MaxEpsilon, None),
    "max_delta": (options.MaxDelta, None),
    "max_mu": (options.MaxMu, None),
    "max_rho": (options.MaxRho, None),
}


def command(*, example: str, name: str | None = None) -> Callable[[Callable[..., Result]], typer.Typer]:
    """Turn a function that returns a Result into a command with the shared options and behaviour.

    The function's parameters become options, its docstring the help text, `example` the line the help ends with.
    """

    def decorate(function: Callable[..., Result]) -> typer.Typer:
        @functools.wraps(function)
        def run(**arguments: Any) -> None:
            shared = {key: arguments.pop(key) for key in _SHARED}
            result = function(**arguments)
            given = Budget(**{key: value for key, value in shared.items() if key.startswith("max_")})
            result = replace(result, budget=replace(result.budget, **given.limits()))
            from dpcalc.cli.output import emit

            emit(result, shared["format"].value, shared["output"])
            if result.over_own_budget or result.budget.exceeded(result.guarantee):
                raise typer.Exit(1)

        _add_shared_parameters(run, function)
        app = typer.Typer(add_completion=False, rich_markup_mode="rich")
        word = name or function.__name__.replace("_", "-")
        app.command(name=word, help=_flowing(function), epilog=f"Example: {example}")(run)
        return app

    return decorate


def _flowing(function: Callable[..., Result]) -> str:
    """The docstring with each paragraph on one line, so that the terminal wraps it."""
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _add_shared_parameters(run: Callable[..., None], function: Callable[..., Result]) -> None:
    hints = get_type_hints(function, include_extras=True)
    parameters = [
        parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(function).parameters.values()
    ]
    for key, (annotation, default) in _SHARED.items():
        parameters.append(
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        )
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}

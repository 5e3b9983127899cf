"""What every command has in common, so that a new command is a page: formats, budget limits, exit codes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

import typer
from typer.core import TyperCommand

from dpcalc.cli import options
from dpcalc.errors import DpcalcError, InputError
from dpcalc.files import STANDARD_STREAM, check_paths
from dpcalc.guarantee import Budget, Result

_SHARED: dict[str, tuple[Any, Any]] = {
    "format": (options.FormatOption, None),
    "output": (options.OutputOption, None),
    "quiet": (options.Quiet, False),
    "verbose": (options.Verbose, False),
    "prior": (options.Prior, 0.5),
    "max_epsilon": (options.MaxEpsilon, None),
    "max_delta": (options.MaxDelta, None),
    "max_mu": (options.MaxMu, None),
    "max_rho": (options.MaxRho, None),
    "max_advantage": (options.MaxAdvantage, None),
}

_LIMITS = tuple(key for key in _SHARED if key.startswith("max_"))
# Shared options that a command may ask to be told, by having a parameter of that name.
_TOLD = ("limits", "prior")
_WITH_RISK = ("table", "json", "markdown")

OVER, NOT_CERTIFIED = 1, 3


def command(*, example: str, name: str | None = None) -> Callable[[Callable[..., Result]], typer.Typer]:
    """Turn a function that returns a Result into a command with the shared options and behaviour.

    The function's parameters become options, its docstring the help text, `example` the line the help ends with. A
    function with a parameter `limits` or `prior` is told them, to weigh limits against those of a file, say.
    """

    def decorate(function: Callable[..., Result]) -> typer.Typer:
        wanted = [key for key in _TOLD if key in inspect.signature(function).parameters]

        @functools.wraps(function)
        def run(context: typer.Context, **arguments: Any) -> None:
            shared = {key: arguments.pop(key) for key in _SHARED}
            limits = Budget(**{key: shared[key] for key in _LIMITS})
            format = _format(shared)
            _check_output(shared["output"], arguments)
            try:
                told = {"limits": limits, "prior": shared["prior"]}
                result = function(**arguments, **{key: told[key] for key in wanted})
                given = {f"max_{quantity}": limit for quantity, limit in limits.limits().items()}
                result = _complete(replace(result, budget=replace(result.budget, **given)), shared, format)
            except DpcalcError as error:
                raise _by_option(error, context) from None
            from dpcalc.cli.output import emit

            emit(result, format, shared["output"], quiet=shared["quiet"], verbose=shared["verbose"])
            raise typer.Exit(exit_code(result))

        _add_shared_parameters(run, function)
        app = typer.Typer(add_completion=False, rich_markup_mode="rich")
        word = name or function.__name__.replace("_", "-")
        settings = {"help_option_names": ["-h", "--help"]}
        app.command(
            name=word, help=_flowing(function), epilog=f"Example: {example}", cls=OnceCommand, context_settings=settings
        )(run)
        return app

    return decorate


class OnceCommand(TyperCommand):
    """A command that takes a single-valued option once: of two values one would be dropped in silence."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        seen = set()
        for parameter in order:
            repeatable = (
                getattr(parameter, "multiple", False)
                or parameter.nargs == -1
                or parameter.param_type_name == "argument"
            )
            if parameter.name in seen and not repeatable:
                flag = max(parameter.opts, key=len)
                raise InputError("is given twice; it takes one value", where=flag)
            seen.add(parameter.name)
        return super().parse_args(ctx, args)


def exit_code(result: Result) -> int:
    """0 within every limit, 1 over one, 3 if a limit is not shown to be kept."""
    outcomes = {result.goal, *(verdict.outcome for verdict in result.verdicts)}
    return OVER if "over" in outcomes else NOT_CERTIFIED if "unproved" in outcomes else 0


def _format(shared: Mapping[str, Any]) -> str:
    """The format that was asked for, or the one that the output's name stands for."""
    from dpcalc.render import SUFFIXES

    if shared["quiet"] and shared["verbose"]:
        raise InputError("one line or all of them? Give one of the two", where="--quiet, --verbose")
    if shared["format"] is not None:
        format: str = shared["format"].value
    else:
        format = SUFFIXES.get(Path(shared["output"] or "").suffix.lower(), "table")
    if format != "table" and (shared["quiet"] or shared["verbose"]):
        flag = "--quiet" if shared["quiet"] else "--verbose"
        raise InputError(f"has no effect on {format}, which is always the same", where=flag)
    return format


def _check_output(output: str | None, arguments: Mapping[str, Any]) -> None:
    """Stop before any work if the output cannot be written, or is a file that another argument names."""
    if output is None or output == STANDARD_STREAM:
        return
    listed = [item for value in arguments.values() for item in (value if isinstance(value, list) else [value])]
    others = [str(item) for item in listed if isinstance(item, (str, Path)) and "\0" not in str(item)]
    check_paths({"--output": output}, {f"the other argument {name}": name for name in others if name})


def _complete(result: Result, shared: Mapping[str, Any], format: str) -> Result:
    """The result with its risk, where that is told or limited."""
    guarantee = result.guarantee
    if guarantee is None:
        return result
    if result.budget.max_epsilon is not None and guarantee.epsilon is None and guarantee.delta is None:
        raise InputError("a limit on ε needs the δ at which ε is meant", where="max_epsilon")
    told = format in _WITH_RISK and not shared["quiet"]
    wanted = told or result.budget.max_advantage is not None
    if wanted and (guarantee.risk is None or guarantee.risk.prior != shared["prior"]):
        from dpcalc.spec.risk import with_risk

        return replace(result, guarantee=with_risk(guarantee, shared["prior"]))
    return result


def _by_option(error: DpcalcError, context: typer.Context) -> DpcalcError:
    """The error with the option in place of the field that it names."""
    flags = {parameter.name: max(parameter.opts, key=len) for parameter in context.command.params}
    flag = flags.get(error.where or "", "")
    return type(error)(error.message, where=flag) if flag.startswith("--") else error


def _flowing(function: Callable[..., Result]) -> str:
    """The docstring with each paragraph on one line, so that the terminal wraps it."""
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _add_shared_parameters(run: Callable[..., None], function: Callable[..., Result]) -> None:
    hints = get_type_hints(function, include_extras=True)
    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    parameters = [
        parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name not in _TOLD
    ]
    for key, (annotation, default) in _SHARED.items():
        parameters.append(
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        )
    run.__signature__ = inspect.Signature([context, *parameters])  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in [context, *parameters]}

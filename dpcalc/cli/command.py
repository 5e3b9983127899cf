"""A question as a command: its fields as options, and what every command has in common."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from dpcalc.asked import Asked, Field, option
from dpcalc.cli.help import help_text, shown_as_output
from dpcalc.cli.naming import by_option
from dpcalc.cli.reading import read_by
from dpcalc.effort import within
from dpcalc.errors import DpcalcError, InputError
from dpcalc.files import STANDARD_STREAM, check_paths, not_reading
from dpcalc.guarantee import Result
from dpcalc.terminal import streams

_FORMATS = Literal["table", "json", "csv", "markdown", "github", "junit", "html", "badge"]
_WITH_RISK = ("table", "markdown", "html")

_LIKELY = 0.5  # the prior that nobody asked for

OVER, NOT_CERTIFIED = 1, 3


def _own(kind: Any, default: Any, *flags: str, **about: Any) -> Field:
    name = flags[0].removeprefix("--")
    return Field(name=name, kind=kind, default=default, option=option(*flags, panel="Output", **about))


_PLOT = _own(str, None, "--plot", help="Draw the curves (.png, .svg, .pdf).", metavar="FILE")
# How an answer is shown: no part of the question.
_SHOWN = (
    _own(_FORMATS, None, "--format", "-f", help="Default: by the name of --output, else table.", shows_default=False),
    _own(str, None, "--output", "-o", help="Write to FILE, not the screen.", metavar="FILE"),
    _own(bool, False, "--quiet", "-q", help="The first line alone."),
    _own(bool, False, "--verbose", "-v", help="All notions, orders and sources."),
)


def command(name: str, asked: type[Asked]) -> TyperCommand:
    """The command that asks this: its options, its help with an example, formats, limits and exit codes."""
    common = {each.name for each in Asked.fields()}
    fields = [each for each in asked.fields() if each.name not in common]
    if not asked.writes:
        fields += [*((_PLOT,) if asked.draws else ()), *_SHOWN, *Asked.fields()]

    def run(context: typer.Context, **given: Any) -> None:
        try:
            question = asked(**_stated(given, asked))
            _check_idle({**question.idle(), **_idle_risk(asked, given)}, context)
            if asked.writes:
                question.answer()
                return
            result = _answered(question, given)
        except DpcalcError as error:
            raise by_option(error, fields) from None
        raise typer.Exit(exit_code(result))

    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    run.__signature__ = inspect.Signature([context, *map(_parameter, fields)])  # type: ignore[attr-defined]
    run.__annotations__ = {"context": typer.Context, **{each.name: _annotation(each) for each in fields}}
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(
        name=name,
        help=asked.words(),
        epilog=f"Example: {asked.example}",
        cls=OnceCommand,
        context_settings={"help_option_names": ["-h", "--help"]},
    )(run)
    found: Any = typer.main.get_command(app)
    read_by(found.params, {each.name: each.read_one for each in fields})
    made: TyperCommand = found
    return made


def _annotation(field: Field) -> Any:
    """The field as typer wants it: what reads it, unless it is a word of a list, which can be completed."""
    about = field.option
    kind: Any = field.kind if field.choices or field.kind is bool else str
    settings: dict[str, Any] = {
        "help": about.help,
        "metavar": about.metavar or ("FILE" if field.kind is Path else None),
    }
    if about.parse is not None or field.kind is Path:
        settings["parser"] = _checked(field)
    if about.flags:
        flags = about.flags
        info: Any = typer.Option(*flags, show_default=about.shows_default, rich_help_panel=about.panel, **settings)
    else:
        info = typer.Argument(**settings)
    kind = list[kind] if about.repeated else kind
    return Annotated[kind if field.needed else kind | None, info]


def _checked(field: Field) -> Any:
    def parser(text: Any) -> Any:
        try:
            return field.read_one(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return parser


def _parameter(field: Field) -> inspect.Parameter:
    default = inspect.Parameter.empty if field.needed else None if field.option.repeated else field.default
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=_annotation(field))


def _stated(given: Mapping[str, Any], asked: type[Asked]) -> dict[str, Any]:
    """The fields that were given, lists as tuples."""
    names = {each.name for each in asked.fields()}
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in given.items()
        if name in names and value is not None
    }


def _check_idle(idle: Mapping[str, str], context: typer.Context) -> None:
    """Raise for an option that plays no part, also where it was given the value that it has by itself."""
    for name, reason in idle.items():
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise InputError(reason, where=name)


def _idle_risk(asked: type[Asked], given: Mapping[str, Any]) -> dict[str, str]:
    """The prior, where no risk is told."""
    if asked.writes or _tells_risk(asked, given):
        return {}
    shown = "one line" if given["quiet"] else _format(given)
    return {"prior": f"has no effect on {shown}, which does not tell the risk"}


def _tells_risk(asked: type[Asked], given: Mapping[str, Any]) -> bool:
    format = _format(given)
    return format == "json" or (asked.draws and format in _WITH_RISK and not given["quiet"])


def _answered(question: Asked, given: Mapping[str, Any]) -> Result:
    """Ask, draw and show; everything that cannot be written is found before any work is done."""
    format, output, picture = _format(given), given["output"], given.get("plot")
    named = _named(_stated(given, type(question)))
    _check_output(output, named)
    _check_picture(picture, output, named)
    with within():
        with not_reading([output, picture]):
            result = question.result()
        result = _with_risk(result, given, told=picture is not None or _tells_risk(type(question), given))
    if picture is not None:
        from dpcalc.render.plot import plot

        plot(result, picture)
    from dpcalc.cli.output import emit

    emit(result, format, output, quiet=given["quiet"], verbose=given["verbose"])
    return result


class OnceCommand(TyperCommand):
    """A command that takes a single-valued option once: of two values one would be dropped in silence."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        read_by([self.get_help_option(ctx)], {})
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

    def get_help_option(self, ctx: Any) -> Any:
        return shown_as_output(super().get_help_option(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(streams.spelt(help_text(self, ctx)))


def exit_code(result: Result) -> int:
    """0 within every limit, 1 over one, 3 if a limit is not shown to be kept."""
    return OVER if "over" in result.outcomes else NOT_CERTIFIED if "unproved" in result.outcomes else 0


def _format(given: Mapping[str, Any]) -> str:
    """The format that was asked for, or the one that the output's name stands for."""
    from dpcalc.render import SUFFIXES

    if given["quiet"] and given["verbose"]:
        raise InputError("one line or all of them? Give one of the two", where="--quiet, --verbose")
    format: str = given["format"] or SUFFIXES.get(Path(given["output"] or "").suffix.lower(), "table")
    if format != "table" and (given["quiet"] or given["verbose"]):
        flag = "--quiet" if given["quiet"] else "--verbose"
        raise InputError(f"has no effect on {format}, which is always the same", where=flag)
    return format


def _named(question: Mapping[str, Any]) -> dict[str, str]:
    """Everything in a question that may be the name of a file."""
    listed = [item for value in question.values() for item in (value if isinstance(value, tuple) else [value])]
    names = [str(item) for item in listed if isinstance(item, (str, Path)) and "\0" not in str(item)]
    return {f"the other argument {name}": name for name in names if name}


def _check_output(output: str | None, named: Mapping[str, str]) -> None:
    """Stop before any work if the output cannot be written, or is a file that another argument names."""
    if output is not None and output != STANDARD_STREAM:
        check_paths({"--output": output}, named)


def _check_picture(picture: str | None, output: str | None, named: Mapping[str, str]) -> None:
    """Stop before any work if a picture cannot be drawn, or would replace a file that is named beside it."""
    if picture is None:
        return
    from dpcalc.render.plot import check

    try:
        check(picture)
    except InputError as error:
        raise error.at("--plot") from None
    others = {"--output": output} if output not in (None, STANDARD_STREAM) else {}
    check_paths({"--plot": picture, **others}, named)


def _with_risk(result: Result, given: Mapping[str, Any], *, told: bool) -> Result:
    """The result with its risk, where that is told or limited."""
    guarantee = result.guarantee
    if guarantee is None:
        return result
    wanted = told or result.budget.max_advantage is not None
    if wanted and (guarantee.risk is None or guarantee.risk.prior != given["prior"]):
        from dpcalc.spec.risk import with_risk

        guarantee = with_risk(guarantee, given["prior"])
        if guarantee.risk is None and given["prior"] != _LIKELY:
            guarantee = guarantee.with_warnings("the risk of this result is not known, so --prior has no effect")
        return replace(result, guarantee=guarantee)
    return result

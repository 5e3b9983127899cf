"""An error as it is told: two lines for people, and all its parts in the format that a program asked for."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any

from dpcalc.cli.help import choices
from dpcalc.errors import DpcalcError, InputError
from dpcalc.terminal import streams

# An error is a line or two, also where it quotes what was given.
_LONGEST = 600
_UNDER = " " * len("dpcalc: ")
_FLAG = re.compile(r"(?<!\S)--[a-z][a-z-]*[a-z]|(?<!\S)--[a-z]\b")
_PLACE = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?:: .*)?")
_NO_COMMAND = re.compile(r"No such command '(?P<name>.+?)'\.(?: .*?'(?P<near>[^']+)')?")
_FIELD = re.compile(r"(?:.*: |(?=--)|(?=\w+$))(?P<field>[^\s:/]+)")


def tell(error: DpcalcError, arguments: list[str], *, code: int | None = None) -> int:
    """Say what is wrong, in words on stderr and for programs on stdout; returns the exit code."""
    from dpcalc.cli.output import wrapped
    from dpcalc.render.screen import printable

    code = error.exit_code if code is None else code
    told = _for_programs(error, code, arguments)
    try:
        if told is not None:
            streams.write(streams.harmless(told))
    except DpcalcError:
        code = 3
    wrong = f"{error.where}: {error.wrong}" if error.where else error.wrong
    lines = [wrapped(printable(_short(wrong)), first="dpcalc: ", further=_UNDER)]
    if error.hint:
        lines.append(wrapped(printable(_short(error.hint)), first=_UNDER, further=_UNDER))
    streams.tell("\n".join(lines) + "\n")
    return code


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _for_programs(error: DpcalcError, code: int, arguments: list[str]) -> str | None:
    """The error in the format that was asked for, if that is one for programs or documents."""
    from dpcalc.render.failures import FAILURES

    written = FAILURES.get(_asked_format(arguments))
    return None if written is None else written(_parts(error, code, arguments))


def _parts(error: DpcalcError, code: int, arguments: list[str]) -> dict[str, Any]:
    """Everything that is known about an error, by the names of the JSON."""
    where = error.where or ", ".join(dict.fromkeys(_FLAG.findall(error.wrong))) or _command(arguments)
    place = None if "://" in where else _PLACE.fullmatch(where)  # a port is no line
    file = place["file"] if place else where if where in arguments and _may_be_a_file(where, error) else None
    field = _FIELD.fullmatch(where) if error.where and where != file else None
    return {
        "exit": code,
        "where": where,
        "file": file,
        "line": int(place["line"]) if place else None,
        "field": field["field"].removeprefix("--").replace("-", "_") if field else None,
        "found": error.found,
        "allowed": error.allowed,
        "hint": error.hint,
        "message": _short(error.message),
    }


def _may_be_a_file(where: str, error: DpcalcError) -> bool:
    return not where.startswith("-") and where != error.found


def _command(arguments: list[str]) -> str:
    from dpcalc.commands import COMMANDS

    for words in (arguments[:2], arguments[:1]):
        if " ".join(words) in COMMANDS:
            return " ".join(["dpcalc", *words])
    return "dpcalc"


def _asked_format(arguments: list[str]) -> str:
    """The format among arguments that may be wrong in every other respect."""
    format = ""
    for flag, value in zip(arguments, [*arguments[1:], ""], strict=False):
        name, equals, attached = flag.partition("=")
        if name in ("-f", "--format"):
            format = attached if equals else value
        elif flag.startswith("-f") and not flag.startswith("--"):
            format = flag[2:]
    return format


def misused(error: Any) -> InputError:
    """What typer says about a call that is wrong, as one of our errors."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError" and context is not None:
        streams.tell(context.get_help() + "\n")
        return InputError("a command is needed")
    told = _of_parameter(error) or _of_name(error)
    if told is None:
        told = InputError(" ".join(error.format_message().split()).rstrip("."))
    more = f"see {'dpcalc' if context is None else context.command_path} --help"
    if told.hint is None and told.allowed is None:
        told.at(told.where, f"{told.message}; {more}")
    return told


def _of_parameter(error: Any) -> InputError | None:
    """An option or argument that is missing, or has a value that it may not have."""
    parameter = getattr(error, "param", None)
    if parameter is None:
        return None
    flag = max(parameter.opts, key=len)
    where = flag if flag.startswith("--") else parameter.metavar or flag
    if type(error).__name__ != "MissingParameter":
        return InputError(error.message, where=where)
    words = ", ".join(choices(parameter)) or None
    return InputError(f"is missing; one of {words}" if words else "is missing", where=where, allowed=words)


def _of_name(error: Any) -> InputError | None:
    """An option or a command that does not exist, or an option without its value."""
    option = getattr(error, "option_name", None)
    if type(error).__name__ == "NoSuchOption":
        names = [name for name in error.possibilities or () if name != "--help"]
        near = next(iter(get_close_matches(option, names, n=1, cutoff=0)), "")
        return InputError(f"no such option{near and f'; did you mean {near}?'}", where=option, found=option)
    if option is not None:
        return InputError("needs a value", where=option)
    command = _NO_COMMAND.match(error.message)
    if command is None:
        return None
    guess = f"; did you mean {command['near']}?" if command["near"] else ""
    return InputError(f"no such command{guess}", where=command["name"], found=command["name"])

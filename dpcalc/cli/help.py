"""The help of a command: plain lines that fit the terminal, options in groups, an example that can be pasted."""

from __future__ import annotations

import shlex
import shutil
import textwrap
from typing import Any, Literal, get_args, get_origin

from dpcalc.terminal import streams

_NARROWEST, _WIDEST = 60, 100
_LEFT = 24


def shown_as_output(option: Any) -> Any:
    """The option that asks for help, whose answer is written like any other: a full disk is an error."""

    def show(context: Any, _: Any, wanted: bool) -> None:
        if wanted and not context.resilient_parsing:
            streams.write(f"{context.get_help()}\n")
            context.exit()

    option.callback = show
    return option


def help_text(command: Any, context: Any) -> str:
    """Usage, what the command does, its options by group, and an example."""
    width = min(max(shutil.get_terminal_size().columns, _NARROWEST), _WIDEST)
    pieces = [_wrapped(f"dpcalc {_path(context)} {_usage(command)}", width, "  ")]
    pieces += [_wrapped(paragraph, width) for paragraph in (command.help or "").split("\n\n")]
    for title, rows in _groups(command).items():
        pieces.append("\n".join([f"{title}:", *(_row(left, right, width) for left, right in rows)]))
    example = (command.epilog or "").removeprefix("Example: ")
    if example:
        pieces.append(f"Example:\n{pasteable(example, width)}")
    return "\n\n".join(pieces) + "\n"


def pasteable(line: str, width: int) -> str:
    """A command over several lines as a shell reads it: broken before options, each line but the last ends in \\."""
    lines, current = [], " "
    words = line.split(" ") if "'" not in line and '"' not in line else list(map(shlex.quote, shlex.split(line)))
    for word in _with_values(words, width):
        if len(current) + len(word) + 3 > width and current.strip():
            lines.append(f"{current} \\")
            current = "   "
        current = f"{current} {word}"
    return "\n".join([*lines, current])


def _with_values(words: list[str], width: int) -> list[str]:
    """The words, of which an option and its value are one where they fit a line together."""
    joined: list[str] = []
    for word in words:
        before = joined[-1] if joined else ""
        is_value = before.startswith("-") and " " not in before and not word.startswith("-")
        if is_value and len(before) + len(word) + 8 <= width:
            joined[-1] = f"{before} {word}"
        else:
            joined.append(word)
    return joined


def _path(context: Any) -> str:
    return str(context.command_path).removeprefix("dpcalc").strip()


def _usage(command: Any) -> str:
    arguments = [_metavar(each) for each in command.params if each.param_type_name == "argument"]
    return " ".join([*arguments, "[OPTIONS]"])


def _metavar(argument: Any) -> str:
    name = str(argument.metavar or argument.name.upper())
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _groups(command: Any) -> dict[str, list[tuple[str, str]]]:
    """Options by their group, those without one first."""
    found: dict[str, list[tuple[str, str]]] = {}
    for each in command.params:
        if getattr(each, "hidden", False):
            continue
        if each.param_type_name == "argument":
            found.setdefault("Arguments", []).append((_metavar(each), each.help or ""))
            continue
        title = getattr(each, "rich_help_panel", None) or "Options"
        found.setdefault(title, []).append((_flags(each), _meaning(each)))
    return found


def _flags(option: Any) -> str:
    names = ", ".join(sorted(option.opts, key=len))
    return names if option.is_flag else f"{names} {option.metavar or 'WORD'}"


def _meaning(option: Any) -> str:
    words = [option.help or ""]
    if choices(option):
        words.append(f"One of {', '.join(choices(option))}.")
    default = option.default
    if default is not None and not option.is_flag and not callable(default) and option.show_default is not False:
        words.append(f"Default {_written(default)}.")
    return " ".join(words)


def _written(value: Any) -> str:
    return (
        f"{value:,}"
        if isinstance(value, int)
        else f"{value:g}".replace("e-0", "e-")
        if isinstance(value, float)
        else str(value)
    )


def choices(option: Any) -> tuple[str, ...]:
    """The words that an option may be; none if it may be anything."""
    kind = getattr(getattr(option, "type_descriptor", None), "annotation", None)
    return get_args(kind) if get_origin(kind) is Literal else ()


def _row(left: str, right: str, width: int) -> str:
    indent = " " * (_LEFT + 4)
    lines = textwrap.wrap(right, width - len(indent), break_long_words=False, break_on_hyphens=False) or [""]
    if len(left) <= _LEFT:
        first, *rest = lines
        return "\n".join([f"  {left:{_LEFT}}  {first}".rstrip(), *(indent + line for line in rest)])
    return "\n".join([f"  {left}", *(indent + line for line in lines)])


def _wrapped(text: str, width: int, indent: str = "") -> str:
    return textwrap.fill(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)

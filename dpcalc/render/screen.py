"""A screen for people: the answer first, then numbers, then what must hold, sources last. No frames."""

from __future__ import annotations

import math
import textwrap
import unicodedata
from collections.abc import Sequence

from dpcalc.guarantee import Result, Section
from dpcalc.render.words import Fact, answer, conditions, numbers
from dpcalc.report import rounded_up

NARROWEST = 60

_INDENT = "  "
_LABEL = 13
_GAP = 2
_LEAST_WORDS = 16
_BAR = 30


def as_text(result: Result, *, width: int | None = None, verbose: bool = False, quiet: bool = False) -> str:
    """The screen as plain lines, none wider than `width` if there is one."""
    first = answer(result)
    head = textwrap.wrap(first, width, break_long_words=False) if width else [first]
    if quiet:
        return "\n".join(head) + "\n"
    labelled = [section for section in result.sections if not any(section.columns)]
    facts = [*numbers(result, verbose=verbose), *(_fact(row) for section in labelled for row in section.rows)]
    tables = [section for section in result.sections if any(section.columns)]
    blocks = [head, _facts(facts, width)]
    blocks += [_table(table, width, titled=len(tables) > 1) for table in tables]
    if result.curve:
        blocks.append(_table(_curve(result.curve), width, titled=False))
    blocks.append(_facts(conditions(result, verbose=verbose), width))
    screens = ["\n\n".join("\n".join(block) for block in blocks if block)]
    screens += [as_text(part, width=width, verbose=verbose).rstrip("\n") for part in result.parts]
    return "\n\n".join(screens) + "\n"


def _curve(points: Sequence[tuple[float, float]]) -> Section:
    """ε at every δ, and a bar beside it: a person sees how it grows."""
    most = max((epsilon for epsilon, _ in points if math.isfinite(epsilon)), default=0.0)
    bars = [round(_BAR * epsilon / most) if most > 0 and math.isfinite(epsilon) else 0 for epsilon, _ in points]
    rows = tuple((delta, epsilon, "█" * bar) for (epsilon, delta), bar in zip(points, bars, strict=True))
    return Section(title="", columns=("δ", "ε", ""), rows=rows)


def _fact(row: Sequence[object]) -> Fact:
    label, *values = row
    return str(label), " ".join(cell(value) for value in values)


def _facts(facts: Sequence[Fact], width: int | None) -> list[str]:
    """Labels on the left, their text wrapped by words beside them."""
    wide = max((_width(label) + 2 for label, _ in facts), default=0)
    label_width = max(_LABEL, wide) if width is None or wide <= width // 2 else _LABEL
    lines = []
    for label, text in facts:
        indent = _INDENT + " " * label_width
        room = None if width is None else max(width - len(indent), _LEAST_WORDS)
        pieces = [text] if room is None else textwrap.wrap(text, room, break_long_words=False) or [""]
        shown = printable(label)
        lines.append(f"{_INDENT}{shown}{' ' * max(label_width - _width(shown), 1)}{printable(pieces[0])}".rstrip())
        lines += [f"{indent}{printable(piece)}" for piece in pieces[1:]]
    return lines


def _table(section: Section, width: int | None, *, titled: bool) -> list[str]:
    """Columns two spaces apart, numbers to the right; too narrow, words wrap and the last columns go."""
    rows = [[printable(cell(value)) for value in row] for row in section.rows]
    columns = list(map(printable, section.columns))
    rights = [all(_is_numeric(value) for value in row_values(section.rows, i)) for i in range(len(columns))]
    widths = [max(_width(columns[i]), *(_width(row[i]) for row in rows), 0) for i in range(len(columns))]
    widths = _fitted(widths, rights, None if width is None else width - len(_INDENT))
    lines = [f"{_INDENT}{section.title}"] if titled and section.title else []
    for row in (columns, *rows):
        lines += _row(row[: len(widths)], widths, rights)
    room = None if width is None else width - len(_INDENT)
    note = [section.note] if room is None else textwrap.wrap(section.note, room, break_long_words=False)
    return [*lines, *(f"{_INDENT}{line}" for line in note if line)]


def row_values(rows: Sequence[Sequence[object]], index: int) -> list[object]:
    """The cells of one column that say something."""
    return [row[index] for row in rows if row[index] not in (None, "", "–")]


def _is_numeric(value: object) -> bool:
    """Whether a cell is a number or a text that is made of one: 1,954, 91 %, 2.3e-5, ∞."""
    if isinstance(value, (int, float)):
        return True
    text = str(value).removesuffix("%").strip()
    return bool(text) and all(character in "0123456789.,eE+-∞<" for character in text) and any(map(_is_amount, text))


def _is_amount(character: str) -> bool:
    return character.isdigit() or character == "∞"


def _fitted(widths: list[int], rights: list[bool], room: int | None) -> list[int]:
    """Widths that fit: the widest column of words shrinks first, then the last columns are left out."""
    if room is None:
        return widths
    widths = list(widths)
    while widths and sum(widths) + _GAP * (len(widths) - 1) > room:
        excess = sum(widths) + _GAP * (len(widths) - 1) - room
        words = [i for i in range(len(widths)) if not rights[i] and widths[i] > _LEAST_WORDS]
        if not words:
            widths.pop()
            continue
        widest = max(words, key=lambda i: widths[i])
        widths[widest] = max(widths[widest] - excess, _LEAST_WORDS)
    return widths


def _row(cells: Sequence[str], widths: Sequence[int], rights: Sequence[bool]) -> list[str]:
    wrapped = [
        [text] if _width(text) <= width else textwrap.wrap(text, width)
        for text, width in zip(cells, widths, strict=True)
    ]
    lines = []
    for i in range(max(len(pieces) for pieces in wrapped)):
        parts = [pieces[i] if i < len(pieces) else "" for pieces in wrapped]
        padded = (_padded(text, width, right) for text, width, right in zip(parts, widths, rights, strict=False))
        lines.append((_INDENT + (" " * _GAP).join(padded)).rstrip())
    return lines


def _padded(text: str, width: int, right: bool) -> str:
    space = " " * max(width - _width(text), 0)
    return space + text if right else text + space


def cell(value: object) -> str:
    """A cell as text: numbers are upper bounds, and counts have thousands separators."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else rounded_up(value)


def printable(text: str) -> str:
    """The text without what would steer a terminal: a name may hold anything."""
    return "".join(c if c.isprintable() or c == " " else ascii(c)[1:-1] for c in text)


def _width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)

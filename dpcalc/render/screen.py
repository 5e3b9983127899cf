"""A screen for people: the answer first, then numbers, then what must hold, sources last. No frames."""

from __future__ import annotations

import math
import re
import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import replace

from dpcalc.charts import Chart, Line
from dpcalc.guarantee import Bar, Result, Section
from dpcalc.render.sketch import as_sketch
from dpcalc.render.sweeps import sweep
from dpcalc.render.words import Fact, answer, conditions, numbers
from dpcalc.report import in_a_column, rounded_up
from dpcalc.terminal.wrapping import Wrapper, pieces

NARROWEST = 60

# One word to the eye: a sign with what stands on its sides, a number with its unit, "step 7".
_BOUND = re.compile(r" [=≤≈×] | %|\b(clip|order|rate|step|Theorem|Corollary) (?=[\d≤])")

_INDENT = "  "
_LABEL = 13
_GAP = 2
_LEAST_WORDS = 16
_BAR = 40
_SHORTEST_BAR = 10
_LONGEST_WORD = 24  # of a table that would lose columns otherwise
_FEWEST = 3  # points of a curve that is drawn


def as_text(result: Result, *, width: int | None = None, verbose: bool = False, quiet: bool = False) -> str:
    """The screen as plain lines, none wider than `width` if there is one."""
    head = wrapped(answer(result), width)
    if quiet:
        return "\n".join(head) + "\n"
    tables = [section for section in result.sections if any(section.columns)]
    tables += [_curve(result.curve, bars=width is None or len(result.curve) < _FEWEST)] if result.curve else []
    drawn = [*(_table(table, width, titled=len(tables) > 1) for table in tables), *_sketches(result, width)]
    facts, ends = numbers(result, verbose=verbose), [*labelled(result), *conditions(result, verbose=verbose)]
    if not tables or tables[0].leads:
        blocks = [head, *drawn, _facts([*facts, *ends], width)]
    else:
        blocks = [head, _facts(facts, width), *drawn, _facts(ends, width)]
    screens = ["\n\n".join("\n".join(block) for block in blocks if block)]
    screens += [as_text(part, width=width, verbose=verbose).rstrip("\n") for part in result.parts]
    return "\n\n".join(screens) + "\n"


def wrapped(text: str, width: int | None) -> list[str]:
    """The text in lines of words; a number keeps what belongs to it."""
    if width is None:
        return [text]
    bound = _BOUND.sub(lambda found: found[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(bound, width, break_long_words=False, break_on_hyphens=False)
    if any(len(line) > width for line in lines):  # a chain of them that is longer than a line
        lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines] or [""]


def _curve(points: Sequence[tuple[float, float]], *, bars: bool) -> Section:
    """ε at every δ, and a bar beside it where no drawing follows: a person sees how it grows."""
    most = max((epsilon for epsilon, _ in points if math.isfinite(epsilon)), default=0.0)
    rows = [
        (delta, epsilon, Bar(epsilon / most if most and math.isfinite(epsilon) else 0)) for epsilon, delta in points
    ]
    columns = ("δ", "ε", "") if bars else ("δ", "ε")
    return Section(title="", columns=columns, rows=tuple(row[: len(columns)] for row in rows))


def _sketches(result: Result, width: int | None) -> list[list[str]]:
    """How a curve or a sweep runs, drawn on a terminal from as many points on as a table does not show at a glance."""
    if width is None:
        return []
    points = sorted((delta, epsilon) for epsilon, delta in result.curve if delta > 0)
    x, y = tuple(delta for delta, _ in points), tuple(epsilon for _, epsilon in points)
    curve = Chart(
        title="", x_label="δ", y_label="ε", lines=(Line(label="", x=x, y=y),), limit=result.budget.max_epsilon
    )
    drawn = [chart for chart in (curve, *sweep(result)) if len(set(chart.x_values())) >= _FEWEST]
    return [[f"{_INDENT}{line}" for line in as_sketch(chart, width - len(_INDENT))] for chart in drawn]


def labelled(result: Result) -> list[Fact]:
    """The rows of a result that have a name of their own, and no columns."""
    return [(str(label), " ".join(cell(value) for value in values)) for label, *values in result.labelled]


def _facts(facts: Sequence[Fact], width: int | None) -> list[str]:
    """Labels on the left, their text wrapped by words beside them."""
    wide = max((_width(label) + 2 for label, _ in facts), default=0)
    label_width = max(_LABEL, wide) if width is None or wide <= width // 2 else _LABEL
    lines = []
    for label, text in facts:
        indent = _INDENT + " " * label_width
        first, *others = wrapped(text, None if width is None else max(width - len(indent), _LEAST_WORDS))
        shown = printable(label)
        lines.append(f"{_INDENT}{shown}{' ' * max(label_width - _width(shown), 1)}{printable(first)}".rstrip())
        lines += [f"{indent}{printable(piece)}" for piece in others]
    return lines


def _table(section: Section, width: int | None, *, titled: bool) -> list[str]:
    """Columns two spaces apart, numbers to the right; too narrow, words wrap and the last columns go."""
    section = without_empty_columns(section)
    columns = list(map(printable, section.columns))
    texts = cells(section)
    room = None if width is None else width - len(_INDENT)
    rights = numeric_columns(section)
    drawn = [any(isinstance(row[i], Bar) for row in section.rows) for i in range(len(columns))]
    widths = [max(_width(columns[i]), *(_width(row[i]) for row in texts), 0) for i in range(len(columns))]
    least = [
        widths[i] if rights[i] else _SHORTEST_BAR if drawn[i] else _longest_word([columns[i], *(r[i] for r in texts)])
        for i in range(len(columns))
    ]
    widths = _fitted(widths, least, room)
    lines = [f"{_INDENT}{section.title}"] if titled and section.title else []
    lines += _row(columns[: len(widths)], widths, rights)
    for row, values in zip(texts, section.rows, strict=True):
        bars = [bar(v, w) if isinstance(v, Bar) else t for t, v, w in zip(row, values, widths, strict=False)]
        lines += _row(bars, widths, rights)
    about, colon, _ = section.note.partition(":")
    if colon and about in columns[len(widths) :]:
        return lines
    return [*lines, *(f"{_INDENT}{line}" for line in wrapped(section.note, room) if line)]


def without_empty_columns(section: Section) -> Section:
    """The table without columns in which nobody has said anything."""
    kept = [i for i in range(len(section.columns)) if any(row[i] != "" for row in section.rows)]
    if not section.rows or len(kept) == len(section.columns):
        return section
    rows = tuple(tuple(row[i] for i in kept) for row in section.rows)
    return replace(section, columns=tuple(section.columns[i] for i in kept), rows=rows)


def numeric_columns(section: Section) -> list[bool]:
    """Which columns hold numbers alone, and so stand on the right."""
    return [all(map(_is_numeric, row_values(section.rows, i))) for i in range(len(section.columns))]


def cells(section: Section) -> list[list[str]]:
    """The rows as text, columns of numbers with as many decimals as can be compared."""
    rows = [[printable(cell(value)) for value in row] for row in section.rows]
    for i in range(len(section.columns)):
        values = [row[i] for row in section.rows]
        known = [value for value in values if value is not None]
        if known and all(isinstance(value, float) and not isinstance(value, Bar) for value in known):
            for row, value in zip(rows, values, strict=True):
                row[i] = in_a_column(value)
    return rows


def bar(share: float, longest: int = _BAR) -> str:
    """A share as a bar; what is not 0 is seen."""
    return "█" * max(round(min(longest, _BAR) * share), 1 if share > 0 else 0)


def row_values(rows: Sequence[Sequence[object]], index: int) -> list[object]:
    """The cells of one column that say something."""
    return [row[index] for row in rows if row[index] not in (None, "", "–")]


def _is_numeric(value: object) -> bool:
    """Whether a cell is a number or a text that is made of one: 1,954, 91 %, 2.3e-5, ∞."""
    if isinstance(value, (int, float)):
        return not isinstance(value, Bar)
    text = str(value).removesuffix("%").removeprefix("<").strip()
    return bool(text) and all(character in "0123456789.,eE+-∞" for character in text) and any(map(_is_amount, text))


def _is_amount(character: str) -> bool:
    return character.isdigit() or character == "∞"


def _longest_word(texts: Sequence[str]) -> int:
    """The room that words need: a path is broken after its slashes, and a name longer than any word anywhere."""
    longest = max((_width(part) for text in texts for word in text.split() for part in pieces(word)), default=0)
    return min(longest, _LONGEST_WORD)


def _fitted(widths: list[int], least: list[int], room: int | None) -> list[int]:
    """Widths that fit: the widest column of words shrinks first, then the last columns are left out."""
    if room is None:
        return widths
    widths = list(widths)
    while len(widths) > 1 and sum(widths) + _GAP * (len(widths) - 1) > room:
        excess = sum(widths) + _GAP * (len(widths) - 1) - room
        words = [i for i in range(len(widths)) if widths[i] > max(least[i], _SHORTEST_BAR)]
        if not words:
            widths.pop()
            continue
        widest = max(words, key=lambda i: widths[i])
        widths[widest] = max(widths[widest] - excess, least[widest], _SHORTEST_BAR)
    return widths


def _row(texts: Sequence[str], widths: Sequence[int], rights: Sequence[bool]) -> list[str]:
    wrapped_cells = [
        [text] if _width(text) <= width else Wrapper(width, break_on_hyphens=False).wrap(text)
        for text, width in zip(texts, widths, strict=False)
    ]
    lines = []
    for i in range(max(map(len, wrapped_cells))):
        parts = [each[i] if i < len(each) else "" for each in wrapped_cells]
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
    if isinstance(value, Bar):
        return bar(value)
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

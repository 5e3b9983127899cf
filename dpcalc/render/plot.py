"""Pictures of results, drawn with Matplotlib when it is installed (the extra `plot`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpcalc.charts import Bars, Chart, Line, is_logarithmic, tick_text, ticks
from dpcalc.errors import InputError, missing
from dpcalc.guarantee import Result
from dpcalc.report import shortened

FORMATS = (".png", ".svg", ".pdf")

_MAIN, _OTHER, _LIMIT, _INK = "#0550ae", "#8c959f", "#b3141c", "#1b1f24"
_OVER = "#afb8c1"  # a line that is seen on top of the main one, and beside it
_DASHES = ("-", "--", ":", "-.")


def check(path: str) -> None:
    """Stop before any work where no picture could be written."""
    if Path(path).suffix.lower() not in FORMATS:
        raise InputError(f"expected a file name that ends in {', '.join(FORMATS)}, got {path!r}", where="plot")
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise missing("pictures need Matplotlib", "plot", where="plot") from None


def plot(result: Result, path: str) -> None:
    """Draw all charts of a result below each other, and write the file whole or not at all."""
    from dpcalc.files import PRIVATE, SHARED, writing
    from dpcalc.render.pictures import bars, charts

    check(path)
    drawn: list[Chart | Bars] = [*charts(result), *bars(result)]
    if not drawn:
        raise InputError("there is no curve to draw in this result", where="plot")
    figure = _figure(drawn)
    with writing(path, mode=PRIVATE if result.private else SHARED) as stream:
        figure.savefig(stream, format=Path(path).suffix[1:].lower(), dpi=150, metadata=_metadata(path))


def _metadata(path: str) -> dict[str, Any]:
    """No date, so that the same result gives the same file."""
    return {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(Path(path).suffix.lower(), {})


def _figure(charts: Sequence[Chart | Bars]) -> Any:
    from matplotlib.figure import Figure

    heights = [1.2 + 0.35 * len(chart.bars) if isinstance(chart, Bars) else 4.2 for chart in charts]
    figure = Figure(figsize=(7.5, sum(heights)), layout="constrained")
    parts = figure.subfigures(len(charts), 1, squeeze=False, height_ratios=heights)[:, 0]
    for part, chart in zip(parts, charts, strict=True):
        if isinstance(chart, Bars):
            _draw_bars(part.subplots(), chart)
        else:
            _draw(part.subplots(), chart)
    return figure


def _draw(axes: Any, chart: Chart) -> None:
    _scales(axes, chart)
    for index, line in enumerate(sorted(chart.lines, key=lambda line: line.main)):
        _line(axes, line, index, chart)
    if chart.identity:
        axes.plot(ends := _ends(chart.x_values()), ends, color=_OTHER, linestyle=":", linewidth=1)
    if chart.limit is not None:
        axes.axhline(chart.limit, color=_LIMIT, linestyle="--", linewidth=1)
        where = axes.get_yaxis_transform()
        axes.text(0.01, chart.limit, chart.limit_text(), color=_LIMIT, va="bottom", fontsize=9, transform=where)
    _labels(axes, chart)
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    _title(axes, chart)
    axes.grid(axis="y", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_bars(axes: Any, bars: Bars) -> None:
    """The first bar, which is the longest, in colour; the rest grey."""
    names = [shortened(name, 30) for name, _, _ in bars.bars]
    colours = [_MAIN, *[_OTHER] * (len(names) - 1)]
    drawn = axes.barh(range(len(names)), [share for _, share, _ in bars.bars], color=colours, height=0.65)
    axes.bar_label(drawn, labels=[text for _, _, text in bars.bars], padding=5, fontsize=9)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.3)
    axes.xaxis.set_visible(False)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    _title(axes, bars)


def _title(axes: Any, chart: Chart | Bars) -> None:
    axes.set_title(f"{chart.title}\n", loc="left", fontsize=12, fontweight="bold", color=_INK)
    told = shortened(chart.subtitle, 105)
    axes.text(0, 1.02, told, transform=axes.transAxes, fontsize=8.5, color="#59636e", va="bottom")


def _ends(values: Sequence[float]) -> list[float]:
    return [min(values), max(values)]


def _scales(axes: Any, chart: Chart) -> None:
    """Logarithmic where that shows more, with the same ticks as on a page; room at the right for the names."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, NullLocator

    xs, ys = chart.x_values(), chart.y_values()
    for axis, values, logarithmic in (
        (axes.xaxis, xs, chart.x_is_logarithmic()),
        (axes.yaxis, ys, is_logarithmic(ys)),
    ):
        if not logarithmic:
            axis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(round(value, 12))))
            continue
        (axes.set_xscale if axis is axes.xaxis else axes.set_yscale)("log")
        low, high = _ends(values)
        found = ticks(low / 1.3, high * 1.3, logarithmic=True)
        axis.set_major_locator(FixedLocator(found))
        axis.set_major_formatter(FixedFormatter([tick_text(value) for value in found]))
        axis.set_minor_locator(NullLocator())
    if not is_logarithmic(ys) and min(ys) >= 0:
        axes.set_ylim(bottom=0, top=1.08 * max(ys) or 1.0)


def _line(axes: Any, line: Line, index: int, chart: Chart) -> None:
    heights = [math.nan if y is None or math.isinf(y) else y for y in line.y]
    colour, width = (_MAIN, 2.4) if line.main else (_OTHER, 1.3)
    hidden = chart.hidden(line)
    dashes = "-" if line.main else "--" if hidden else _DASHES[index % len(_DASHES)]
    colour = _OVER if hidden else colour
    style = {"color": colour, "linewidth": width, "linestyle": dashes, "zorder": 4 if hidden else 3 if line.main else 2}
    axes.plot(line.x, heights, drawstyle="steps-post" if chart.steps else "default", **style)
    if line.lower:
        lower = [math.nan if y is None else y for y in line.lower]
        axes.fill_between(line.x, lower, heights, color=colour, alpha=0.25, linewidth=0)
    side, across = ("right", -7) if chart.identity else ("left", 7)
    for x, y, text in line.marks:
        axes.plot([x], [y], "o", color=colour, markersize=5, zorder=4)
        axes.annotate(text, (x, y), xytext=(across, 6), textcoords="offset points", ha=side, fontsize=9, color=colour)


def _labels(axes: Any, chart: Chart) -> None:
    """The name and the last value at each line's end, moved apart where they would overlap."""
    ends = [(max(line.points()), line) for line in chart.lines if line.points()]
    low, high = axes.get_ylim()
    logarithmic = axes.get_yscale() == "log"

    def share(value: float) -> float:
        return math.log(value / low) / math.log(high / low) if logarithmic else (value - low) / (high - low)

    last = -math.inf
    for (_, y), line in sorted(ends, key=lambda end: end[0][1]):
        last = max(share(y), last + 0.055)
        axes.annotate(
            line.end(),
            (1.01, last),
            xycoords="axes fraction",
            va="center",
            fontsize=9,
            color=_MAIN if line.main else "#59636e",
            fontweight="bold" if line.main else "normal",
            annotation_clip=False,
        )

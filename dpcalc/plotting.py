"""Pictures of results, drawn with Matplotlib when it is installed (the extra `plot`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from dpcalc.errors import InputError
from dpcalc.files import check_writable, writing

FORMATS = (".png", ".svg", ".pdf")


def check_plot(path: str) -> None:
    """Raise unless a picture can be drawn and put there, before the work that it shows."""
    if Path(path).suffix.lower() not in FORMATS:
        raise InputError(f"expected a file name that ends in {', '.join(FORMATS)}, got {path!r}", where="--plot")
    if find_spec("matplotlib") is None:
        raise InputError("plots need Matplotlib: pip install 'dpcalc-budget[plot]'", where="--plot")
    check_writable(path)


def plot_curves(
    path: str,
    *,
    x: Sequence[float],
    curves: Mapping[str, Sequence[float | None]],
    x_label: str,
    y_label: str,
    title: str,
) -> None:
    """Draw every curve against x and write the picture; values that are missing or infinite leave a gap."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    drawn: list[float] = []
    for label, values in curves.items():
        heights = [math.nan if value is None or math.isinf(value) else value for value in values]
        drawn.extend(height for height in heights if height > 0)
        axes.plot(x, heights, marker="o", markersize=3, label=label)
    if drawn and max(drawn) > 30 * min(drawn):
        axes.set_yscale("log")
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.set_title(title)
    axes.grid(alpha=0.3)
    axes.legend()
    with writing(path) as stream:
        figure.savefig(stream, dpi=150, format=Path(path).suffix.lower().removeprefix("."))

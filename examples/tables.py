"""What the examples share: finished runs in a file, means with their spread, and rows of a Markdown table."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dpcalc.errors import DpcalcError


class Results:
    """Finished runs by name, in a JSON file if one is given: a run that is there is not run again."""

    def __init__(self, path: str | None) -> None:
        self._path = Path(path) if path else None
        self._known: dict[str, Any] = {}
        if self._path is not None and self._path.exists():
            self._known = json.loads(self._path.read_text())

    def of(self, name: str, run: Callable[[], Any]) -> Any:
        """The result called `name`, found now unless it was before; the file is replaced in one move."""
        if name not in self._known:
            self._known[name] = run()
            if self._path is not None:
                fresh = self._path.with_name(f"{self._path.name}.new")
                fresh.write_text(json.dumps(self._known))
                fresh.replace(self._path)
        return self._known[name]


def mean(values: Sequence[float], digits: int = 2) -> str:
    """The mean, and the standard deviation if there are several."""
    spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{digits}f}{spread}"


def difference(values: Sequence[float], paper: float, digits: int = 2) -> str:
    """How far the mean is above what the paper printed."""
    return f"{statistics.mean(values) - paper:+.{digits}f}"


def row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def header(*columns: str) -> str:
    return f"{row(*columns)}\n|{'---|' * len(columns)}"


def as_command(main: Callable[[], None]) -> None:
    """Run it; what is wrong with the reader's files is told in a line, as `dpcalc` does."""
    try:
        main()
    except DpcalcError as error:
        sys.exit(str(error))

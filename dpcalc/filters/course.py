"""What records have spent after some of the steps of a log: for a picture, at little cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dpcalc.filters.individual import quantiles

if TYPE_CHECKING:
    from dpcalc.filters.run import Run

_MOST = 24  # points that are kept; then every second goes but the last, and they are taken half as often
_WIDE, _TALL = 50_000, 8  # of so many people, at least so many steps lie between two points
_PEOPLE = 2_000  # records that are looked at, evenly over all of them


class Course:
    """Leaves (step, quantiles of what was spent up to it) with a run, a few over all of its steps."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._stride, self._since = 1, 0

    def expect(self, steps: int, people: int) -> None:
        """Take few enough points from the start where it is known how many steps are to come, and of how many people.

        A fold of many people costs half as much again where it is cut into single steps.
        """
        self._stride = max(-(-steps // _MOST), _TALL if people >= _WIDE else 1)

    def pieces(self, rows: int) -> Iterator[slice]:
        """So many steps in a row, cut where a point is due; whoever goes through them tells of each (`see`)."""
        start = 0
        while start < rows:
            end = min(rows, start + max(self._stride - self._since, 1))
            yield slice(start, end)
            start = end

    def see(self, steps: int = 1) -> None:
        """Take note of steps that are complete."""
        self._since += steps
        if self._since >= self._stride:
            self._take()

    def end(self) -> None:
        """The last step is always a point."""
        if self._since:
            self._take()

    def _take(self) -> None:
        run, self._since = self._run, 0
        if run.settings.scope == "global" or not run.steps.labels:
            return
        some, state = slice(None, None, max(1, run.individuals // _PEOPLE)), run.filter.state
        sums = state.totals[:, some] + state.compensation[:, some]
        run.course.append((int(run.steps.labels[-1]), quantiles(run.settings.rule.spent(sums))))
        if len(run.course) > _MOST:
            del run.course[-2::-2]
            self._stride *= 2

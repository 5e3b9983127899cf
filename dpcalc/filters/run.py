"""A log passed through a filter: the running totals of everybody, and what happened at each step."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Floats, Indices
from dpcalc.errors import InputError
from dpcalc.filters.buckets import Buckets
from dpcalc.filters.counts import NormCounts
from dpcalc.filters.filters import IndividualFilter
from dpcalc.filters.fold import EVERYBODY, Refused, Who
from dpcalc.filters.odometer import Odometer
from dpcalc.filters.rule import ROUNDING, Rule
from dpcalc.filters.settings import Settings
from dpcalc.filters.steps import Steps
from dpcalc.filters.totals import Totals

_SAME = 1e-9  # sums of the same numbers in another order agree to this much


class Run:
    """The fold of a filter over a log. Feed it steps in order; continue it from a state; read totals at any time."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.filter = IndividualFilter(settings.rule, mode=settings.mode)
        width, rate = settings.odometer, settings.sampling_rate
        self.odometer = None if width is None else Odometer(settings.rule, width=width)
        self.course: list[tuple[int, list[float]]] = []
        self.norm_counts = None if rate is None else NormCounts(_buckets(settings.rule), rate)
        self.steps = Steps()
        self.halt_step: int | None = None
        self.clipped_values = 0
        self.present = np.zeros(0, dtype=np.int64)
        self._last_step = np.zeros(0, dtype=np.int64)
        self.names: list[Any] | None = None
        self.group_names = sorted(set((settings.groups or {}).values()))
        self._group_codes = {name: code for code, name in enumerate(self.group_names)}
        self._group_of = np.zeros(0, dtype=np.int64)
        self._weights = np.zeros(0)
        self._seen = Steps()

    @property
    def individuals(self) -> int:
        """How many records the log holds."""
        return self.filter.individuals

    def grow(self, individuals: int, names: list[Any] | None = None) -> None:
        """Make room for records that appear for the first time; `names` are all of theirs, None for 0, 1, 2, …"""
        known = self.individuals
        if individuals <= known:
            return
        self.filter.grow(individuals)
        if self.odometer is not None:
            self.odometer.grow(individuals)
        if self.norm_counts is not None:
            self.norm_counts.grow(individuals)
        more = individuals - known
        self.present = np.pad(self.present, (0, more))
        self._last_step = np.pad(self._last_step, (0, more), constant_values=np.iinfo(np.int64).min)
        self.names = names
        fresh = range(known, individuals) if names is None else names[known:individuals]
        if self.settings.resumable:
            self._weights = np.concatenate([self._weights, [_weight(name) for name in fresh]])
        if self.settings.groups is not None:
            self._group_of = np.concatenate([self._group_of, [self._group(name) for name in fresh]]).astype(np.int64)

    def _group(self, name: Any) -> int:
        found = (self.settings.groups or {}).get(str(name))
        if found is None:
            raise InputError(f"individual {name} is in no group: list everybody in `groups`")
        return self._group_codes[found]

    @property
    def group_of(self) -> Indices:
        """The number of each record's group."""
        return self._group_of

    def entries(self, step: int, codes: Indices, values: Floats) -> None:
        """Some entries of one step of a long log; raises Duplicate for a record that was there before."""
        consumed = self._consumed(step)
        if not consumed and (not self.steps.labels or step > self.steps.labels[-1]):
            self.steps.begin([step], len(self.group_names))
        everybody = self.holds_all(codes)
        who: Who = EVERYBODY if everybody else codes
        self._check_duplicates(step, codes, everybody)
        if consumed:
            self._see(step, codes.size, self._weighed_sum(values, who))
            return
        self.present[who] += 1
        self.steps.present[-1] += codes.size
        if self.settings.resumable:
            self.steps.value_sums[-1] += self._weighed_sum(values, who)
        self._count_clipped(values)
        self._advance(values, who)

    def holds_all(self, codes: Indices) -> bool:
        """Whether these are all records, in their order."""
        return codes.size == self.individuals and np.array_equal(codes, np.arange(codes.size))

    def _weighed_sum(self, values: Floats, who: Who) -> float:
        return float((values * self._weights[who]).sum())

    def block(self, first: int, block: NDArray[np.floating]) -> None:
        """Rows of an array, numbered from `first`: every record at every step."""
        labels = range(first, first + len(block))
        # The sums tell a step that was counted before from another one; without a state nobody asks.
        sums = np.zeros(len(block))
        if self.settings.resumable:
            sums = (block * self._weights).sum(axis=1)
        skipped = 0 if self._resumed_to is None else min(max(self._resumed_to + 1 - first, 0), len(block))
        for row in range(skipped):
            self._see(labels[row], block.shape[1], float(sums[row]))
        self._last_step[:] = labels[-1]
        block, sums, labels = block[skipped:], sums[skipped:], labels[skipped:]
        if not len(block):
            return
        self.present += len(block)
        start = len(self.steps.labels)
        self.steps.begin(labels, len(self.group_names))
        self.steps.view("present", start)[:] = block.shape[1]
        self.steps.view("value_sums", start)[:] = sums
        self._count_clipped(block)
        if self.settings.scope == "global" or self.odometer is not None:
            self._rows(start, block)
            return
        refused = list(self.filter.charge_block(block))
        self._count_active(start, block.shape[1], refused)
        if self.norm_counts is not None:
            self.norm_counts.add(block, refused=refused)

    def _count_active(self, start: int, people: int, refused: list[Refused]) -> None:
        active = self.steps.view("active", start)
        active[:] = people
        for found in refused:
            active[found.first : found.first + len(found.out)] -= found.out.sum(axis=1)
        if self.group_names:
            by_group = self.steps.view("active_by_group", start)
            by_group[:] = np.bincount(self._group_of, minlength=len(self.group_names))
            for found in refused:
                steps, places = np.nonzero(found.out)
                np.subtract.at(by_group, (found.first + steps, self._group_of[found.records[places]]), 1)

    def _rows(self, start: int, block: NDArray[np.floating]) -> None:
        for row, values in enumerate(block):
            self._advance(values.astype(np.float64), EVERYBODY, start + row)

    def _advance(self, values: Floats, who: Who, place: int = -1) -> None:
        active, _ = self.filter.charge(values, who)
        if self.settings.scope == "global" and not active.all():
            self.halt_step = self.steps.labels[place] if self.halt_step is None else self.halt_step
            return
        if self.odometer is not None:
            previous = (
                self.steps.labels[place - 1] if len(self.steps.labels) + min(place, 0) > 0 else self.steps.labels[0]
            )
            self.odometer.step(previous, np.where(active, values, 0.0), who)
        if self.norm_counts is not None:
            self.norm_counts.add(np.where(active, values, 0.0), who)
        self.steps.active[place] += int(active.sum())
        if self.group_names:
            groups = self._group_of[who][active]
            self.steps.view("active_by_group")[place] += np.bincount(groups, minlength=len(self.group_names))

    def _count_clipped(self, values: NDArray[np.floating]) -> None:
        clip = self.settings.rule.clip
        norms = values if self.settings.rule.width == 1 else values[0]
        if clip is not None and float(norms.max(initial=0.0)) > clip:
            self.clipped_values += int((norms > clip * (1 + self.settings.rule.tolerance)).sum())

    def count_clipped(self, steps: Indices) -> None:
        """Take note of norms that were above the clip, by their steps; those of a state were counted before."""
        self.clipped_values += sum(not self._consumed(step) for step in steps.tolist())

    def _check_duplicates(self, step: int, codes: Indices, everybody: bool) -> None:
        again = (self._last_step if everybody else self._last_step[codes]) == step
        if not everybody:
            # A record that is there twice keeps only the second mark.
            self._last_step[codes] = np.arange(codes.size)
            again |= self._last_step[codes] != np.arange(codes.size)
        if again.any():
            raise Duplicate(step, int(codes[np.argmax(again)]))
        self._last_step[EVERYBODY if everybody else codes] = step

    # Continuing a log

    def _consumed(self, step: int) -> bool:
        return bool(self._resumed_to is not None and step <= self._resumed_to)

    _resumed_to: int | None = None

    def resume(self) -> None:
        """From here on, steps that were counted before are recognised, compared and skipped."""
        self._resumed_to = self.steps.labels[-1] if self.steps.labels else None
        self._last_step[:] = np.iinfo(np.int64).min

    def _see(self, step: int, present: int, total: float) -> None:
        if not self._seen.labels or self._seen.labels[-1] != step:
            self._seen.begin([step], 0)
        self._seen.present[-1] += present
        self._seen.value_sums[-1] += total

    @property
    def skipped(self) -> int:
        """How many steps of the log had been counted before."""
        return len(self._seen.labels)

    # Shared out by individual

    def part(self, records: Indices) -> Run:
        """A run of some of the records that goes on where this one is; its steps are those that are still to come."""
        part = Run(self.settings)
        part.grow(records.size, [self.name(record) for record in records.tolist()])
        part.filter.state = self.filter.state.take(records)
        part.present = self.present[records]
        part._resumed_to = self._resumed_to
        if self.norm_counts is not None:
            part.norm_counts = self.norm_counts.part(records)
        return part

    def join(self, parts: Sequence[Run]) -> None:
        """Take in what has become of all of its parts, and of records that they have met."""
        names = [name for part in parts for name in part.names or ()]
        self.names, self._group_of = names, np.concatenate([part.group_of for part in parts])
        self._weights = np.concatenate([part._weights for part in parts])
        self.filter.state = Totals.joined(part.filter.state for part in parts)
        self.present = np.concatenate([part.present for part in parts])
        self.clipped_values += sum(part.clipped_values for part in parts)
        if self.norm_counts is not None:
            self.norm_counts = NormCounts.joined(_counts(parts))
        groups = len(self.group_names)
        self.steps = Steps.joined([self.steps, *(part.steps for part in parts)], groups)
        self._seen = Steps.joined([part._seen for part in parts], 0)

    def finish(self) -> None:
        """Checks that need the whole log: no missing steps, the same past, and everybody's norms under sampling."""
        self._check_past()
        labels = np.array(self.steps.labels)
        gaps = np.flatnonzero(np.diff(labels) != 1)
        if gaps.size:
            raise MissingStep(int(labels[gaps[0]]) + 1, int(labels[gaps[0] + 1]))
        if self.settings.sampling_rate is not None and np.any(self.present < labels.size):
            record = int(np.flatnonzero(self.present < labels.size)[0])
            raise InputError(
                f"under `sample_rate` every record needs its norm at every step, sampled or not: individual "
                f"{self.name(record)} has {int(self.present[record])} of {labels.size}"
            )

    def _check_past(self) -> None:
        known = {label: place for place, label in enumerate(self.steps.labels)} if self._seen.labels else {}
        for label, present, total in zip(self._seen.labels, self._seen.present, self._seen.value_sums, strict=True):
            place = known.get(label)
            same = place is not None and self.steps.present[place] == present
            if not same or not math.isclose(self.steps.value_sums[known[label]], total, rel_tol=_SAME):
                raise InputError(
                    f"step {label} is not the one that the state has counted; a log that continues another one "
                    "must number its steps on from it (arrays: `first_step`)"
                )

    def name(self, record: int) -> Any:
        """What the log calls a record."""
        return record if self.names is None else self.names[record]


def _weight(name: Any) -> float:
    """A number in [1, 2) of everybody's own: a sum of values that are multiplied by it also tells whose they are."""
    return 1 + zlib.crc32(str(name).encode()) / 2**32


def _counts(parts: Iterable[Run]) -> list[NormCounts]:
    return [part.norm_counts for part in parts if part.norm_counts is not None]


def _buckets(rule: Rule) -> Buckets:
    # A norm that was rounded when it was stored is widened, as the filter does it.
    tolerance = rule.tolerance if rule.tolerance > ROUNDING else 0.0
    return Buckets(sigma=rule.scale, clip=rule.clip, tolerance=tolerance)


class Duplicate(Exception):  # noqa: N818 - turned into an error with its line by the reader
    """A record that appears twice in one step."""

    def __init__(self, step: int, code: int) -> None:
        super().__init__(step, code)
        self.step, self.code = step, code


class MissingStep(Exception):  # noqa: N818 - turned into an error with its line by the reader
    """Steps that nobody took part in: most likely a part of the log that was lost."""

    def __init__(self, missing: int, following: int) -> None:
        super().__init__(missing, following)
        self.missing, self.following = missing, following

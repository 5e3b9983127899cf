"""Looks at the private records that steer a run: each is answered with noise, and the plan pays for it.

- *The best of k iterates* (Feldman–Zrnic, Appendix C, made private): the training accuracy is asked for k times with
  Gaussian noise, and the parameters with the best answer are kept.
- *When to stop a filtered run* (Feldman–Zrnic, §5): as records run out of budget, steps become noise. The number of
  records that have run out is asked for after each step beyond the plan, by one of three means: Gaussian noise on every
  count; continual counting, for each record runs out once (Dwork et al., 2010); or above-threshold, which only says
  when it is too many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpcalc.errors import InputError
from dpcalc.mechanisms.base import Mechanism
from dpcalc.mechanisms.declared import DeclaredDP
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.rounding import up
from dpcalc.training.names import StopName
from dpcalc.training.noise import Noise
from dpcalc.training.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Looks:
    """What is asked and how noisily: fixed before the run, so that its cost is known.

    `deviation` is the standard deviation of a noisy count of records; `steps` are those after which the accuracy is
    asked for; `watched` counts the steps after which a filtered run may stop.
    """

    deviation: float
    steps: tuple[int, ...] = ()
    watched: int = 0
    stop_by: StopName = "continual"

    def releases(self) -> list[tuple[Mechanism, int]]:
        """What all the looks of a run cost, under add-remove.

        A record adds ½ or −½ to a count, and 1 to at most one leaf of the counting tree, so to one node on each level.
        """
        count = Gaussian(noise_multiplier=2 * self.deviation)
        found: list[tuple[Mechanism, int]] = [(count, len(self.steps))] if self.steps else []
        if not self.watched:
            return found
        if self.stop_by == "gaussian":
            return [*found, (count, self.watched)]
        if self.stop_by == "continual":
            return [*found, (Gaussian(noise_multiplier=self.deviation), self.watched.bit_length())]
        return [*found, (DeclaredDP(epsilon=up(2 / self.scale, 1)), 1)]

    @property
    def scale(self) -> int:
        """Of the discrete Laplace noise of above-threshold, on its threshold and on each count."""
        return max(1, round(self.deviation / 2**0.5))


def looks_of(settings: Settings, records: int) -> Looks:
    """The looks of a run over so many records: with a filter from the planned step on, else up to the last one."""
    planned, total, wanted = settings.planned_steps(records), settings.all_steps(records), settings.keep_best
    first, more = (planned, total - planned) if settings.filter != "none" else (total, 0)
    every = settings.look_every or max(1, (more or total // 2) // max(1, wanted - 1))
    if settings.filter == "none":
        first -= every * max(0, wanted - 1)
    steps = tuple(first + every * index for index in range(wanted))
    if steps and not 0 < steps[0] <= steps[-1] <= total:
        raise InputError(f"{wanted} looks, {every} steps apart, do not fit into a run of {total} steps.")
    watched = more if settings.stop_below is not None else 0
    return Looks(deviation=settings.look_noise * records, steps=steps, watched=watched, stop_by=settings.stop_by)


@dataclass
class Looking:
    """What the looks of a run have seen so far: released, but for `ran_out`, true counts as sensitive as a log."""

    answers: list[tuple[int, float]] = field(default_factory=list)
    counts: list[float] = field(default_factory=list)
    # Noisy sums of the counting tree, by the place at which their stretch of steps ends.
    nodes: dict[int, float] = field(default_factory=dict)
    threshold: int | None = None
    stopped: int | None = None
    ran_out: list[int] = field(default_factory=list)

    @property
    def best(self) -> int | None:
        """The step with the best answer, the first of equal ones."""
        return max(self.answers, key=lambda answer: answer[1])[0] if self.answers else None

    def ask(self, step: int, right: int, records: int, looks: Looks, noise: Noise) -> bool:
        """Release the share of records that were right after this step; whether it is the best so far."""
        self.answers.append((step, _noisy(right - records / 2, 0.5, looks, noise) / records + 0.5))
        return self.best == step

    def validate(self, step: int, merit: float) -> bool:
        """Note a merit on public records, which needs no noise; whether it is the best so far."""
        self.answers.append((step, merit))
        return self.best == step

    def watch(self, step: int, lost: int, records: int, *, most: float, looks: Looks, noise: Noise) -> None:
        """Stop after this step, one beyond the plan, if more than `most` of the records seem to have run out."""
        self.ran_out.append(lost)
        if looks.stop_by == "above-threshold":
            if self.threshold is None:
                self.threshold = discrete_laplace(looks.scale, noise.below)
            above = lost + discrete_laplace(looks.scale, noise.below) > int(most) + self.threshold
        else:
            if looks.stop_by == "gaussian":
                self.counts.append(_noisy(lost - records / 2, 0.5, looks, noise) + records / 2)
            else:
                self.counts.append(self._counted(looks, noise))
            above = self.counts[-1] > most
        if above:
            self.stopped = step

    def _counted(self, looks: Looks, noise: Noise) -> float:
        """The sum over a binary tree of steps: the node that ends here, and those before it that make up the rest."""
        at = len(self.ran_out)
        start = at - (at & -at)
        newly = self.ran_out[-1] - (self.ran_out[start - 1] if start else 0)
        self.nodes[at] = _noisy(float(newly), 1.0, looks, noise)
        found = 0.0
        while at > 0:
            found += self.nodes[at]
            at -= at & -at
        return found

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a checkpoint."""
        return {**vars(self), "nodes": list(self.nodes.items())}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Looking:
        """What a checkpoint held."""
        answers = [(int(step), float(share)) for step, share in stored["answers"]]
        return cls(**{**stored, "answers": answers, "nodes": {int(at): float(sum_) for at, sum_ in stored["nodes"]}})


def _noisy(count: float, sensitivity: float, looks: Looks, noise: Noise) -> float:
    return float(noise.add(np.array([count]), deviation=looks.deviation, sensitivity=sensitivity)[0])


def discrete_laplace(scale: int, below: Callable[[int], int]) -> int:
    """An integer x with probability proportional to exp(−|x|/scale), exactly (Canonne et al. 2020, Algorithm 2)."""
    while True:
        remainder = below(scale)
        if not _exponential_coin(remainder, scale, below):
            continue
        multiple = 0
        while _exponential_coin(1, 1, below):
            multiple += 1
        value, negative = remainder + scale * multiple, below(2)
        if value or not negative:
            return -value if negative else value


def _exponential_coin(numerator: int, denominator: int, below: Callable[[int], int]) -> bool:
    """True with probability exp(−numerator/denominator), for a fraction of at most 1."""
    turn = 1
    while below(denominator * turn) < numerator:
        turn += 1
    return turn % 2 == 1

"""A run of noisy descent as it was asked for, in balls, and what the theorems make of one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from flint import arb

from dpcalc.referee.entries import NotCheckedError

LAST_DIGITS = 1e-11  # relative: parameters are rounded upwards by less
MOST_STEPS = 200_000  # of a schedule, each of which is gone through


@dataclass(frozen=True)
class Derived:
    """`least`: no smaller parameter follows from the theorems, if that is known; `most`: one that does follow."""

    most: arb
    least: arb | None


@dataclass(frozen=True)
class Run:
    """A run as it was asked for, in balls."""

    algorithm: str
    sensitivity: arb
    noise: arb
    rate: arb | None
    batch: int
    records: int
    steps: int
    contraction: arb | None
    diameter: arb | None
    schedule: Sequence[Mapping[str, Any]]
    losses: tuple[arb, arb] | None
    is_poisson: bool

    def every_step(self) -> list[tuple[arb, arb]]:
        """η and σ of each step, the first one first."""
        if self.steps > MOST_STEPS:
            raise NotCheckedError("a schedule of very many steps")
        rows, found = sorted(self.schedule, key=lambda row: int(row["step"])), list[tuple[arb, arb]]()
        ends = [int(row["step"]) - 1 for row in rows[1:]] + [self.steps]
        for row, end in zip(rows, ends, strict=True):
            found += [(arb(float(row["lr"])), arb(float(row["sigma"])))] * (min(end, self.steps) - len(found))
        return found

    @property
    def share(self) -> Fraction:
        return Fraction(self.batch, self.records)

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Run:
        records, algorithm = int(request["n"]), str(request["algorithm"])
        batch = records if algorithm == "gd" else int(request.get("batch_size", records))
        clip = request.get("clip")
        moves = 2 if request.get("adjacency", "replace-one") == "replace-one" else 1  # clips, at most
        sensitivity = arb(float(request["sensitivity"])) if clip is None else moves * arb(float(clip))
        schedule = request.get("schedule") or ()
        if "steps" in request:
            steps = int(request["steps"])
        elif "epochs" in request:
            steps = math.ceil(Fraction(str(request["epochs"])) * records / batch)
        else:
            steps = max(int(row["step"]) for row in schedule)
        rate = arb(float(request["lr"])) if "lr" in request else None
        losses = None  # unless they are known to be convex
        if "smoothness" in request and {"strong_convexity", "diameter"} & set(request):
            losses = arb(float(request.get("strong_convexity", 0.0))), arb(float(request["smoothness"]))
        factor = contraction(losses, rate) if losses and rate is not None else None
        diameter = arb(float(request["diameter"])) if "diameter" in request else None
        noise = _noise(request, sensitivity, batch)
        return cls(
            algorithm, sensitivity, noise, rate, batch, records, steps, factor, diameter, schedule, losses,
            is_poisson=algorithm == "sgd" and moves == 1,
        )  # fmt: skip


def _noise(request: Mapping[str, Any], sensitivity: arb, batch: int) -> arb:
    """σ on the average, however it was written."""
    if "sigma" in request:
        return arb(float(request["sigma"]))
    if "noise_multiplier" in request:
        return arb(float(request["noise_multiplier"])) * arb(float(request["clip"])) / batch
    if "noise_over_sensitivity" in request:
        return arb(float(request["noise_over_sensitivity"])) * sensitivity / batch
    return arb(0)  # that of a schedule


def contraction(losses: tuple[arb, arb], rate: arb) -> arb | None:
    """c = max(|1 − ηm|, |1 − ηM|), if a step is a contraction at all."""
    strong, smooth = losses
    if not rate * smooth <= 2:
        return None
    return abs(1 - rate * strong).max(abs(1 - rate * smooth))

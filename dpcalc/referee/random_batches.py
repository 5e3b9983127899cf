"""Last iterates of random batches: whether a list G(μ) ⊗ C_p(G(μ_1))^{⊗k_1} ⊗ … follows from what was asked about.

One-sided shifts (docs/sgd-bound.md) hold for any number of steps without and with a shift and any split of the noise.
The list tells which were chosen; here the least μ of that choice is worked out. A list of all steps needs none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from flint import arb

from dpcalc.referee.entries import NotCheckedError
from dpcalc.referee.runs import LAST_DIGITS, Derived, Run, contraction


def parameter(
    entries: Sequence[Mapping[str, Any]], run: Run, largest_batch: int | None
) -> tuple[float, Derived] | None:
    """The μ of the list's Gaussian, and the least one that its choice allows; None where all steps are listed."""
    if run.schedule:
        raise NotCheckedError("random batches under a schedule are not worked out again")
    square, unlikely, plain, shifted, widest = arb(0), arb(0), 0, 0, arb("inf")
    for entry in entries:
        count = int(entry.get("count", 1))
        if entry.get("type") == "dp" and float(entry["epsilon"]) == 0:
            unlikely += count * arb(float(entry["delta"]))
        elif entry.get("type") != "gaussian":
            raise NotCheckedError("what it rests on are no Gaussians, and is taken as it stands")
        elif "sampling" not in entry:
            square += count / arb(float(entry["noise_multiplier"])) ** 2
        elif (widening := _widening(entry, run)) <= 1 + LAST_DIGITS:
            plain += count
        else:
            shifted, widest = shifted + count, widest.min(widening)
    earlier = run.steps - plain - shifted
    if earlier <= 0:
        return None
    most = _shifts(run, (earlier, plain, shifted), widest, _factor(run, largest_batch, unlikely))
    return float(square.sqrt()), Derived(most, None)


def _widening(entry: Mapping[str, Any], run: Run) -> arb:
    """By how much a sampled step is dearer than that of the run: β where its noise is split, else 1."""
    scheme = "poisson" if run.is_poisson else "fixed-size"
    sampling = entry["sampling"]
    widening = run.noise * run.batch / (run.sensitivity * arb(float(entry["noise_multiplier"])))
    if sampling.get("scheme") != scheme or float(sampling["rate"]) < float(run.share) * (1 - LAST_DIGITS):
        raise NotCheckedError("its batches are not those that were asked about")
    if not widening >= 1 - LAST_DIGITS:
        raise NotCheckedError("its noise is larger than was asked about")
    return widening


def _shifts(run: Run, steps: tuple[int, int, int], widening: arb, c: arb) -> arb:
    """α·c^{r₁+r₂}·z·√((1 - c²)/(1 - c^{2r₂}))/(ησ), 1/α² + 1/β² = 1, z = min(D, (ηL/b)(1 - c^τ)/(1 - c))."""
    earlier, plain, shifted = steps
    if not shifted:
        raise NotCheckedError(f"it counts {plain} of {run.steps} steps")
    assert run.rate is not None
    distance = run.rate * run.sensitivity / run.batch * _geometric(c, earlier)
    if run.diameter is not None:
        distance = distance.min(run.diameter)
    wanted = c ** (plain + shifted) * distance / _geometric(c**2, shifted).sqrt()
    split = (1 - 1 / widening**2).sqrt()
    return wanted / (split * run.rate * run.noise)


def _geometric(ratio: arb, count: int) -> arb:
    """1 + c + … + c^{count - 1}."""
    return (1 - ratio**count) / (1 - ratio) if ratio < 1 else arb(count)


def _factor(run: Run, largest_batch: int | None, unlikely: arb) -> arb:
    """c of every step; for Poisson batches of those up to the largest, if larger ones are as unlikely as is listed."""
    found = run.contraction
    if run.is_poisson and run.losses is not None and run.rate is not None:
        if largest_batch is None or not _overflow(run, largest_batch) <= unlikely * (1 + LAST_DIGITS):
            raise NotCheckedError("larger batches than it allows for are likelier than it says")
        strong, smooth = run.losses
        grown = strong + (smooth - strong) * max(arb(1), arb(largest_batch) / run.batch)
        found = contraction((strong, grown), run.rate)
    if found is None or not found <= 1:
        raise NotCheckedError("its losses are not known to be convex, or its steps are too long")
    return found


def _overflow(run: Run, largest_batch: int) -> arb:
    """The chance that some step draws so many of the others."""
    return run.steps * _tail(run.records - 1, run.share, largest_batch)


def _tail(count: int, chance: Fraction, least: int) -> arb:
    """P(Bin(count, chance) ≥ least) from above: term by term, and a geometric series for the rest."""
    if least > count:
        return arb(0)
    q = arb(chance.numerator) / chance.denominator
    ways = arb(count + 1).lgamma() - arb(least + 1).lgamma() - arb(count - least + 1).lgamma()
    term = (ways + least * q.log() + (count - least) * (1 - q).log()).exp()
    total = arb(0)
    for place in range(least, count + 1):
        ratio = (count - place) * q / ((place + 1) * (1 - q))
        if ratio < 1 and term < total * LAST_DIGITS / 8:
            return total + term / (1 - ratio)
        total, term = total + term, term * ratio
    return total

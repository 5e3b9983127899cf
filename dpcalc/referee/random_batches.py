"""Last iterates of random batches: whether a list G(μ) ⊗ C_p(G(μ_1))^{⊗k_1} ⊗ … follows from what was asked about.

One-sided shifts (docs/sgd-bound.md) hold for any number of steps without and with a shift and any split of the noise.
The list tells which were chosen; here the least μ of that choice is worked out. A list of all steps needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

from flint import arb

from dpcalc.referee.entries import NotCheckedError
from dpcalc.referee.runs import LAST_DIGITS, Derived, Run, contraction

_Losses = Callable[[], tuple[arb, arb]]
_NO_STEP = "its losses are not known to be convex, or its steps are too long"


def parameter(
    entries: Sequence[Mapping[str, Any]], run: Run, largest_batch: int | None
) -> tuple[float, Derived] | None:
    """The μ of the list's Gaussian, and the least one that its choice allows; None where all steps are listed."""
    square, unlikely = arb(0), arb(0)
    sampled: list[tuple[arb, int]] = []  # the noise multipliers of steps, and how many have them
    for entry in entries:
        count = int(entry.get("count", 1))
        if entry.get("type") == "dp" and float(entry["epsilon"]) == 0:
            unlikely += count * arb(float(entry["delta"]))
        elif entry.get("type") != "gaussian":
            raise NotCheckedError("what it rests on are no Gaussians, and is taken as it stands")
        elif "sampling" not in entry:
            square += count / arb(float(entry["noise_multiplier"])) ** 2
        else:
            _check_sampling(entry["sampling"], run)
            sampled.append((arb(float(entry["noise_multiplier"])), count))
    if sum(count for _, count in sampled) > run.steps:
        raise NotCheckedError("it lists more steps than were asked about")
    losses = partial(_losses, run, largest_batch, unlikely)
    most = _step_by_step(run, sampled, losses) if run.schedule else _at_once(run, sampled, losses)
    return None if most is None else (float(square.sqrt()), Derived(most, None))


def _check_sampling(sampling: Mapping[str, Any], run: Run) -> None:
    scheme = "poisson" if run.is_poisson else "fixed-size"
    if sampling.get("scheme") != scheme or float(sampling["rate"]) < float(run.share) * (1 - LAST_DIGITS):
        raise NotCheckedError("its batches are not those that were asked about")


def _split(run: Run, sigma: arb, multiplier: arb) -> arb:
    """1/α² = 1 - 1/β² of the noise of a step, β being by how much it is dearer than that of the run; at least 0."""
    narrowing = run.sensitivity * multiplier / (sigma * run.batch)
    if not narrowing <= 1 + LAST_DIGITS:
        raise NotCheckedError("its noise is larger than was asked about")
    return (1 - narrowing**2).max(arb(0))


def _at_once(run: Run, sampled: Sequence[tuple[arb, int]], losses: _Losses) -> arb | None:
    """Of constant steps, those without a shift first."""
    plain, shifted, split = 0, 0, arb(1)
    for multiplier, count in sampled:
        left = _split(run, run.noise, multiplier)
        if left <= 4 * LAST_DIGITS:
            plain += count
        else:
            shifted, split = shifted + count, split.min(left)
    earlier = run.steps - plain - shifted
    if earlier == 0:
        return None
    assert run.rate is not None
    return _shifts(run, (earlier, plain, shifted), split, _factor(losses(), run.rate))


def _step_by_step(run: Run, sampled: Sequence[tuple[arb, int]], losses: _Losses) -> arb | None:
    """Of a schedule's last steps, the noisiest are those with most noise in the list; of equal ones the earlier.

    Any assignment is a choice of splits: A_τ z/√Σ(A_k η_k σ_k/α_k)² with A_k = c_{k+1}⋯c_t follows from it
    (Cauchy-Schwarz), and A_τ z is at most A_τ D and Σ A_k η_k L/b of the steps up to τ.
    """
    steps = run.every_step()
    earlier = run.steps - sum(count for _, count in sampled)
    ordered = sorted(range(earlier, run.steps), key=lambda k: (-float(steps[k][1]), k))
    multipliers = [each for each, count in sorted(sampled, key=lambda part: -float(part[0])) for _ in range(count)]
    split = {k: _split(run, steps[k][1], each) for k, each in zip(ordered, multipliers, strict=True)}
    if not earlier:
        return None
    known = losses()
    left, noise, injected, carried = arb(1), arb(0), arb(0), arb(0)
    for k in reversed(range(run.steps)):
        rate, sigma = steps[k]
        if k >= earlier:
            noise += (left * rate * sigma) ** 2 * split[k]
        else:
            carried = carried if k < earlier - 1 else left
            injected += left * rate * run.sensitivity / run.batch
        left *= _factor(known, rate)
    if run.diameter is not None:
        injected = injected.min(carried * run.diameter)
    if not noise > 0:
        raise NotCheckedError(f"it counts {run.steps - earlier} of {run.steps} steps")
    return injected / noise.sqrt()


def _shifts(run: Run, steps: tuple[int, int, int], split: arb, c: arb) -> arb:
    """α·c^{r₁+r₂}·z·√((1 - c²)/(1 - c^{2r₂}))/(ησ), 1/α² + 1/β² = 1, z = min(D, (ηL/b)(1 - c^τ)/(1 - c))."""
    earlier, plain, shifted = steps
    if not shifted:
        raise NotCheckedError(f"it counts {plain} of {run.steps} steps")
    assert run.rate is not None
    distance = run.rate * run.sensitivity / run.batch * _geometric(c, earlier)
    if run.diameter is not None:
        distance = distance.min(run.diameter)
    wanted = c ** (plain + shifted) * distance / _geometric(c**2, shifted).sqrt()
    return wanted / (split.sqrt() * run.rate * run.noise)


def _geometric(ratio: arb, count: int) -> arb:
    """1 + c + … + c^{count - 1}."""
    return (1 - ratio**count) / (1 - ratio) if ratio < 1 else arb(count)


def _losses(run: Run, largest_batch: int | None, unlikely: arb) -> tuple[arb, arb]:
    """The least and the largest curvature; of Poisson batches up to a largest, if larger ones are as rare as listed."""
    if run.losses is None:
        raise NotCheckedError(_NO_STEP)
    strong, smooth = run.losses
    if not run.is_poisson:
        return strong, smooth
    if largest_batch is None or not _overflow(run, largest_batch) <= unlikely * (1 + LAST_DIGITS):
        raise NotCheckedError("larger batches than it allows for are likelier than it says")
    return strong, strong + (smooth - strong) * max(arb(1), arb(largest_batch) / run.batch)


def _factor(losses: tuple[arb, arb], rate: arb) -> arb:
    """c of a step."""
    found = contraction(losses, rate)
    if found is None or not found <= 1:
        raise NotCheckedError(_NO_STEP)
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

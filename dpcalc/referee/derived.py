"""What `sgd-bound` and `exp-mech` derive before anything is composed, from their requests and in balls.

A result lists a Gaussian, or sampled ones; here the parameters of that list are worked out again. Nothing of
`dpcalc.last_iterate` is used: closed forms for constant steps, the convex minorant of Theorem C.3 for all others (B is
Bok et al. 2024).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from flint import arb

from dpcalc.referee import random_batches
from dpcalc.referee.entries import NotCheckedError
from dpcalc.referee.runs import LAST_DIGITS, Derived, Run, contraction

_MOST_PLACES = 400_000  # steps of a schedule times batches of a cycle
_MOST_LAST = 3_000  # steps that start from the diameter


def parameter(result: Mapping[str, Any]) -> tuple[float, Derived] | None:
    """The μ that a result rests on and what it should be; None where it derives none."""
    request = (result.get("details") or {}).get("request")
    kind = result.get("command")
    if kind not in ("sgd-bound", "exp-mech"):
        return None
    if not isinstance(request, Mapping):
        raise NotCheckedError("it does not store what it was derived from")
    entries = result["mechanisms"]
    if kind == "exp-mech" and "epsilon_mech" in request:
        _same(entries, float(request["epsilon_mech"]), int(request.get("count", 1)))
        return None
    if kind == "sgd-bound" and request.get("algorithm") == "sgd" and int(request["batch_size"]) < int(request["n"]):
        return random_batches.parameter(entries, Run.of(request), (result["details"]).get("largest_batch"))
    if kind == "exp-mech" and entries[0].get("type") == "exponential" and not {"lr", "steps"} & set(request):
        largest = 2 * arb(float(request["lipschitz"])) * arb(float(request["diameter"]))
        _same(entries, largest, 1)
        return None
    if len(entries) != 1 or entries[0].get("type") != "gdp" or int(entries[0].get("count", 1)) != 1:
        raise NotCheckedError("what it rests on is no μ, and is taken as it stands")
    found = _sampling(request) if kind == "exp-mech" else _descent(request, result["details"].get("tau"))
    return float(entries[0]["mu"]), found


def _same(entries: Sequence[Mapping[str, Any]], epsilon: arb | float, count: int) -> None:
    """That a result rests on so many choices of this ε (or a larger one) and on nothing less."""
    stated = [(str(entry.get("type")), float(entry["epsilon"]), int(entry.get("count", 1))) for entry in entries]
    kind, value, times = stated[0]
    if len(stated) != 1 or kind != "exponential" or times < count or not arb(value) * (1 + LAST_DIGITS) >= epsilon:
        raise NotCheckedError("what it rests on is not what was asked about")


def _descent(request: Mapping[str, Any], tau: int | None) -> Derived:
    """B, Theorems 4.1–4.6 and C.3."""
    run = Run.of(request)
    if run.schedule:
        return _scheduled(run, tau or 0)
    every = run.algorithm == "gd" or run.batch == run.records
    length = 1 if every else run.records // run.batch
    if run.records % run.batch and not every:
        raise NotCheckedError("batches of different sizes")
    uses = -(-run.steps // length)
    unit = run.sensitivity / (run.batch * run.noise)
    composed = arb(uses).sqrt() * unit
    c = run.contraction
    if c is None:
        return Derived(composed, composed)
    if run.steps % length:
        raise NotCheckedError("a part of an epoch")
    shifted = composed
    if c < 1:
        grown = (1 - c ** (length * uses)) / (1 + c ** (length * uses)) * (1 + c) / (1 - c)
        if not every:
            rest = c ** (length * (uses - 1))
            grown = 1 + c ** (2 * length - 2) * (1 - c**2) / (1 - c**length) ** 2 * (1 - rest) / (1 + rest)
        shifted = grown.sqrt() * unit
    best = _smaller(composed, shifted)
    if run.diameter is None:
        return Derived(best, best)
    projected = _projected(run, length)
    return Derived(_smaller(best, projected), None)


def _projected(run: Run, length: int) -> arb:
    """From iterates at most D apart, the record being in the last step: about the best number of last steps."""
    most = min(run.steps, _MOST_LAST)

    def mu(last: int) -> arb:
        assert run.contraction is not None
        assert run.rate is not None
        assert run.diameter is not None
        carried, back = arb(1), []
        for step in range(last):
            shift = run.rate * run.sensitivity / run.batch if step % length == 0 else arb(0)
            back.append(((carried * run.rate * run.noise) ** 2, carried * shift))
            carried *= run.contraction
        return _minorant_energy(back, carried * run.diameter).sqrt()

    low, high = 1, most  # any number is a bound; it falls and then rises, but for the steps of an epoch
    while high - low > 4 * length + 8:
        first, second = (at - at % length for at in (low + (high - low) // 3, high - (high - low) // 3))
        low, high = (low, second) if mu(first) < mu(second) else (first, high)
    return min((mu(last) for last in range(max(low, 1), high + 1)), key=float)


def _scheduled(run: Run, tau: int) -> Derived:
    """The convex minorant of shifts over noise, both carried to the last step (B, Theorem C.3), of the worst record.

    With a constraint also from iterates that are at most D apart after a use of the record near step `tau`.
    """
    length = 1 if run.algorithm == "gd" else run.records // run.batch
    if run.steps * length > _MOST_PLACES:
        raise NotCheckedError("a schedule of very many steps for each of many records")
    steps, carried = run.every_step(), [arb(1)]
    factors = [None if run.losses is None else contraction(run.losses, rate) for rate, _ in steps]
    for factor in reversed(factors):
        carried.append(carried[-1] * (arb(1) if factor is None else factor))
    found = []
    for used in range(min(length, run.steps)):
        energy, back = arb(0), []
        for last, (rate, sigma) in enumerate(reversed(steps)):
            used_here = (run.steps - 1 - last) % length == used
            shift = rate * run.sensitivity / run.batch if used_here else arb(0)
            energy += (shift / (rate * sigma)) ** 2
            back.append(((carried[last] * rate * sigma) ** 2, carried[last] * shift))
        options = [energy]
        if None not in factors:
            options.append(_minorant_energy(back, arb(0)))
            for start in range(max(tau - length, 1), min(tau + length + 1, run.steps)):
                if run.diameter is not None and start % length == (used + 1) % length:
                    last = run.steps - start
                    options.append(_minorant_energy(back[:last], carried[last] * run.diameter))
        found.append(min(options, key=float))
    worst = max(found, key=float).sqrt()
    known = None in factors or (run.algorithm == "gd" and run.diameter is None)
    return Derived(worst, worst if known else None)


def _minorant_energy(back: Sequence[tuple[arb, arb]], first: arb) -> arb:
    """min Σ(a/w)² for w² and shifts, both carried to the end and told from there, and `first` at the start."""
    width, rise = arb(0), first
    hull = [(arb(0), arb(0))]
    for noise, shift in reversed(back):
        width, rise = width + noise, rise + shift
        while len(hull) > 1:
            (a, v), (b, w) = hull[-2:]
            if (w - v) * (width - b) < (rise - w) * (b - a):
                break
            hull.pop()
        hull.append((width, rise))
    return sum(((w - v) ** 2 / (b - a) for (a, v), (b, w) in pairwise(hull)), arb(0))


def _sampling(request: Mapping[str, Any]) -> Derived:
    """B, Section 5: exactly, or by a chain of step size η, whose noise on the gradient has σ = √(2/η)."""
    scale = arb(float(request["lipschitz"]))
    options, exact = [], True
    rate = arb(float(request["lr"])) if "lr" in request else None
    if "strong_convexity" in request:
        strong = arb(float(request["strong_convexity"]))
        if rate is None:
            options.append(scale / strong.sqrt())
        else:
            c = contraction((strong, arb(float(request["smoothness"]))), rate)
            if c is None or not c < 1:
                raise NotCheckedError("a chain that does not contract")
            far = c ** int(request["steps"]) if "steps" in request else arb(0)
            options.append(((1 - far) / (1 + far) * (1 + c) / (1 - c) * rate / 2).sqrt() * scale)
    if "diameter" in request:
        product = scale * arb(float(request["diameter"]))
        options.append((4 * product + (2 * rate * scale**2 if rate is not None else 0)).sqrt())
        exact = rate is None and "strong_convexity" not in request
    if not options:
        raise NotCheckedError("neither strong convexity nor a diameter is stated")
    best = options[0] if len(options) == 1 else _smaller(*options)
    return Derived(best, best if exact else None)


def _smaller(x: arb, y: arb) -> arb:
    return x.min(y)

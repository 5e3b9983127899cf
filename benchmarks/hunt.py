"""Hunts for a false bound: random questions, answered a second time by code that shares nothing with the package.

    python benchmarks/hunt.py --seconds 3600 --seed 1 [KIND ...]

*discrete*: lists of randomised responses, declared (ε,δ), discrete Laplace noise, Poisson-sampled or not, enumerated in
40 digits. *gaussian*: Poisson-sampled Gaussians (one kind or several), by a contour integral of their own, accurate to
1e-7. *fixed*: one step of sampling without replacement, by its closed form. *replaced*: one Poisson step under
replace-one, against a record that turns into its opposite. *laplace*: one sampled Laplace step. *declared*: RDP at some
orders, against Bernoulli pairs that keep to it, with the risk. *schedule*: wide noise and rate schedules, by a convex
minorant in rationals. Logs (hunt_logs.py): *filter*, *columns*, *sampled*. Other commands (hunt_answers.py): *turned*,
*allocated*, *converted*, *calibrated*, *adversary*, *read*. Mixed lists (hunt_lists.py): *mixed*, *solved*. Not part of
CI. Prints every contradiction with its question, and how many of each kind were asked, also when it is interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import math
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import mpmath
import numpy as np

mpmath.mp.dps = 40
Atoms = dict[Any, tuple[Any, Any]]  # key of a loss -> (P-mass, Q-mass)
_INTERRUPTED = 130
Check = tuple[list[str], Callable[[dict[str, Any]], str | None]]


def asked(arguments: list[str]) -> tuple[int, dict[str, Any]]:
    """What the command line answers."""
    from dpcalc.cli.main import main

    out = io.StringIO()
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        try:
            main([*arguments, "-f", "json"])
        except SystemExit as end:
            code = int(end.code or 0)
    return code, json.loads(out.getvalue() or "{}")


def number(value: Any) -> float:
    return math.inf if value in ("inf", None) else float(value)


def log_uniform(draw: random.Random, low: float, high: float) -> float:
    return math.exp(draw.uniform(math.log(low), math.log(high)))


def judged(result: dict[str, Any], truth: float, slack: float = 0.0) -> str | None:
    """What is wrong with an interval, if anything is."""
    upper, lower = number(result["epsilon"]), result["epsilon_lower"]
    if not upper >= truth * (1 - slack) - slack:
        return f"upper bound {upper!r} is below {truth!r}"
    if lower is not None and not number(lower) <= truth * (1 + slack) + slack:
        return f"lower bound {lower!r} is above {truth!r}"
    return None


# -- discrete pairs, by enumeration ----------------------------------------------------------------------------------


def two_points(epsilon: Any, delta: Any) -> Atoms:
    likely = (1 - delta) / (1 + mpmath.exp(-epsilon))
    rest = 1 - delta - likely
    atoms: Atoms = {epsilon: (likely, rest), -epsilon: (rest, likely)}
    if delta:
        atoms |= {mpmath.inf: (delta, mpmath.mpf(0)), -mpmath.inf: (mpmath.mpf(0), delta)}
    return atoms


def discrete_laplace(scale: Any, shift: int) -> Atoms:
    """Losses (shift − 2k)/scale, k = 0 … shift, of noise of mass proportional to e^{−|x|/scale}."""
    r = mpmath.exp(-1 / scale)
    unit = (1 - r) / (1 + r)
    atoms: Atoms = {}
    for k in range(shift + 1):
        tail = unit / (1 - r)
        if k == 0:
            p, q = tail, tail * r**shift
        elif k == shift:
            p, q = tail * r**shift, tail
        else:
            p, q = unit * r**k, unit * r ** (shift - k)
        atoms[(shift - 2 * k) / scale] = (p, q)
    return atoms


def mixed(atoms: Atoms, rate: Any) -> Atoms:
    """((1−q)Q + qP, Q)."""
    found: Atoms = {}
    for p, q in atoms.values():
        mixture = (1 - rate) * q + rate * p
        key = mpmath.inf if q == 0 else (-mpmath.inf if mixture == 0 else mpmath.log(mixture / q))
        old = found.get(key, (0, 0))
        found[key] = (old[0] + mixture, old[1] + q)
    return found


def swapped(atoms: Atoms) -> Atoms:
    return {-loss: (q, p) for loss, (p, q) in atoms.items()}


def product(first: Atoms, second: Atoms) -> Atoms:
    found: dict[Any, list[Any]] = {}
    for a, (p, q) in first.items():
        for b, (r, s) in second.items():
            if mpmath.isinf(a) and mpmath.isinf(b) and a != b:
                continue
            loss = a + b
            key = str(loss) if mpmath.isinf(loss) else mpmath.nstr(loss, 28, min_fixed=1, max_fixed=0)
            slot = found.setdefault(key, [loss, mpmath.mpf(0), mpmath.mpf(0)])
            slot[1] += p * r
            slot[2] += q * s
    return {loss: (p, q) for loss, p, q in found.values()}


def epsilon_of(atoms: Atoms, delta: Any) -> Any:
    """The least ε ≥ 0 with Σ(p − e^ε q)₊ ≤ δ: the sum is linear in e^ε between two losses."""
    ordered = sorted(((loss, p, q) for loss, (p, q) in atoms.items() if p > 0), key=lambda atom: -atom[0])
    p_sum = q_sum = mpmath.mpf(0)
    for index, (_, p, q) in enumerate(ordered):
        p_sum, q_sum = p_sum + p, q_sum + q
        lower = ordered[index + 1][0] if index + 1 < len(ordered) else -mpmath.inf
        at_next = p_sum - mpmath.exp(max(lower, 0)) * q_sum
        if at_next > delta:
            return mpmath.inf if q_sum == 0 else mpmath.log((p_sum - delta) / q_sum)
        if lower <= 0:
            return mpmath.mpf(0)
    return mpmath.mpf(0)


def discrete_question(draw: random.Random) -> Check | None:
    remove: Atoms = {mpmath.mpf(0): (mpmath.mpf(1), mpmath.mpf(1))}
    add, arguments = dict(remove), ["compose"]
    for _ in range(draw.randint(1, 3)):
        kind, count = draw.choice(["rr", "dp", "dlap"]), draw.randint(1, 5)
        if kind == "dlap":
            scale, shift = round(log_uniform(draw, 0.5, 20), 3), draw.randint(1, 3)
            base, text = (
                discrete_laplace(mpmath.mpf(str(scale)), shift),
                f"discrete-laplace,scale={scale},sensitivity={shift}",
            )
        else:
            epsilon = round(log_uniform(draw, 0.01, 4), 4)
            delta = round(log_uniform(draw, 1e-8, 1e-2), 10) if kind == "dp" else 0
            base = two_points(mpmath.mpf(str(epsilon)), mpmath.mpf(str(delta)))
            text = f"dp,epsilon={epsilon},delta={delta}" if kind == "dp" else f"randomized-response,epsilon={epsilon}"
        if draw.random() < 0.5:
            rate = round(log_uniform(draw, 1e-4, 0.9), 6)
            pair = mixed(base, mpmath.mpf(str(rate)))
            other, text = swapped(pair), f"{text},sampling=poisson,rate={rate}"
        else:
            pair, other = base, swapped(base)
        for _ in range(count):
            remove, add = product(remove, pair), product(add, other)
            if len(remove) > 20_000:
                return None
        arguments += ["-m", f"{text},count={count}"]
    delta = log_uniform(draw, 1e-14, 0.3)
    truth = float(max(epsilon_of(remove, mpmath.mpf(delta)), epsilon_of(add, mpmath.mpf(delta))))

    def check(result: dict[str, Any]) -> str | None:
        return judged(result, truth, 1e-15) or risk_judged(result, (remove, add))

    return [*arguments, "--delta", repr(delta)], check


# -- sampled Gaussians, by a contour integral ------------------------------------------------------------------------


def cumulants(exponents: Any, sigma: float, rate: float, remove: bool) -> Any:
    """log E e^{λL} for complex λ, L the loss of one step under its own direction's first measure."""
    reach = 12.0 + float(np.max(np.abs(exponents.real))) / sigma
    x = np.linspace(-reach * sigma - 12 * sigma, reach * sigma + 1 + 12 * sigma, 4_001)
    loss = np.log1p(rate * np.expm1(np.minimum((2 * x - 1) / (2 * sigma**2), 690)))
    base = -(x**2) / (2 * sigma**2) - math.log(sigma * math.sqrt(2 * math.pi))
    sign, offset = (1, 1) if remove else (-1, 0)
    total = []
    for value in np.atleast_1d(exponents):
        terms = (sign * value + offset) * loss + base
        top = terms.real.max()
        total.append(np.log(np.exp(terms - top).sum() * (x[1] - x[0])) + top)
    return np.array(total)


def gaussian_delta(parts: list[tuple[float, float, int]], epsilon: float, remove: bool) -> float:
    def exponent(value: Any) -> Any:
        return sum(n * cumulants(value, s, q, remove) for s, q, n in parts)

    grid = np.geomspace(0.02, 400, 60)
    height = exponent(grid.astype(complex)).real - grid * epsilon - np.log(grid * (grid + 1))
    c = float(grid[int(np.argmin(height))])
    around = exponent(np.array([0.99, 1.0, 1.01]) * c + 0j).real
    curvature = max((around[0] - 2 * around[1] + around[2]) / (0.01 * c) ** 2, 1e-6)
    width, before = 9 / math.sqrt(curvature), math.nan
    for nodes in (301, 601, 1201, 2401):  # rare large losses need a fine step: halved until nothing changes
        y = np.linspace(0, width, nodes)
        values = np.exp(exponent(c + 1j * y) - (c + 1j * y) * epsilon) / ((c + 1j * y) * (c + 1 + 1j * y))
        if abs(values[-1]) > 1e-11 * abs(values[0]):
            return math.nan
        found = float((values.real.sum() - values[0].real / 2) * (y[1] - y[0]) / math.pi)
        if abs(found - before) <= 1e-7 * abs(found):
            return found
        before = found
    return math.nan


def gaussian_question(draw: random.Random) -> Check | None:
    parts = []
    for _ in range(draw.choice([1, 1, 2, 3])):
        sigma = round(log_uniform(draw, 0.6, 12), 3)
        parts.append((sigma, round(log_uniform(draw, 1e-4, 0.7), 6), round(log_uniform(draw, 100, 200_000))))
    delta = log_uniform(draw, 1e-15, 1e-2)
    arguments = ["compose", "--delta", repr(delta)]
    for sigma, rate, count in parts:
        arguments += ["-m", f"gaussian,noise_multiplier={sigma},sampling=poisson,rate={rate},count={count}"]

    def check(result: dict[str, Any]) -> str | None:
        upper, lower = number(result["epsilon"]), number(result["epsilon_lower"] or 0)
        at_upper = [gaussian_delta(parts, upper, remove) for remove in (True, False)] if upper < 60 else [math.nan]
        if any(found > delta * (1 + 1e-6) for found in at_upper if not math.isnan(found)):
            return f"δ at the upper bound {upper} is {at_upper}, more than {delta}"
        at_lower = [gaussian_delta(parts, lower, remove) for remove in (True, False)] if 0 < lower < 60 else [math.nan]
        if not any(math.isnan(found) for found in at_lower) and max(at_lower) < delta * (1 - 1e-6):
            return f"δ at the lower bound {lower} is {at_lower}, less than {delta}"
        return None

    return arguments, check


# -- one step without replacement ------------------------------------------------------------------------------------


def fixed_question(draw: random.Random) -> Check | None:
    """One step of C_p(G(μ)) under replace-one: δ(ε) = p·δ_μ(log(1 + (e^ε − 1)/p)) for ε ≥ 0."""
    sigma, rate = round(log_uniform(draw, 0.2, 10), 3), round(log_uniform(draw, 1e-4, 0.9), 5)
    delta = log_uniform(draw, 1e-14, 1e-2)
    mu, p = 1 / mpmath.mpf(str(sigma)), mpmath.mpf(str(rate))

    def excess(epsilon: Any) -> Any:
        base = mpmath.log1p(mpmath.expm1(epsilon) / p)
        return p * (mpmath.ncdf(mu / 2 - base / mu) - mpmath.exp(base) * mpmath.ncdf(-mu / 2 - base / mu)) - delta

    if excess(mpmath.mpf(0)) <= 0:
        truth = 0.0
    else:
        low, high = mpmath.mpf(0), mpmath.mpf(1)
        while excess(high) > 0:
            high *= 2
        for _ in range(70):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) > 0 else (low, middle)
        truth = float(high)
    text = f"gaussian,noise_multiplier={sigma},sampling=fixed-size,rate={rate}"
    arguments = ["compose", "--adjacency", "replace-one", "-m", text, "--delta", repr(delta)]
    return arguments, lambda result: judged(result, truth, 1e-12)


# -- one sampled step, by closed forms -------------------------------------------------------------------------------


def solved(profile: Callable[[Any], Any], delta: float) -> float:
    """The least ε ≥ 0 with profile(ε) ≤ δ, by halving."""
    if profile(mpmath.mpf(0)) <= delta:
        return 0.0
    low, high = mpmath.mpf(0), mpmath.mpf(1)
    while profile(high) > delta:
        low, high = high, 2 * high
    for _ in range(70):
        middle = (low + high) / 2
        low, high = (middle, high) if profile(middle) > delta else (low, middle)
    return float(high)


def replaced_question(draw: random.Random) -> Check | None:
    """(1−q)N(0,1) + qN(1/σ,1) against (1−q)N(0,1) + qN(−1/σ,1): attained, so above every lower bound too."""
    sigma, rate = round(log_uniform(draw, 0.3, 8), 3), round(log_uniform(draw, 1e-3, 0.95), 4)
    delta = log_uniform(draw, 1e-10, 0.2)
    mu, q = 1 / mpmath.mpf(str(sigma)), mpmath.mpf(str(rate))

    def profile(epsilon: Any) -> Any:
        factor = (1 - q) / q * mpmath.exp(mu * mu / 2) * mpmath.sinh(epsilon / 2)
        x = (epsilon / 2 + mpmath.asinh(factor)) / mu
        both = (1 - q) * mpmath.ncdf(-x)
        return both + q * mpmath.ncdf(mu - x) - mpmath.exp(epsilon) * (both + q * mpmath.ncdf(-mu - x))

    truth = solved(profile, delta)
    text = f"gaussian,noise_multiplier={sigma},sampling=poisson,rate={rate}"
    arguments = ["compose", "--adjacency", "replace-one", "-m", text, "--delta", repr(delta)]
    return arguments, lambda result: judged(result, truth, 1e-12)


def laplace_question(draw: random.Random) -> Check | None:
    """H(t) = q·H₀((t−1+q)/q), H₀(s) = 1 − √(s e^{−ε₀}) for |log s| ≤ ε₀, and 1 − t + tH(1/t) for adding."""
    scale, rate = round(log_uniform(draw, 0.2, 5), 3), round(log_uniform(draw, 1e-3, 0.95), 4)
    delta = log_uniform(draw, 1e-10, 0.2)
    bound, q = 1 / mpmath.mpf(str(scale)), mpmath.mpf(str(rate))

    def removed(t: Any) -> Any:
        s = (t - 1 + q) / q
        if s <= mpmath.exp(-bound):
            return 1 - t
        return q * (1 - mpmath.sqrt(s * mpmath.exp(-bound))) if s < mpmath.exp(bound) else mpmath.mpf(0)

    def profile(epsilon: Any) -> Any:
        t = mpmath.exp(epsilon)
        return max(removed(t), 1 - t + t * removed(1 / t))

    truth = solved(profile, delta)
    text = f"laplace,scale={scale},sensitivity=1,sampling=poisson,rate={rate}"
    return ["compose", "-m", text, "--delta", repr(delta)], lambda result: judged(result, truth, 1e-12)


# -- declared curves, by Bernoulli pairs -----------------------------------------------------------------------------


def bernoulli_within(bounds: list[tuple[Any, Any]], x: Any) -> Atoms:
    """Ber(y) against Ber(x) with the largest y whose divergences, both ways, keep to the bounds."""

    def divergence(order: Any, y: Any, z: Any) -> Any:
        return mpmath.log(y**order * z ** (1 - order) + (1 - y) ** order * (1 - z) ** (1 - order)) / (order - 1)

    low, high = mpmath.log(x / (1 - x)), mpmath.mpf(80)
    for _ in range(90):
        middle = (low + high) / 2
        y = 1 / (1 + mpmath.exp(-middle))
        keeps = all(max(divergence(a, y, x), divergence(a, x, y)) <= bound for a, bound in bounds)
        low, high = (middle, high) if keeps else (low, middle)
    y = 1 / (1 + mpmath.exp(-low))
    return {mpmath.log(y / x): (y, x), mpmath.log((1 - y) / (1 - x)): (1 - y, 1 - x)}


def true_positive_rate(atoms: Atoms, rate: Any) -> Any:
    """Of the best test: the largest losses first, the last of them in part."""
    p_sum = q_sum = mpmath.mpf(0)
    for _, (p, q) in sorted(atoms.items(), key=lambda atom: -atom[0]):
        if q_sum + q >= rate:
            return p_sum + p * (rate - q_sum) / q
        p_sum, q_sum = p_sum + p, q_sum + q
    return p_sum


def risk_judged(result: dict[str, Any], directions: tuple[Atoms, Atoms]) -> str | None:
    """What is wrong with the risk that is told, if anything is."""
    risk = result.get("risk") or {}
    for rate, told in risk.get("tpr_at_fpr", {}).items():
        best = max(true_positive_rate(each, mpmath.mpf(rate)) for each in directions)
        if told < best * (1 - mpmath.mpf("1e-12")):
            return f"a true positive rate of {told!r} at {rate} is below {float(best)!r}"
    apart = sum(max(p - q, 0) for p, q in directions[0].values())
    told = risk.get("advantage")
    return f"an advantage of {told!r} is below {float(apart)!r}" if told is not None and told < apart - 1e-15 else None


def declared_question(draw: random.Random) -> Check | None:
    orders = sorted({round(1 + log_uniform(draw, 0.1, 60), 3) for _ in range(draw.randint(1, 3))})
    size, count = log_uniform(draw, 0.01, 3), draw.choice([1, 2, 5])
    bounds = [round(size * draw.uniform(0.5, 2), 4) for _ in orders]
    text = f"rdp,orders={orders},epsilons={bounds}".replace(" ", "")
    known = [(mpmath.mpf(str(a)), mpmath.mpf(str(bound))) for a, bound in zip(orders, bounds, strict=True)]
    pair = bernoulli_within(known, mpmath.mpf(log_uniform(draw, 1e-6, 0.5)))
    if draw.random() < 0.4:
        rate = round(log_uniform(draw, 0.01, 0.9), 4)
        pair, text = mixed(pair, mpmath.mpf(str(rate))), f"{text},sampling=poisson,rate={rate}"
    run = pair
    for _ in range(count - 1):
        run = product(run, pair)
    directions, delta = (run, swapped(run)), log_uniform(draw, 1e-8, 0.3)
    truth = float(max(epsilon_of(each, mpmath.mpf(delta)) for each in directions))

    def check(result: dict[str, Any]) -> str | None:
        if number(result["epsilon"]) < truth * (1 - 1e-12):
            return f"upper bound {result['epsilon']!r} is below {truth!r}"
        return risk_judged(result, directions)

    return ["compose", "-m", f"{text},count={count}", "--delta", repr(delta)], check


# -- schedules, by rationals -----------------------------------------------------------------------------------------


def least_energy(steps: list[tuple[Fraction, Fraction, Fraction]]) -> Fraction:
    """min Σ(a_k/w_k)² of Theorem C.3 from z_0 = 0, for steps (contraction, shift, noise): the convex minorant of the
    shifts' sum over the noise's, both carried to the last step."""
    carried = [Fraction(1)] * len(steps)
    for k in range(len(steps) - 2, -1, -1):
        carried[k] = carried[k + 1] * steps[k + 1][0]
    points = [(Fraction(0), Fraction(0))]
    for (_, shift, noise), factor in zip(steps, carried, strict=True):
        if factor == 0:
            continue
        points.append((points[-1][0] + (factor * noise) ** 2, points[-1][1] + factor * shift))
    hull: list[tuple[Fraction, Fraction]] = []
    for point in points:
        while len(hull) > 1 and (hull[-1][1] - hull[-2][1]) * (point[0] - hull[-1][0]) >= (point[1] - hull[-1][1]) * (
            hull[-1][0] - hull[-2][0]
        ):
            hull.pop()
        hull.append(point)
    return sum(((b[1] - a[1]) ** 2 / (b[0] - a[0]) for a, b in itertools.pairwise(hull)), Fraction(0))


def schedule_question(draw: random.Random, folder: Path) -> Check | None:
    smoothness, strong = Fraction(1), Fraction(draw.choice([0, 1, 5]), 10)
    count, n = draw.randint(1, 12), draw.choice([1, 10, 1000])
    rows, steps = ["step,lr,sigma"], []
    for k in range(1, count + 1):
        rate = Fraction(str(round(draw.uniform(0.01, 1.99), 3)))
        sigma = Fraction(f"{log_uniform(draw, 1e-4, 1e4):.5g}")
        rows.append(f"{k},{float(rate)!r},{float(sigma)!r}")
        contraction = max(abs(1 - rate * strong), abs(1 - rate * smoothness))
        steps.append((contraction, rate / n, rate * sigma))
    path = folder / "schedule.csv"
    path.write_text("\n".join(rows) + "\n")
    truth = math.sqrt(least_energy(steps))
    arguments = ["sgd-bound", "--algorithm", "gd", "--schedule", str(path), "--sensitivity", "1", "--n", str(n)]
    arguments += ["--steps", str(count), "--smoothness", "1", "--strong-convexity", str(float(strong))]
    arguments += ["--delta", "1e-5"]

    def check(result: dict[str, Any]) -> str | None:
        mu = number(result["mu"])
        if mu < truth * (1 - 1e-14):
            return f"μ = {mu!r} is below the optimum {truth!r}: {rows}"
        return None if mu <= truth * (1 + 1e-9) else f"μ = {mu!r} is above the optimum {truth!r} (loose): {rows}"

    return arguments, check


def hunt(
    kinds: dict[str, Callable[[random.Random], Check | None]], wanted: argparse.Namespace, counted: Counter[str]
) -> None:
    """Asks one kind after the other until the time is over."""
    chosen = wanted.kinds or list(kinds)
    begun, turn = time.process_time(), 0
    while time.process_time() - begun < wanted.seconds:
        kind = chosen[turn % len(chosen)]
        question = kinds[kind](random.Random(f"{wanted.seed} {kind} {turn}"))
        turn += 1
        if question is None:
            continue
        arguments, check = question
        code, result = asked(arguments)
        if code == _INTERRUPTED:
            raise KeyboardInterrupt
        counted[kind] += 1
        problem = f"exit {code}" if code not in (0, 1) and kind != "read" else check(result)
        if problem is not None:
            counted[f"{kind}: WRONG"] += 1
            print(f"{kind} {turn - 1}: {problem}\n  dpcalc {' '.join(arguments)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*")
    parser.add_argument("--seconds", type=float, default=60, help="of processor time")
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    import hunt_answers
    import hunt_lists
    import hunt_logs

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a job in the background does not hear Ctrl-C
    counted: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kinds: dict[str, Callable[[random.Random], Check | None]] = {
            "discrete": discrete_question,
            "gaussian": gaussian_question,
            "fixed": fixed_question,
            "replaced": replaced_question,
            "laplace": laplace_question,
            "declared": declared_question,
            "schedule": lambda draw: schedule_question(draw, folder),
            **hunt_answers.QUESTIONS,
            **hunt_lists.QUESTIONS,
            **{
                kind: partial(question, folder=folder)
                for kind, question in (hunt_logs.QUESTIONS | hunt_answers.READ).items()
            },
        }
        with contextlib.suppress(KeyboardInterrupt):
            hunt(kinds, wanted, counted)
    print(", ".join(f"{kind} {count}" for kind, count in sorted(counted.items())))


if __name__ == "__main__":
    main()

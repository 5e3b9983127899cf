"""Exact ε and δ of compositions in mpmath, from the definitions alone: nothing of dpcalc is imported.

    python tests/accounting/oracle.py

computes `exact` for every row of exact.json again (some rows take minutes), and contour integrals twice, on two
contours and two grids that have to agree; with numbers of rows as arguments, only those. A row is a list of parts, each
a kind, its parameters and a count, and a question: ε at δ, or δ at ε.
"""

from __future__ import annotations

import functools
import itertools
import json
import sys
import time
from pathlib import Path

import numpy as np
from mpmath import mp, mpc, mpf

mp.dps = 50

TABLE = Path(__file__).with_name("exact.json")

_BITS = 220  # of the fixed-point sums: 66 digits below the largest term
_AGREE = mpf(10) ** -20


# Hockey-stick divergences in closed form --------------------------------------------------------------------------


def normal_cdf(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def gaussian_delta(mu, epsilon):
    """μ-GDP: Φ(-ε/μ + μ/2) - e^ε Φ(-ε/μ - μ/2)."""
    return normal_cdf(-epsilon / mu + mu / 2) - mp.exp(epsilon) * normal_cdf(-epsilon / mu - mu / 2)


def sampled_gaussian_delta(sigma, q, direction, epsilon):
    """One step of (1-q)N(0,σ²) + qN(1,σ²) against N(0,σ²) (remove), or the reverse (add); any real ε.

    Both are threshold tests at the x with likelihood ratio e^ε (e^-ε for add); x is in units of σ.
    """
    t = mp.exp(epsilon)
    level = (t if direction == "remove" else 1 / t) - 1 + q  # q e^{(2x-1)/2σ²} at the threshold
    if level <= 0:
        return 1 - t if direction == "remove" else mpf(0)
    x = sigma * mp.log(level / q) + 1 / (2 * sigma)
    if direction == "remove":
        base, moved = normal_cdf(-x), normal_cdf(1 / sigma - x)
        return (1 - q) * base + q * moved - t * base
    base, moved = normal_cdf(x), normal_cdf(x - 1 / sigma)
    return base - t * ((1 - q) * base + q * moved)


def sampled_gaussian_loss(sigma, q, u):
    """The loss of removing at the point u (in units of σ)."""
    return mp.log1p(q * mp.expm1(u / sigma - 1 / (2 * sigma**2)))


def two_sampled_gaussians_delta(sigma, q, direction, epsilon):
    """Two steps: H₂(ε) = E_P H₁(ε - L), split where H₁ reaches the end of the losses."""
    sign = 1 if direction == "remove" else -1
    reach = mp.sqrt(2 * mp.log(10) * 40)
    low, high = -reach, 1 / sigma + reach

    def integrand(u):
        density = mp.npdf(u)
        if direction == "remove":
            density = (1 - q) * density + q * mp.npdf(u - 1 / sigma)
        return density * sampled_gaussian_delta(
            sigma, q, direction, epsilon - sign * sampled_gaussian_loss(sigma, q, u)
        )

    level = (mp.exp(sign * epsilon) / (1 - q) - 1 + q) / q
    ends = [low, high]
    if level > 0:
        ends.append(sigma * mp.log(level) + 1 / (2 * sigma))
    ends += [low + (high - low) * k / 24 for k in range(1, 24)]
    return mp.quad(integrand, sorted(u for u in ends if low <= u <= high))


def randomized_response_delta(epsilon0, count, epsilon):
    """Losses ±ε₀: Σ_j C(T,j) p^j (1-p)^{T-j} (1 - e^{ε - (2j-T)ε₀})₊, summed upwards from the first positive term."""
    p = 1 / (1 + mp.exp(-epsilon0))
    odds = mp.exp(epsilon0)
    first = max(0, int(mp.floor((epsilon / epsilon0 + count) / 2)) + 1)
    if first > count:
        return mpf(0)
    logs = mp.loggamma(count + 1) - mp.loggamma(first + 1) - mp.loggamma(count - first + 1)
    term = mp.exp(logs + first * mp.log(p) + (count - first) * mp.log1p(-p))
    gap = mp.exp(epsilon - (2 * first - count) * epsilon0)
    shrink = mp.exp(-2 * epsilon0)
    total = mpf(0)
    for j in range(first, count + 1):
        total += term * (1 - gap)
        if term < total * mpf(10) ** -45:
            break
        term *= odds * (count - j) / mpf(j + 1)
        gap *= shrink
    return total


def laplace_delta(epsilon0, count, epsilon):
    """T-fold Laplace, exactly.

    Up to e^{l/2 - ε₀/2} a loss l has atoms ½ at ±ε₀ and density ¼ between: atoms and a sum of uniforms (Irwin-Hall).
    """
    total = mpf(0)
    for uniforms in range(count + 1):
        atoms = count - uniforms
        for up in range(atoms + 1):
            weight = mp.binomial(count, uniforms) * mp.binomial(atoms, up) / mpf(2) ** atoms / mpf(4) ** uniforms
            total += weight * _uniforms_excess(uniforms, (2 * up - atoms) * epsilon0, epsilon0, epsilon)
    return total * mp.exp(-count * epsilon0 / 2)


def _uniforms_excess(uniforms, shift, epsilon0, epsilon):
    """∫ (1 - e^{ε-l})₊ e^{l/2} over the convolution of `uniforms` indicators of (-ε₀, ε₀), moved by `shift`."""
    if uniforms == 0:
        return mp.exp(shift / 2) - mp.exp(epsilon - shift / 2) if shift > epsilon else mpf(0)
    top = uniforms * epsilon0 + shift
    if top <= epsilon:
        return mpf(0)
    total = mpf(0)
    for i in range(uniforms + 1):
        start = shift + (2 * i - uniforms) * epsilon0
        low = max(start, epsilon)
        if low >= top:
            continue
        power = _power_integral(uniforms - 1, start, low, top, mpf(1) / 2)
        power -= mp.exp(epsilon) * _power_integral(uniforms - 1, start, low, top, -mpf(1) / 2)
        total += (-1) ** i * mp.binomial(uniforms, i) * power
    return total / mp.factorial(uniforms - 1)


def _power_integral(n, start, low, high, rate):
    """∫_low^high (x - start)^n e^{rate·x} dx, by parts."""

    def primitive(x):
        value, term = mpf(0), mpf(1)
        for m in range(n + 1):
            value += term * (x - start) ** (n - m) / rate ** (m + 1)
            term *= -(n - m)
        return value * mp.exp(rate * x)

    return primitive(high) - primitive(low)


# The contour integral ----------------------------------------------------------------------------------------------


class SampledGaussian:
    """Moments of the loss of one Poisson-sampled Gaussian step by the trapezoid rule on its definition."""

    def __init__(self, sigma, q, direction):
        self.sigma, self.q, self.direction = sigma, q, direction

    def _log_mass(self, c, u):
        """The loss at u, and the log of its density tilted by e^{cL}."""
        loss = sampled_gaussian_loss(self.sigma, self.q, u)
        if self.direction == "remove":
            return loss, (c + 1) * loss - u * u / 2
        return -loss, -c * loss - u * u / 2

    def _range(self, c):
        """Where the tilted density, smooth on the scale of one, is not below e^-150 of its largest value."""
        pushed = (c + 1 if self.direction == "remove" else c) / self.sigma
        low, high = (-20, 20 + pushed) if self.direction == "remove" else (-20 - pushed, 20)
        points = [(u, self._log_mass(c, mpf(u))[1]) for u in range(int(low), int(high) + 1)]
        top = max(log for _, log in points)
        kept = [u for u, log in points if log > top - 150]
        return kept[0] - 1, kept[-1] + 1

    @functools.lru_cache(maxsize=4)  # noqa: B019
    def nodes(self, c, step):
        """Losses, their masses under P tilted by e^{cL}, summing to one, and log M(c)."""
        low, high = self._range(c)
        pairs = [self._log_mass(c, k * step) for k in range(int(low / step), int(high / step) + 1)]
        top = max(log for _, log in pairs)
        kept = [pair for pair in pairs if pair[1] > top - 150]
        masses = [mp.exp(log - top) for _, log in kept]
        total = mp.fsum(masses)
        return [loss for loss, _ in kept], [m / total for m in masses], top + mp.log(total * step / mp.sqrt(2 * mp.pi))

    def first_step(self):
        return min(mpf("0.35"), self.sigma / 4)

    def ratio(self, c, y, step):
        """M(c + iy) / M(c) on a grid of this step."""
        losses, masses, _ = self.nodes(c, step)
        return mp.fsum(mass * mp.expj(y * loss) for mass, loss in zip(masses, losses, strict=True))

    def settled_step(self, c, y, step=None):
        """A step that is fine enough for M(c + iy), not above the given one."""
        step = step or self.first_step()
        value = self.ratio(c, y, step)
        while True:
            finer = self.ratio(c, y, step * mpf("0.6"))
            if abs(finer - value) < mpf(10) ** -34:
                return step
            step, value = step * mpf("0.6"), finer

    def rough(self, c):
        """log M(c) and the tilted mean and variance of the loss."""
        losses, masses, value = self.nodes(c, self.first_step())
        mean = mp.fdot(masses, losses)
        return value, mean, mp.fsum(mass * (loss - mean) ** 2 for mass, loss in zip(masses, losses, strict=True))

    def powers(self, c, spacing, count, step):
        """count·log M(c), and an endless stream of (M(c + i k spacing) / M(c))^count, in fixed point."""
        losses, masses, value = self.nodes(c, step)
        one = mpf(2) ** _BITS
        angles = [mp.fmod(spacing * loss, 2 * mp.pi) for loss in losses]
        real = np.array([int(mass * one) for mass in masses], dtype=object)
        cosine = np.array([int(mp.cos(a) * one) for a in angles], dtype=object)
        sine = np.array([int(mp.sin(a) * one) for a in angles], dtype=object)

        def stream(real, imaginary):
            while True:
                yield (mpc(int(real.sum()), int(imaginary.sum())) / one) ** count
                turned = real * cosine - imaginary * sine
                imaginary = (real * sine + imaginary * cosine) >> _BITS
                real = turned >> _BITS

        return count * value, stream(real, 0 * real)


class ClosedForm:
    """A part whose log E_P e^{zL} is known: a plain Gaussian or Laplace mechanism."""

    def __init__(self, kind, parameter):
        self.kind, self.parameter = kind, parameter

    def settled_step(self, _c, _y, _step=None):
        return mpf(1)

    def ratio(self, c, y, _step):
        return mp.exp(self.log_mgf(mpc(c, y)) - self.log_mgf(c))

    def log_mgf(self, z):
        e = self.parameter
        if self.kind == "gaussian":  # loss N(μ²/2, μ²)
            return z * (z + 1) * e**2 / 2
        twice = 2 * z + 1
        return z * e + mp.log((1 + mp.exp(-twice * e)) / 2 - mp.expm1(-twice * e) / (2 * twice))

    def rough(self, c):
        value, mean, half_variance = mp.taylor(self.log_mgf, c, 2)
        return value, mean, 2 * half_variance

    def powers(self, c, spacing, count, _step):
        start = self.log_mgf(c)
        return count * start, (mp.exp(count * (self.log_mgf(mpc(c, k * spacing)) - start)) for k in itertools.count())


class Contour:
    """δ(ε) = (1/2πi) ∫ e^{Σ T K(z) - zε} / (z(z+1)) dz on Re z = c by the trapezoid rule, reusable near one ε.

    Where the integrand does not decay, it is faded out by erfc((y - 9w)/w). That convolves the loss density with a
    kernel that falls like e^{-(wd)²/4}: harmless if the density is smooth near ε, rough only at a distance d from it.
    """

    def __init__(self, parts, c, fineness, width, most=40_000):
        self.c = c
        deviation = mp.sqrt(sum(count * part.rough(c)[2] for part, count in parts))
        spacing = min(2 * mp.pi / (30 * deviation), 2 * mp.pi * c / 60) / fineness
        self._steps = [None] * len(parts)
        end = self._extent(parts, 5 / deviation, min(most * spacing, 18 * width))
        fade = end is None
        end = 18 * width if fade else end
        if end / spacing > most:
            raise ArithmeticError("the contour integral would take too long")
        streams = [
            part.powers(c, spacing, count, part.settled_step(c, end, step) / fineness)
            for (part, count), step in zip(parts, self._steps, strict=True)
        ]
        self.log_scale = sum(scale for scale, _ in streams)
        self.terms = []
        for k in range(int(end / spacing) + 2):
            z = mpc(c, k * spacing)
            term = mp.fprod(next(stream) for _, stream in streams) / (z * (z + 1)) * spacing / mp.pi
            if fade:
                term *= mp.erfc(z.imag / width - 9) / 2
            self.terms.append((z, term / 2 if k == 0 else term))

    def _extent(self, parts, y, limit):
        """Where the integrand has decayed for good, if it has before the limit."""
        while y < limit:
            if all(self._size(parts, y * (8 + k) / 8) < mpf(10) ** -38 for k in range(12)):
                return y
            y *= mpf("1.4")
        return None

    def _size(self, parts, y):
        z = mpc(self.c, y)
        self._steps = [part.settled_step(self.c, y, step) for (part, _), step in zip(parts, self._steps, strict=True)]
        ratios = [
            abs(part.ratio(self.c, y, step)) ** count for (part, count), step in zip(parts, self._steps, strict=True)
        ]
        return mp.fprod(ratios) * self.c * (self.c + 1) / abs(z * (z + 1))

    def delta(self, epsilon):
        total = mp.fsum((term * mp.expj(-z.imag * epsilon)).real for z, term in self.terms)
        return mp.exp(self.log_scale - self.c * epsilon) * total


def saddle(parts, question):
    """c and ε of the saddle point for this δ or ε, to a few digits."""

    def at(log_c):
        c = mp.exp(log_c)
        values = [[count * number for number in part.rough(c)] for part, count in parts]
        value, mean, variance = (mp.fsum(column) for column in zip(*values, strict=True))
        epsilon = mean - 1 / c - 1 / (1 + c)
        curvature = variance + 1 / c**2 + 1 / (1 + c) ** 2
        log_delta = value - c * epsilon - mp.log(c * (1 + c)) - mp.log(2 * mp.pi * curvature) / 2
        if "epsilon" in question:
            return epsilon - mpf(question["epsilon"]), epsilon
        return mp.log(mpf(question["delta"])) - log_delta, epsilon

    low, high = mpf(-14), mpf(0)
    while at(high)[0] < 0:
        low, high = high, high + 3
        if high > 90:
            raise ArithmeticError("no saddle point")
    while high - low > mpf("0.005"):
        middle = (low + high) / 2
        low, high = (low, middle) if at(middle)[0] > 0 else (middle, high)
    return mp.exp(high), at(high)[1]


def by_contour(parts, question, start=None):
    """ε at δ or δ at ε, refined until two contours on two grids agree to 20 digits.

    It starts from the saddle point, or from a given c and ε where large losses so rare that they do not matter at this
    δ move the saddle point far away.
    """
    c, near = saddle(parts, question) if start is None else map(mpf, start)
    previous = None
    for fineness, move in (("1", "1"), ("1.3", "0.95"), ("1.7", "1"), ("2.3", "0.95")):
        contour = Contour(parts, c * mpf(move), mpf(fineness), 34 / near / mpf(move))
        value = answer(contour.delta, question, near)
        if previous is not None and abs(value - previous) <= _AGREE * abs(value):
            return value
        previous = value
    raise ArithmeticError("the contour integral does not settle")


# Questions ---------------------------------------------------------------------------------------------------------


def answer(function, question, near=None):
    """δ = function(ε) at ε, or the ε at which it is δ (zero if δ is already reached there)."""
    if "epsilon" in question:
        return function(mpf(question["epsilon"]))
    target = mpf(question["delta"])
    if near is None and function(mpf(0)) <= target:
        return mpf(0)
    low, high = (mpf(0), mpf(1)) if near is None else (near * mpf("0.98"), near * mpf("1.02"))
    while low > 0 and function(low) <= target:
        low *= mpf("0.95")
    while function(high) > target:
        low, high = high, high * (2 if near is None else mpf("1.05"))
    while high - low > high / 1000:
        middle = (low + high) / 2
        low, high = (low, middle) if function(middle) <= target else (middle, high)
    if function(high) > 0:
        return mp.findroot(lambda e: mp.log(function(e) / target), (low, high), solver="anderson", tol=mpf(10) ** -56)
    with mp.workdps(140):  # at the largest loss there is: δ is zero beyond it
        for _ in range(300):
            middle = (low + high) / 2
            low, high = (low, middle) if function(middle) <= target else (middle, high)
        return high


def component(kind, parameters, direction):
    if kind == "poisson":
        return SampledGaussian(*parameters, direction)
    return ClosedForm(kind, 1 / parameters[0])


def one_direction(parts, question, direction):
    """How it was computed, and the exact value in one direction."""
    (kind, *parameters), count = parts[0]
    parameters = [mpf(number) for number in parameters]
    if all(part[0] == "gaussian" for part, _ in parts):
        mu = mp.sqrt(sum(times / mpf(part[1]) ** 2 for part, times in parts))
        return "closed form", answer(lambda e: gaussian_delta(mu, e), question)
    if len(parts) == 1 and kind == "randomized-response":
        return "binomial sum", answer(lambda e: randomized_response_delta(*parameters, count, e), question)
    if len(parts) == 1 and kind == "laplace" and count <= 20:
        return "closed form", answer(lambda e: laplace_delta(1 / parameters[0], count, e), question)
    if len(parts) == 1 and kind == "poisson" and count == 1:
        return "closed form", answer(lambda e: sampled_gaussian_delta(*parameters, direction, e), question)
    if len(parts) == 1 and kind == "poisson" and count == 2:
        return "integral", answer(lambda e: two_sampled_gaussians_delta(*parameters, direction, e), question)
    pairs = [(component(part[0], [mpf(number) for number in part[1:]], direction), times) for part, times in parts]
    return "contour", by_contour(pairs, question, STARTS.get(parts[0]) if direction == "remove" else None)


def largest_added_loss(parts):
    """No loss of adding is larger, if every part is a sampled Gaussian."""
    if any(part[0] != "poisson" for part, _ in parts):
        return mp.inf
    return -sum(count * mp.log1p(-mpf(part[2])) for part, count in parts)


def exact(parts, question):
    """How it was computed, and the exact value: the worse of the two directions."""
    parts = [(part if part[0] != "poisson" or part[2] < 1 else ("gaussian", part[1]), count) for part, count in parts]
    method, value = one_direction(parts, question, "remove")
    if all(part[0] != "poisson" for part, _ in parts):
        return method, value
    beyond = value if "delta" in question else mpf(question["epsilon"])
    if largest_added_loss(parts) <= beyond:
        return method, value
    return method, max(value, one_direction(parts, question, "add")[1])


STARTS = {  # c and ε for by_contour
    (("poisson", 1.0, 1e-7), 10**8): (8, "0.0067"),
    (("poisson", 0.5, 1e-6), 10**8): (3, "1.447"),
}


def asked(row):
    """The parts and the question of a row of the table."""
    parts = [(tuple(part), count) for part, count in row["parts"]]
    return parts, {name: row[name] for name in ("delta", "epsilon") if name in row}


def main():
    rows = json.loads(TABLE.read_text(encoding="utf-8"))
    for index in [int(number) for number in sys.argv[1:]] or range(len(rows)):
        started = time.time()
        method, value = exact(*asked(rows[index]))
        rows[index].update(method=method, exact=mp.nstr(value, 25))
        sys.stdout.write(f"{index} {json.dumps(rows[index], ensure_ascii=False)} {time.time() - started:.1f} s\n")
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    TABLE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()

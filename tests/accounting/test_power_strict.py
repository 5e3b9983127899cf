"""The terms of lemmas T and W one by one: an error of the size that a term pays for is planted, all else is exact.

Comparisons are strict and in exact arithmetic or 50 digits. Where a unit of rounding is too small to be told from
others, single precision takes the place of double, and its unit that of the constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

from dpcalc.accounting.certified import power
from dpcalc.accounting.certified.law import P_LOWER, UPPER, Component, Law
from dpcalc.accounting.certified.ledger import Ledger
from dpcalc.accounting.certified.power import Orders, Window
from dpcalc.rounding import UNIT

SINGLE = 2.0**-24  # the unit of single precision


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mp.workdps(50):
        yield


def factor(rows: Any, count: int = 1, step: float = 0.37, start: int = -4) -> power._Factor:
    return power._Factor(Law(step, {0: Component(start, np.asarray(rows, dtype=np.float64))}, Ledger()), count)


class Known:
    """A factor of which only the logarithm of its moments is asked."""

    def __init__(self, log: float) -> None:
        self.log = log

    def log_moment(self, *_: object) -> float:
        return self.log


def at_their_worst(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logarithms and exponentials too small by the four units that a platform may err by."""
    log, exp = np.log, np.exp
    monkeypatch.setattr(np, "log", lambda values: log(values) - 4 * UNIT * np.abs(log(values)))
    monkeypatch.setattr(np, "exp", lambda values: exp(values) * (1 - 4 * UNIT))


# W: moments and what they bound


def exact_log_moment(one: power._Factor, row: int, order: float) -> Any:
    losses = [(one.law.components[0].start + k) * mpf(one.law.step) for k in range(one.points)]
    logs = [
        mp.log(mp.fsum(mpf(float(w)) * mp.exp(mpf(order) * at) for w, at in zip(weights, losses, strict=True)))
        for weights in one.parts[0][:, row]
    ]
    return one.count * mp.fsum(logs)


@pytest.mark.parametrize("worst", [False, True])
@pytest.mark.parametrize(
    ("batch", "faintness", "order"),
    [(1, 1.0, 1e-9), (1, 1.0, 3.0), (1, 1e-200, 0.1), (300, 1e-90, 0.1), (40, 1.0, -60.0)],
    ids=["near one", "usual", "a faint row", "many laws", "far out"],
)
def test_moments_are_bounded_from_above(
    monkeypatch: pytest.MonkeyPatch, batch: int, faintness: float, order: float, worst: bool
) -> None:
    """W: sums of weights, exponentials, the logarithm and the sum over laws, however large a part each has."""
    rng = np.random.default_rng(1)
    factors = []
    for _ in range(40 if batch == 1 else 4):
        rows = rng.random((batch, 3, 9))
        rows[:, P_LOWER] *= faintness
        factors.append(factor(rows, count=int(rng.integers(1, 999))))
    exact = [exact_log_moment(one, P_LOWER, order) for one in factors]
    if worst:
        at_their_worst(monkeypatch)
    for one, truth in zip(factors, exact, strict=True):
        assert truth <= mpf(one.log_moment(P_LOWER, order)) <= truth + mpf("1e-11") * (one.count + abs(truth))


def test_moments_below_the_range_of_doubles_are_bounded() -> None:
    """All weight at the end where e^{tℓ} is smallest by far: as a sum relative to its largest term it is 0."""
    rows = np.zeros((3, 9))
    rows[:, 0] = 1.0
    one = factor(rows, step=100.0)
    assert mpf(one.log_moment(UPPER, 1.0)) >= exact_log_moment(one, UPPER, 1.0)


@pytest.mark.parametrize("worst", [False, True])
@pytest.mark.parametrize("size", [1e-3, 1.0, 100.0, 3000.0])
def test_weights_are_bounded_by_moments_from_above(monkeypatch: pytest.MonkeyPatch, size: float, worst: bool) -> None:
    """W: e^{M − tℓ} at exact points, for exponents that are next to nothing, large, and beyond the doubles."""
    rng = np.random.default_rng(2)
    cases = []
    for _ in range(30):
        logs, order, step = size * rng.normal(0, 0.1, 40), float(rng.uniform(-2, 2)), size * rng.random() / 30
        cases.append((logs, order, step, float(rng.integers(0, 2)) * size))
    exact = [
        [mp.exp(mp.fsum(map(mpf, logs)) - abs(mpf(order)) * mpf(further) - mpf(order) * k * mpf(step))
         for k in range(-9, 9)]
        for logs, order, step, further in cases
    ]  # fmt: skip
    if worst:
        at_their_worst(monkeypatch)
    for (logs, order, step, further), truths in zip(cases, exact, strict=True):
        points = np.arange(-9, 9, dtype=np.float64) * step
        found = power._by_moment([Known(log) for log in logs], UPPER, order, points, further=further)
        assert all(mpf(float(value)) >= truth for value, truth in zip(found, truths, strict=True))


@pytest.mark.parametrize("worst", [False, True])
@pytest.mark.parametrize("tilt", [0.5, 7.3])
def test_what_lies_outside_is_rounded_up(monkeypatch: pytest.MonkeyPatch, tilt: float, worst: bool) -> None:
    """W: P-mass above is M(t)x^{1−τ−t} at the first point beyond, and goes to the last point and to ∞; Q-mass below."""
    rng = np.random.default_rng(3)
    cases = [(float(rng.uniform(-90, 5)), float(rng.random()), int(rng.integers(-40, 40))) for _ in range(40)]
    cases.append((-2000.0, 0.5, 2900))  # weights below the range of doubles, of masses that are not
    window, step, tau = Window(-20, 32, Orders(9.1, 8.7), Orders(1.0, 1.0)), 0.37, mpf(tilt)
    high, low = 12 * mpf(step), -21 * mpf(step)
    exact = []
    for log, offset, scale in cases:
        p = mp.exp(mpf(log) - (mpf(9.1) - (1 - tau)) * high + mpf(offset))
        q = mp.exp(mpf(log) + (mpf(8.7) - tau) * low + mpf(offset))
        at_last, at_first = p * mp.exp(-high + tau * 11 * mpf(step)), q * mp.exp(tau * -20 * mpf(step))
        exact.append((at_last, at_first, p * mpf(2) ** scale, q * mpf(2) ** scale))
    if worst:
        at_their_worst(monkeypatch)
    for (log, offset, scale), truths in zip(cases, exact, strict=True):
        law = Law(step, {0: Component(-20, np.zeros((3, 32)))}, Ledger(), tilt=tilt, scale=scale)
        done = power._with_outside(law, [Known(log)], window, step, offset)
        rows = done.components[0].rows
        found = (rows[UPPER, -1], rows[UPPER, 0], done.ledger.infinite, done.ledger.zero)
        assert all(mpf(float(value)) >= truth for value, truth in zip(found, truths, strict=True))


@pytest.mark.parametrize("entry", ["relative", "shift"])
def test_what_lies_outside_is_raised_by_what_is_charged(entry: str) -> None:
    """L9, L10: moments of weights that are off are off as much; e^{2x} pays for 1 + x, as reading does."""
    window = Window(-20, 32, Orders(9.0, 8.0), Orders(1.0, 1.0))
    laws = [Law(0.5, {0: Component(-20, np.zeros((3, 32)))}, ledger) for ledger in (Ledger(), Ledger(**{entry: 1e-3}))]
    bare, told = (power._with_outside(law, [Known(-3.0)], window, 0.5, 0.0) for law in laws)
    assert told.ledger.infinite >= bare.ledger.infinite * 1.001
    assert told.ledger.zero >= bare.ledger.zero * 1.001
    assert np.all(told.components[0].rows[UPPER] >= bare.components[0].rows[UPPER] * 1.001)


# L10: what rows were divided by


def test_scales_are_told_with_their_rounding() -> None:
    """The totals of all copies, as a power of two and a factor, in exact arithmetic."""
    rng = np.random.default_rng(4)
    for _ in range(20):
        factors = [factor(rng.random((3, 9)), int(rng.integers(1, 400))) for _ in range(3)]
        exact = math.prod(Fraction(float(one.totals[0])) ** one.count for one in factors)
        ledger, scale, remaining = power._scaled(factors, 0, 16)
        found = Fraction(remaining) * Fraction(2) ** scale
        assert abs(found / exact - 1) <= Fraction(ledger.relative)


@pytest.mark.parametrize("count", [1, 7, 300])
def test_every_copy_loses_what_one_loses_and_is_rounded_as_often(count: int) -> None:
    """L10: entries of copies are divided by their total, here 1, and so is what they lost; each is rounded 4 times."""
    law = factor(np.full((3, 8), 0.125)).law
    law = replace(law, scale=3, ledger=replace(law.ledger, lost=1e-9))
    ledger, scale, _ = power._scaled([power._Factor(law, count)], 0, 16)
    assert scale == 3 * count
    assert Fraction(ledger.lost) >= count * Fraction(1e-9)
    assert ledger.relative >= 4 * count * UNIT


# T: transforms


def product(factors: Sequence[power._Factor], size: int = 16) -> tuple[Any, Any]:
    found, _, errors = power._product(factors, 0, size)
    return found, errors


def circular(factors: Sequence[power._Factor], size: int = 16) -> Any:
    """The product of all rows modulo the size, as sums of products."""
    out = np.zeros((3, size))
    out[:, 0] = 1.0
    for one in factors:
        for _ in range(one.count):
            for rows in next(one.dense(0, size)):
                out = np.array(
                    [sum(row[k] * np.roll(o, k) for k in range(size)) for row, o in zip(rows, out, strict=True)]
                )
    return out


def rounded_after(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """From here on transforms are single precision numbers without errors, and all that is done to them rounds so.

    Gives the transform, in double precision.
    """
    forward, back = np.fft.rfft, np.fft.irfft
    monkeypatch.setattr(power, "UNIT", SINGLE)
    monkeypatch.setattr(power, "TRANSFORM", 0.0)
    monkeypatch.setattr(np.fft, "rfft", lambda rows: forward(rows).astype(np.complex64))
    monkeypatch.setattr(np.fft, "irfft", lambda values, size: back(values.astype(np.complex128), size))
    return lambda rows: forward(rows).astype(np.complex64).astype(np.complex128)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("copies", [1, 3, 50])
def test_errors_of_transforms_add_up_over_copies(monkeypatch: pytest.MonkeyPatch, copies: int, sign: int) -> None:
    """T: all of what the constant allows in the worst direction, for laws of one point and of many."""
    rng, error = np.random.default_rng(5), 1e-7
    atom, spread = np.zeros((3, 9)), rng.random((3, 9))
    atom[:, 4] = 1.0
    forward = np.fft.rfft
    monkeypatch.setattr(power, "TRANSFORM", error / (math.log2(16) * UNIT))
    monkeypatch.setattr(np.fft, "rfft", lambda rows: (1 + sign * error) * forward(rows))
    for rows in (atom, spread):
        one = factor(rows, copies)
        found, errors = product([one])
        assert np.all(np.abs(found - circular([one])) <= errors[:, None])


def test_errors_of_the_way_back_are_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """T: a backward transform that is off by as much as its norm allows, at a single entry."""
    error, back = 1e-7, np.fft.irfft

    def off(values: Any, size: int) -> Any:
        found = back(values, size)
        found[:, 3] += error * np.sqrt(np.square(found).sum(axis=-1))
        return found

    monkeypatch.setattr(power, "TRANSFORM", error / (math.log2(16) * UNIT))
    monkeypatch.setattr(np.fft, "irfft", off)
    one = factor(np.random.default_rng(6).random((3, 9)), 2)
    found, errors = product([one])
    assert np.all(np.abs(found - circular([one])) <= errors[:, None])


@pytest.mark.parametrize("counts", [(2,), (37,), (500, 3)])
def test_the_rounding_of_powers_is_paid_for(monkeypatch: pytest.MonkeyPatch, counts: tuple[int, ...]) -> None:
    """T: every product of complex numbers rounds, those of a power and those of different laws."""
    rng = np.random.default_rng(7)
    rows = rng.random((3, 9)) ** 8
    factors = [factor(rows, count) for count in counts]
    monkeypatch.setattr(power, "_MANY", math.inf)
    exact = rounded_after(monkeypatch)
    transforms = [exact(next(one.dense(0, 16)))[0] ** one.count for one in factors]
    truth = np.fft.irfft(math.prod(transforms[1:], start=transforms[0]), 16)
    found, errors = product(factors)
    assert np.all(np.abs(found - truth) <= errors[:, None])
    assert np.any(found != truth)


def test_products_of_a_batch_are_off_by_what_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """T: what decides which frequencies are left out is the rounded product of a batch's transforms."""
    one = factor(np.random.default_rng(8).random((30, 3, 9)) ** 8, power._MANY)
    told = []
    exact = rounded_after(monkeypatch)
    monkeypatch.setattr(power, "_audible", lambda values, _, error: told.append((values, error)) or (values, 0.0))
    power._product([one], 0, 16)
    ((values, error),) = told
    assert np.all(np.abs(values - np.prod(exact(next(one.dense(0, 16))), axis=0)) <= error)


@pytest.mark.parametrize("error", [0.0, 1e-3])
def test_what_is_left_out_is_bounded_with_its_errors(error: float) -> None:
    """T: the largest value that was left out, its error and the rounding of its size, to a large power."""
    rng = np.random.default_rng(9)
    for _ in range(300):
        values = np.exp(2j * np.pi * rng.random((1, 2))) * np.array([1.0, 0.9])
        kept, rest = power._audible(values, 3000, error)
        assert kept.shape == (1, 1)
        size = mp.sqrt(mpf(float(values[0, 1].real)) ** 2 + mpf(float(values[0, 1].imag)) ** 2)
        assert mpf(rest) >= (size + mpf(error)) ** 3000


def test_nothing_is_left_out_of_few_copies() -> None:
    values = np.array([[1.0, 1e-300]], dtype=np.complex128)
    assert power._audible(values, power._MANY - 1, 0.0)[1] == 0
    assert power._audible(values, power._MANY - 1, 0.0)[0].shape == (1, 2)


def test_sums_of_rows_that_may_be_above_one_in_all_are_refused() -> None:
    """T rests on products of at most 1.01: rows of 5,000 points are divided by totals that 5,000 roundings were in."""
    rows = np.ones((3, 5000))
    power._product([factor(rows, 10**9)], 0, 16)
    assert 10**12 * 7 * 4 * UNIT * 4 * 0.25 < 0.005  # errors of transforms alone are no reason
    with pytest.raises(OverflowError):
        power._product([factor(rows, 10**12)], 0, 16)

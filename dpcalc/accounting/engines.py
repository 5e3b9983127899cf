"""The engines that bound a composition through its dominating pairs, in a table; the better one answers.

An engine takes pairs with counts, a question and the directions to read, and gives a certified interval, or raises an
ArithmeticError where it is of no use. Both have the same stages and the same lemmas. One transform of all steps is the
quickest where one grid can hold them; products two by two, on grids that grow coarser, serve everything else: rare
large losses, and single steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

import numpy as np

from dpcalc.accounting import by_transform, convex_order
from dpcalc.accounting.certified.law import Direction, Law
from dpcalc.accounting.certified.read import worst
from dpcalc.accounting.interval import Interval
from dpcalc.accounting.question import Answer, Question
from dpcalc.accounting.steering.needs import Runs, need_of, only_bounded, order_of, sharpened
from dpcalc.accounting.steering.pilot import sketch
from dpcalc.effort import within
from dpcalc.mechanisms.base import Mechanism
from dpcalc.pairs.base import Pair
from dpcalc.rounding import accumulated

Parts = Sequence[tuple[Mechanism, int]]
Composition = tuple[tuple[tuple[Pair, int], ...], tuple[Direction, ...]]
Engine = Callable[[Sequence[tuple[Pair, int]], Question, Sequence[Direction]], Interval]

_ROUNDS, _MOST_ROUNDS = 4, 8  # of sharper and sharper bounds of pairs that can only be bounded; more while they help
_HELPED = 0.95  # of the width of the round before
_STUCK, _WIDE = 0.9, 0.05  # of the width before, and of the bound: what is left is no matter of accuracy
_BOUNDS, _FINER, _COMPOSING = 0.7, 0.3, 0.45  # of the tolerance: for such bounds (less in every round), and composing

_COARSER, _ROUGHEST = 20.0, 0.5  # times such a share, where it leads nowhere; and what is worth trying, as a gap
_COARSE, _LOOK = 0.03, 0.05  # the tolerance of a look at what is attained, and its part of the work
_FIRST, _PER_ROUND, _PER_ENGINE = 0.6, 0.7, 0.75  # of the work that is left: as long as nothing is known, and later

ENGINES: Mapping[str, Engine] = {"transform": by_transform.interval, "convex-order": convex_order.interval}


def by_laws(parts: Parts, question: Question, direction: Direction | None = None, *, known: float = math.inf) -> Answer:
    """The interval of dominating pairs from above and of attained ones from below, by the best engine.

    It is that of the worse direction, or of the one asked for. No sharper bounds of pairs are tried where an upper
    bound that is `known` already needs no better one.
    """
    above = [run for mechanism, count in parts for run in mechanism.runs(count)]
    below = _worst(parts, above, question)
    if not only_bounded([*above, *below]):
        return _answer(above, below, question, question, direction)
    best: Answer | None = None
    share, rounds, width, helps = _BOUNDS, 0, math.inf, True
    while rounds < (_MOST_ROUNDS if helps else _ROUNDS):
        epsilon = question.epsilon if best is None or question.delta is None else best.upper
        need = need_of(above, question, share, near=epsilon)
        halves = replace(question, tolerance=min(_COMPOSING * question.tolerance * max(share, 1.0), 0.5))
        try:
            with within(_FIRST if best is None else _PER_ROUND):
                found = _answer(sharpened(above, need), sharpened(below, need), question, halves, direction)
        except OverflowError as failure:
            if best is not None:
                return replace(best, stopped=str(failure))
            share *= _COARSER
            if share * question.tolerance > _ROUGHEST:
                raise
            continue
        share, rounds = share * _FINER, rounds + 1
        width, helps = _width(found), _width(found) < _HELPED * width
        before, best = best, found if best is None or found.upper < best.upper else best
        if found.lower is not None:
            best = replace(best, lower=max(best.lower or 0.0, found.lower))
        if question.is_met(best.lower, min(best.upper, known)) or not below or best.upper == 0:
            break
        if before is not None and _width(best) > max(_STUCK * _width(before), _WIDE * best.upper):
            break
    assert best is not None
    return replace(best, stopped=None) if question.is_met(best.lower, best.upper) else best


def attained(parts: Parts, question: Question) -> Runs:
    """Pairs that the parts attain together."""
    return _worst(parts, [run for mechanism, count in parts for run in mechanism.runs(count)], question)


def _worst(parts: Parts, above: Runs, question: Question) -> Runs:
    """Pairs that the parts attain together; of those that are chosen for an order, under a sampler, the worst.

    It is the order that decides about what dominates, or about what is attained itself, or the first one.
    """
    order = cache(lambda: order_of(above, question))
    best = _attained(parts, order)
    chosen = order.cache_info().currsize and any(mechanism.sampler() != "none" for mechanism, _ in parts)
    if not chosen or only_bounded([*above, *best]):
        return best
    largest = _about(best, question)
    for power in (1.0, order_of(best, question)):
        runs = _attained(parts, partial(float, power))
        found = _about(runs, question)
        if found > largest:
            best, largest = runs, found
    return best


def _about(runs: Runs, question: Question) -> float:
    """About what pairs come to, composed coarsely; 0 where that is out of reach."""
    coarse = replace(question, tolerance=_COARSE)
    try:
        with within(_LOOK):
            return _answer(runs, (), coarse, coarse).upper
    except ArithmeticError:
        return 0.0


def _attained(parts: Parts, order: Callable[[], float]) -> Runs:
    """Pairs that the parts attain together, in any order that they may run in.

    So of those whose data may be chosen by what was released before, one comes last: that which loses most.
    """
    last = {k: found for k, (mechanism, count) in enumerate(parts) if (found := mechanism.attained_last(count, order))}
    chosen = max(last, key=lambda k: parts[k][1] * (parts[k][0].zcdp() or 0.0), default=-1)
    return [
        run
        for k, (mechanism, count) in enumerate(parts)
        for run in (last[k] if k == chosen else mechanism.attained_runs(count, order) or ())
    ]


def one_law(parts: Parts, question: Question) -> tuple[Law, tuple[Direction, ...]] | None:
    """A law that tells all that is known of a composition, about where it is asked, and the directions to be read.

    None where one law does not: of pairs that are not attained, or can only be bounded, other accountants may know
    better ones, and two directions may have pairs of their own.
    """
    above = [run for mechanism, count in parts for run in mechanism.runs(count)]
    below = attained(parts, question)
    compositions = _compositions(above)
    if above != below or only_bounded(above) or len(compositions) > 1:
        return None
    ((pairs, directions),) = compositions
    try:
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            law = by_transform.law_of(pairs, question, directions)
    except ArithmeticError:
        return None
    return None if law is None else (law, directions)


def _width(answer: Answer) -> float:
    return answer.upper - (answer.lower or 0.0)


def _answer(
    above: Runs, below: Runs, question: Question, asked: Question, direction: Direction | None = None
) -> Answer:
    """What the engines say, asked so tightly, of pairs from above and from below."""
    over = _only(_compositions(above), direction)
    under = over if below == above else _only(_compositions(below), direction)
    composed = [*over, *(composition for composition in under if composition not in over)]
    found = []
    for place, composition in enumerate(composed):
        with within(1 / (len(composed) - place)):
            found.append(_interval(composition, asked))
    upper = worst([interval.upper for interval in found[: len(over)]])
    lower = worst([found[composed.index(composition)].lower for composition in under]) if under else None
    decisive = max(range(len(over)), key=lambda k: found[k].upper)
    narrow = lower is not None and lower > 0 and upper <= 1.2 * lower
    estimate = (lower + upper) / 2 if narrow and lower is not None else None
    stopped = None
    if not question.is_met(lower, upper):
        stopped = found[decisive].stopped or "no attained pair is known to come closer"
    certificate = {**found[decisive].certificate, "direction": "worse of " + " and ".join(over[decisive][1])}
    exhausted = question.is_met(worst([interval.lower for interval in found[: len(over)]]), upper)
    return Answer("pld", upper, lower, estimate, "certified", certificate, stopped, exhausted)


def rough_epsilon(parts: Parts, delta: float) -> float:
    """About ε at δ from a sketch of the pairs and its saddle points: a hint, and no bound."""
    runs = [run for mechanism, count in parts for run in mechanism.runs(count)]
    found = 0.0
    for pairs, directions in _compositions([((p.rough(), q.rough()), count) for (p, q), count in runs]):
        drawn = sketch(pairs)
        ways = drawn.ways(delta)
        for direction in directions:
            sign = 1 if direction == "remove" else -1
            found = max(found, drawn.nearer(ways[(1 - sign) // 2], sign, delta)[0])
    return found


def _interval(composition: Composition, question: Question) -> Interval:
    """The intersection of what the engines say; later ones are asked only if it is not narrow enough yet."""
    if question.delta is not None and _surely_infinite(composition) > question.delta:
        return Interval(math.inf, math.inf, {})
    directions = _reaching(composition, question) or composition[1]
    best: Interval | None = None
    failure: ArithmeticError | None = None
    for engine in ENGINES.values():
        try:  # what overflows is no answer: the next is asked
            with within(_PER_ENGINE), np.errstate(over="raise", divide="raise", invalid="raise"):
                found = engine(composition[0], question, directions)
        except ArithmeticError as error:
            failure = error
            continue
        best = found if best is None else best.and_(found)
        if question.is_met(best.lower, best.upper):
            break
    if best is None:
        assert failure is not None
        raise failure
    return best


def _reaching(composition: Composition, question: Question) -> tuple[Direction, ...]:
    """The directions in which some loss may exceed the ε that is asked about: δ is 0 in the others."""
    pairs, directions = composition
    if question.epsilon is None:
        return directions
    found: list[Direction] = []
    for direction in directions:
        turned = pairs if direction == "remove" else [(pair.reversed(), count) for pair, count in pairs]
        largest = math.fsum(count * max(pair.support()[1], 0.0) for pair, count in turned) * (1 + accumulated(8))
        if not largest <= question.epsilon or any(pair.failure() > 0 for pair, _ in turned):
            found.append(direction)
    return tuple(found)


def _surely_infinite(composition: Composition) -> float:
    """What δ is at least at every ε: the probability that some step of a direction reveals everything, from below."""
    pairs, directions = composition
    masses = [pair.surely_infinite() for pair, _ in pairs]
    if not any(map(any, masses)):
        return 0.0
    found = []
    for side in (0 if direction == "remove" else 1 for direction in directions):
        if any(mass[side] >= 1 for mass in masses):
            return 1.0
        total = sum(-count * math.log1p(-mass[side]) for mass, (_, count) in zip(masses, pairs, strict=True))
        found.append(-math.expm1(-total) * (1 - accumulated(len(pairs) + 16)))
    return max(found)


def _compositions(parts: Sequence[tuple[tuple[Pair, Pair], int]]) -> tuple[Composition, ...]:
    """What has to be composed, and read in which directions.

    A pair that serves both directions is read once, one whose reverse is the other direction's is read both ways;
    otherwise the two directions are compositions of their own.
    """
    if not parts:
        return ()
    first = tuple((pairs[0], count) for pairs, count in parts)
    second = tuple((pairs[1], count) for pairs, count in parts)
    if all(pairs[0] == pairs[1] for pairs, _ in parts):
        return ((first, ("remove",)),)
    if all(pairs[1] in (pairs[0], pairs[0].reversed()) for pairs, _ in parts):
        return ((first, ("remove", "add")),)
    return (first, ("remove",)), (second, ("remove",))


def _only(compositions: tuple[Composition, ...], direction: Direction | None) -> tuple[Composition, ...]:
    """What has to be composed for one direction: the pairs that serve it, read so."""
    if direction is None or not compositions:
        return compositions
    pairs, directions = compositions[-1 if direction == "add" else 0]
    return ((pairs, (direction,) if direction in directions else directions),)


def directions_of(parts: Parts) -> tuple[Direction, ...]:
    """The directions that `by_laws` may tell apart: the first alone where one reading serves both."""
    above = [run for mechanism, count in parts for run in mechanism.runs(count)]
    below = _attained(parts, lambda: 1.0)
    read = [directions for runs in (above, below) for _, directions in _compositions(runs)]
    alike = read.count(("remove",)) == len(read) and len(read) == bool(above) + bool(below)
    return ("remove",) if alike else ("remove", "add")

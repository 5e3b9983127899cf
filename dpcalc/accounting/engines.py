"""The engines that bound a composition through its dominating pairs, in a table; the better one answers.

An engine takes pairs with counts, a question and the directions to read, and gives a certified interval, or raises an
ArithmeticError where it is of no use. Both have the same stages and the same lemmas. One transform of all steps is the
quickest where one grid can hold them; products two by two, on grids that grow coarser, serve everything else: rare
large losses, and single steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dpcalc.accounting import by_transform, convex_order
from dpcalc.accounting.certified.law import Direction
from dpcalc.accounting.certified.read import worst
from dpcalc.accounting.interval import Interval
from dpcalc.accounting.question import Answer, Question
from dpcalc.accounting.steering.pilot import sketch
from dpcalc.mechanisms.base import Mechanism
from dpcalc.pairs.base import Pair

Parts = Sequence[tuple[Mechanism, int]]
Composition = tuple[tuple[tuple[Pair, int], ...], tuple[Direction, ...]]
Engine = Callable[[Sequence[tuple[Pair, int]], Question, Sequence[Direction]], Interval]

ENGINES: Mapping[str, Engine] = {"transform": by_transform.interval, "convex-order": convex_order.interval}


def by_laws(parts: Parts, question: Question) -> Answer:
    """The interval of dominating pairs from above and of attained ones from below, by the best engine."""
    above = _compositions([(mechanism.pairs(), count) for mechanism, count in parts])
    attained = [(mechanism.attained_pairs(), count) for mechanism, count in parts]
    below = _compositions([(pairs, count) for pairs, count in attained if pairs is not None])
    found = {composition: _interval(composition, question) for composition in dict.fromkeys((*above, *below))}
    upper = worst([found[composition].upper for composition in above])
    lower = worst([found[composition].lower for composition in below]) if below else 0.0
    decisive = max(above, key=lambda composition: found[composition].upper)
    narrow = lower > 0 and upper <= 1.2 * lower
    stopped = None
    if not question.is_met(lower, upper):
        stopped = found[decisive].stopped or "no attained pair is known to come closer"
    certificate = {**found[decisive].certificate, "direction": "worse of " + " and ".join(decisive[1])}
    return Answer("pld", upper, lower, (lower + upper) / 2 if narrow else None, "certified", certificate, stopped)


def rough_epsilon(parts: Parts, delta: float) -> float:
    """About ε at δ from a sketch of the pairs and its saddle points: a hint, and no bound."""
    found = 0.0
    for pairs, directions in _compositions([(mechanism.pairs(), count) for mechanism, count in parts]):
        drawn = sketch(pairs)
        ways = drawn.ways(delta)
        for direction in directions:
            sign = 1 if direction == "remove" else -1
            found = max(found, drawn.nearer(ways[(1 - sign) // 2], sign, delta)[0])
    return found


def _interval(composition: Composition, question: Question) -> Interval:
    """The intersection of what the engines say; later ones are asked only if it is not narrow enough yet."""
    best: Interval | None = None
    failure: ArithmeticError | None = None
    for engine in ENGINES.values():
        try:
            found = engine(composition[0], question, composition[1])
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

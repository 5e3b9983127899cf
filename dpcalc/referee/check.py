"""Confirms or contradicts a result: δ at its ε, recomputed from above and below, against what it claims."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from flint import arb, ctx

from dpcalc.referee import notions, renyi
from dpcalc.referee.compose import MOST_ATOMS, Bounds, Composed, down, exactly, number_of_atoms, on_grid, reach, up
from dpcalc.referee.derived import parameter
from dpcalc.referee.entries import Effort, NotCheckedError, Release, releases
from dpcalc.referee.laws import Law, gaussian, profile
from dpcalc.referee.runs import LAST_DIGITS

Verdict = Literal["confirmed", "contradicted", "not-checked"]
MOST_POINTS = 200_000
POINTS, NIGHTLY_POINTS = 2_048, 16_384
NIGHTLY_SECONDS = 3600.0
_LAST_DIGITS = 1e-14  # a ball that touches the claim from below cannot be told from one that crosses it
_NEARLY = 2e-3  # a bound that stands when it is moved by so much of itself is confirmed to that accuracy


@dataclass(frozen=True)
class Finding:
    """What the referee says of one claim, and why."""

    verdict: Verdict
    reason: str


@dataclass(frozen=True)
class Claim:
    """δ(ε) is at most δ (`side` upper), or at least δ (lower)."""

    side: Literal["upper", "lower"]
    epsilon: float
    delta: float

    def loosened(self) -> Claim:
        change = 1 + _NEARLY if self.side == "upper" else 1 - _NEARLY
        if self.epsilon > 0:
            return Claim(self.side, self.epsilon * change, self.delta)
        return Claim(self.side, self.epsilon, self.delta * change)


def checked(result: Mapping[str, Any], seconds: float = 60.0, *, points: int = POINTS) -> Finding:
    """The verdict on a result, as read from its JSON; grids are refined for so long (processor time) and no longer.

    `points` is about how many a grid of likelihood ratios has, which random allocation needs.
    """
    if result.get("guarantee") != "certified":
        return Finding("not-checked", f"it is {result.get('guarantee')}, and only what is certified can be refereed")
    try:
        stated = _stated(result)
        found = []
        if not (stated and _is_notion(result)):
            found += _judged(_claims(result), result, time.process_time() + seconds, points)
        found += [*stated, *_derived(result)]
    except NotCheckedError as error:
        return Finding("not-checked", str(error))
    order = ("contradicted", "not-checked", "confirmed")
    found = found or [Finding("confirmed", "it claims nothing")]
    return min(found, key=lambda finding: order.index(finding.verdict))


def _is_notion(result: Mapping[str, Any]) -> bool:
    """Whether it states a μ, a ρ or Rényi divergences, and no ε at a δ."""
    return result.get("epsilon") is None or result.get("delta") is None


def _stated(result: Mapping[str, Any]) -> list[Finding]:
    """What is decided of the μ, ρ and Rényi divergences that it states."""
    ctx.prec = 128
    found = []
    for name, value, follows, least in notions.compared(result):
        verdict = notions.decided(value, follows, least)
        relation = "is at most" if verdict == "confirmed" else "is"
        if verdict is not None:
            found.append(Finding(verdict, f"{name} {relation} {float(follows):.9g}, and {value:.9g} is stated"))
    return found


def _derived(result: Mapping[str, Any]) -> list[Finding]:
    """Whether the parameter that the mechanisms state follows from what was asked about."""
    found = parameter(result)
    if found is None:
        return []
    claimed, derived = found
    if derived.most <= claimed * (1 + LAST_DIGITS):
        return [Finding("confirmed", f"μ = {claimed:.9g} follows from what was asked about")]
    if derived.least is not None and claimed * (1 + LAST_DIGITS) < derived.least:
        return [Finding("contradicted", f"μ = {claimed:.9g} is stated, and {float(derived.least):.9g} is what follows")]
    return [Finding("not-checked", f"μ = {claimed:.9g} is less than the {float(derived.most):.9g} that is known here")]


def _number(value: Any) -> float:
    return math.inf if value == "inf" else float(value)


def _claims(result: Mapping[str, Any]) -> list[Claim]:
    epsilon, delta = result.get("epsilon"), result.get("delta")
    if epsilon is None or delta is None:
        raise NotCheckedError("it states no (ε,δ)")
    if not result.get("mechanisms"):
        raise NotCheckedError("it lists no mechanisms")
    question = result.get("question") or {"delta": delta}
    claims = [Claim("upper", _number(epsilon), _number(delta))]
    if "epsilon" in question and result.get("delta_lower") is not None:
        claims.append(Claim("lower", _number(epsilon), _number(result["delta_lower"])))
    elif "delta" in question and result.get("epsilon_lower") is not None:
        claims.append(Claim("lower", _number(result["epsilon_lower"]), _number(delta)))
    return [claim for claim in claims if not _is_empty(claim)]


def _is_empty(claim: Claim) -> bool:
    """What says nothing: ε ≤ ∞, δ ≤ 1, ε ≥ 0, δ ≥ 0."""
    if claim.side == "upper":
        return math.isinf(claim.epsilon) or claim.delta >= 1
    return claim.epsilon <= 0 or claim.delta <= 0


def _judged(claims: Sequence[Claim], result: Mapping[str, Any], until: float, points: int) -> list[Finding]:
    smallest = min((claim.delta for claim in claims), default=1.0)
    ctx.prec = 128 + 2 * max(0, int(-math.log2(max(smallest, 1e-300))))
    adjacency = str(result.get("adjacency"))
    entries: Sequence[Mapping[str, Any]] = result["mechanisms"]
    effort = Effort(smallest, _order(max((claim.epsilon for claim in claims), default=1.0), smallest), points)
    parts = [each for entry in entries for each in releases(entry, adjacency, effort)]
    found: dict[Claim, Finding | None] = dict.fromkeys(claims)
    declared = any(entry.get("type") in ("zcdp", "rdp") for entry in entries)
    if all(each.mu is not None for each in parts):
        found = _by_closed_form(claims, parts)
    elif declared:  # for which divergences are often all that there is to say
        found = _by_divergences(found, entries, adjacency)
    if None in found.values():
        found |= _by_composition([claim for claim in claims if found[claim] is None], parts, until)
    if not declared:
        found = _by_divergences(found, entries, adjacency)
    undecided = Finding("not-checked", "neither grids in the time given nor Rényi divergences decide it")
    return [finding or undecided for finding in found.values()]


def _by_divergences(
    found: dict[Claim, Finding | None], entries: Sequence[Mapping[str, Any]], adjacency: str
) -> dict[Claim, Finding | None]:
    """What is undecided and is an upper bound, by Rényi divergences."""
    found = dict(found)
    for claim, finding in found.items():
        for each in (claim, claim.loosened()) if finding is None and claim.side == "upper" else ():
            if renyi.confirms(entries, adjacency, each.epsilon, each.delta):
                note = "" if each is claim else f", to within {_NEARLY:g} of it"
                found[claim] = Finding("confirmed", f"by Rényi divergences in ball arithmetic{note}")
                break
    return found


def _by_closed_form(claims: Sequence[Claim], releases: Sequence[Release]) -> dict[Claim, Finding | None]:
    found: dict[Claim, Finding | None] = {}
    for claim in claims:
        bounds = _gaussian_bounds([(each.mu, each.count) for each in releases], claim)
        found[claim] = _verdict(claim, bounds, bounds)
    return found


def _gaussian_bounds(parts: Sequence[tuple[arb | None, int]], claim: Claim) -> Bounds | None:
    """δ of a composition of Gaussians; None if some part is none."""
    square = arb(0)
    for mu, count in parts:
        if mu is None:
            return None
        square += count * mu**2
    value = profile(gaussian(square.sqrt()), arb(claim.epsilon))
    return Bounds(up(value), down(value))


def _verdict(claim: Claim, dominating: Bounds | None, attained: Bounds | None) -> Finding | None:
    """What bounds on the δ of the dominating laws, and of those that are attained, say about a claim."""
    if claim.side == "upper":
        if dominating is not None and dominating.upper <= claim.delta * (1 + _LAST_DIGITS):
            return Finding("confirmed", f"δ at ε = {claim.epsilon:.9g} is at most {_short(dominating.upper)}")
        if attained is not None and attained.lower > claim.delta:
            return Finding("contradicted", f"δ at ε = {claim.epsilon:.9g} is at least {attained.lower:.9g}")
        return None
    if dominating is not None and dominating.upper < claim.delta:
        return Finding("contradicted", f"δ at ε = {claim.epsilon:.9g} is at most {dominating.upper:.9g}")
    if attained is not None and attained.lower >= claim.delta:
        return Finding("confirmed", f"δ at ε = {claim.epsilon:.9g} is at least {attained.lower:.6g}")
    return None


def _by_composition(claims: Sequence[Claim], releases: Sequence[Release], until: float) -> dict[Claim, Finding | None]:
    """Every claim on ever finer grids, until it is decided; on the last one it may be moved a little."""
    outer = _laws([(each.dominating, each.count) for each in releases])
    inner = _laws(_attained(releases))
    found: dict[Claim, Finding | None] = dict.fromkeys(claims)
    for claim in claims:
        closed = _gaussian_bounds([(each.attained_mu, each.count) for each in releases], claim)
        found[claim] = _verdict(claim, _exactly(outer, claim), closed or _exactly(inner, claim))
    if outer is None and all(claim.side == "upper" for claim, finding in found.items() if finding is None):
        return found
    delta = min(claim.delta for claim in claims)
    step = _first_step(releases, max(claim.epsilon for claim in claims), delta)
    while None in found.values():
        begun = time.process_time()
        first = None if outer is None else on_grid(outer, step, delta)
        second = first if inner == outer else None if inner is None else on_grid(inner, step, delta)
        step /= 2
        is_last = time.process_time() + 3 * (time.process_time() - begun) > until or _is_too_fine(releases, step)
        for claim in [claim for claim, finding in found.items() if finding is None]:
            found[claim] = _on_grids(claim, (first, second), is_last)
        if is_last:
            break
    little = inner is None or any(each.example for each in releases)
    for claim, finding in found.items():
        if finding is None and claim.side == "lower" and little and outer is not None:
            found[claim] = Finding(
                "confirmed", "the lower bound is below the recomputed upper one; no more is known of it"
            )
    return found


def _attained(releases: Sequence[Release]) -> list[tuple[Law | None, int]]:
    """What is attained together: one of those whose data may be chosen by what came before, the widest, comes last."""
    width = {k: reach(each.last, arb(_LAST_DIGITS))[1] for k, each in enumerate(releases) if each.last is not None}
    chosen = max(width, key=width.__getitem__, default=None)
    return [(each.last if k == chosen else each.attained, each.count) for k, each in enumerate(releases)]


def _laws(parts: Sequence[tuple[Law | None, int]]) -> list[tuple[Law, int]] | None:
    known = [(law, count) for law, count in parts if law is not None]
    return known if len(known) == len(parts) else None


def _exactly(laws: list[tuple[Law, int]] | None, claim: Claim) -> Bounds | None:
    if laws is None or number_of_atoms(laws) > MOST_ATOMS:
        return None
    return exactly(laws, arb(claim.epsilon))


def _on_grids(claim: Claim, grids: Sequence[Composed | None], is_last: bool) -> Finding | None:
    for each in (claim, claim.loosened()) if is_last else (claim,):
        finding = _verdict(each, *(None if grid is None else grid.delta(arb(each.epsilon)) for grid in grids))
        if finding is not None and (each is claim or finding.verdict == "confirmed"):
            note = "" if each is claim else f", to within {_NEARLY:g} of it"
            return Finding(finding.verdict, f"{finding.reason} (on a grid{note})")
    return None


def _order(epsilon: float, delta: float) -> float:
    """Of the Rényi divergence that decides, about."""
    return 1 + 2 * math.log(1 / min(delta, 0.5)) / max(epsilon, 1e-3)


def _first_step(releases: Sequence[Release], epsilon: float, delta: float) -> float:
    """A power of two: splitting cells of width h adds variance h²/4 a step, and that (λ + 1)/2 times to ε."""
    steps = sum(each.count for each in releases)
    order = _order(epsilon, delta)
    return 2.0 ** math.floor(math.log2(math.sqrt(8e-3 * max(epsilon, 1e-3) / (steps * order))))


def _is_too_fine(releases: Sequence[Release], step: float) -> bool:
    known = [law for each in releases for law in (each.dominating, each.attained) if law is not None]
    return any((high - low) / step > MOST_POINTS for low, high in (reach(law, arb(1e-12)) for law in known))


def _short(value: float) -> str:
    """A δ as people write it: 1e-5."""
    return f"{value:.6g}".replace("e-0", "e-")

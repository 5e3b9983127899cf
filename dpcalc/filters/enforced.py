"""The guarantee that a filter enforces, whatever its log holds, and what it rests on."""

from __future__ import annotations

from dataclasses import replace

from dpcalc.accounting.implied import implied
from dpcalc.evidence import Evidence
from dpcalc.filters import dominating
from dpcalc.filters.rule import Rule, theorem_of
from dpcalc.filters.settings import Settings
from dpcalc.guarantee import Guarantee, Stated

ODOMETERS = {"gdp": "Koskela et al. 2023, Section C.5", "rdp": "Feldman, Zrnic 2021, Proposition 4.10, Corollary 4.11"}
_SPLIT_THEOREM = "Whitehouse, Ramdas, Rogers, Wu 2023: steps with a δ of their own"
NOT_COVERED = (
    "counts, quantiles and individual losses are computed from the data without noise: they are for the data holder, "
    "and publishing them is not covered by the guarantee"
)


def enforced(settings: Settings, *, epsilon: float | None, delta: float | None, kept: bool = True) -> Guarantee:
    """What a filter enforces, whatever the log holds: its budget, fixed beforehand, with the tolerance included.

    A budget that was not `kept`, and none at all, give no guarantee: only what was spent is known.
    """
    rule = settings.budget or settings.rule
    sampled = settings.sampling_rate is not None
    drawn = "none" if not sampled else f"poisson, rate {settings.sampling_rate:g}"
    evidence = Evidence(
        citations=_citations(settings, rule),
        assumptions=tuple(_steps(settings, rule)),
        remarks=() if settings.scope == "global" else (NOT_COVERED,),
    )
    base = Guarantee.of(
        [(Stated(adjacency="add-remove", drawn=drawn), None)],
        evidence,
        accountant=f"{settings.scope} {rule.kind} {_what(settings, rule)}",
    )
    if settings.dominating is not None:
        return dominating.guarantee(base, settings.dominating, kept)
    if rule.notion is None:
        return _remarking(base, "no budget was given, so nothing is enforced: the loss is only tracked")
    if not kept:
        return _remarking(base, "the budget was not kept, so nothing is guaranteed by it")
    found = _enforced(base, rule, epsilon, delta)
    return replace(found, assumptions=(_fixed(rule), *found.assumptions, _kept(settings)))


def _remarking(base: Guarantee, line: str) -> Guarantee:
    return replace(base, remarks=(line, *base.remarks))


def _enforced(base: Guarantee, rule: Rule, epsilon: float | None, delta: float | None) -> Guarantee:
    assert rule.notion is not None
    split = rule.split
    told = implied(rule.notion, delta=delta if split is None else split.filter)
    found = told.epsilon
    if epsilon is not None and found is not None:
        found = min(found, epsilon)  # the limit was chosen so that (ε,δ) holds
    numbers = replace(base, epsilon=found, delta=delta, epsilon_estimate=found)
    if split is not None:
        # What the filter enforces holds up to the δ of the steps, so only ε at the whole δ can be told.
        own = {"type": "dp", "epsilon": found, "delta": delta}
        reasons = ("μ, ρ and RDP are not given: the steps keep them only up to a δ of their own",)
        return replace(numbers, mechanisms=(own,), remarks=(*reasons, *base.remarks))
    return replace(
        numbers,
        mu=told.mu,
        mu_kind=None if told.mu is None else "upper",
        rho=told.rho,
        rdp=told.rdp,
        mechanisms=told.mechanisms,
        warnings=told.warnings,
        remarks=(*told.remarks, *base.remarks),
    )


def _what(settings: Settings, rule: Rule) -> str:
    if rule.notion is not None:
        return "filter"
    return "audit" if settings.odometer is None else "odometer"


def _citations(settings: Settings, rule: Rule) -> tuple[str, ...]:
    if rule.notion is None:
        return ("none: an audit enforces nothing" if settings.odometer is None else ODOMETERS[rule.kind],)
    cited = theorem_of(rule.kind, scope=settings.scope, mode=settings.mode)
    return (cited,) if rule.split is None else (cited, _SPLIT_THEOREM)


def _fixed(rule: Rule) -> str:
    line = "the budget was fixed before the run"
    if rule.split is None:
        return line
    return f"{line}, and with it the parts of δ for the filter and for the steps' own"


def _steps(settings: Settings, rule: Rule) -> list[str]:
    """What the log must say about the steps."""
    lines = []
    if rule.quantity == "norm":
        noise = "as its rows state" if settings.rows_state_noise else f"= {rule.scale:g}"
        lines.append(f"Gaussian σ {noise} on each step's sum; norms are not below the truth")
    else:
        up_to = " up to its δ" if rule.split is not None else ""
        lines.append(f"each step has the {rule.quantity} that the log states{up_to}, given all earlier outputs")
    if settings.sampling_rate is not None:
        lines.append(f"batches are Poisson samples of rate {settings.sampling_rate:g}; norms are logged sampled or not")
    return lines


def _kept(settings: Settings) -> str:
    if settings.finished:
        return "with other outputs it would have kept the budget too: no log can show that"
    if settings.scope == "global":
        return "a step that does not fit was not run"
    if settings.mode == "clip":
        return "each record was clipped to what it had left, as told here"
    return "each record was left out where it is refused"

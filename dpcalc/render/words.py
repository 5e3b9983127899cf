"""A result in words: the answer with its verdict, what is known about it, what must hold and where it comes from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dpcalc.guarantee import Guarantee, Result, Verdict
from dpcalc.report import SYMBOLS, beside_a_budget, percentage, rounded_down, rounded_up, upper_against, written

Fact = tuple[str, str]

NEIGHBOURS = {"add-remove": "one record added or removed", "replace-one": "one record replaced by another"}
_NOT_CERTIFIED = {
    "numerical": "accurate, but its error is not bounded",
    "approximate": "no bound: do not publish it as a guarantee",
}
_SHOWN_ORDERS = (2, 4, 8, 16, 32, 64)
_FEW_ORDERS = (2, 8, 64)
_USUAL_RATE = "0.01"
_THEOREM = ", Theorem "
_NO_SOURCE = "none"  # of an audit, which enforces nothing

# Commands that were asked for other notions and for the risk, and so tell all of them.
_OF_NOTIONS = ("convert",)
# Commands that tell μ or ρ in lines of their own, where they matter.
_BY_THEMSELVES = ("filter", "sgd-bound", "exp-mech", "train")
# Commands about a budget that was fixed before: what it guarantees, and if what holds, was told then.
_OF_A_BUDGET = tuple(f"ledger {name}" for name in ("spend", "status", "log", "verify", "void", "import"))


def answer(result: Result) -> str:
    """The first line: the number that was asked for, where it holds, and the verdict on every limit."""
    guarantee, aimed = result.guarantee, result.details.get("targets", {})
    # A limit that was aimed at and is kept stands in the headline already.
    verdicts = [each for each in result.verdicts if each.outcome != "within" or aimed.get(each.quantity) != each.limit]
    if guarantee is not None and guarantee.asks == "delta":  # that the ε which was asked about is within is no news
        verdicts = [each for each in verdicts if each.outcome != "within" or each.quantity != "epsilon"]
    line = result.headline.rstrip(".")
    if not line and guarantee is not None:
        about = [each for each in verdicts if each.quantity == guarantee.asks and each.status == guarantee.status]
        verdicts = [each for each in verdicts if each not in about[:1]]
        origin = _origin(guarantee) if result.command in _OF_NOTIONS else ""
        line = result.preface + _answer(guarantee, about[0] if about else None, result.qualifier + origin)
    line += "".join(f"; {_amount(verdict, guarantee)}{_judged(verdict)}" for verdict in verdicts)
    return f"{line}; {result.aside}" if result.aside else line


def _answer(guarantee: Guarantee, verdict: Verdict | None, qualifier: str) -> str:
    epsilon, delta = guarantee.epsilon, guarantee.delta
    judged = qualifier + ("" if verdict is None else _judged(verdict))
    if guarantee.asks == "delta":
        shown = rounded_up(delta) if verdict is None or verdict.value is None else upper_against(delta, verdict.limit)
        return f"δ = {shown} at ε = {written(epsilon)}{judged}"
    if epsilon is None:
        if guarantee.mu is not None:
            return f"μ = {rounded_up(guarantee.mu)}; at which δ? ε is not given without one{judged}"
        return f"ε is not known{judged}" if delta is None else f"no finite ε is known at δ = {written(delta)}{judged}"
    shown = rounded_up(epsilon) if verdict is None or verdict.value is None else upper_against(epsilon, verdict.limit)
    at = "" if delta is None else " without any δ" if delta == 0 else f" at δ = {written(delta)}"
    return f"ε = {shown}{at}{judged}"


def _amount(verdict: Verdict, guarantee: Guarantee | None) -> str:
    """A number that a limit was compared with; it says so if it is not the one that was asked for."""
    symbol = SYMBOLS[verdict.quantity]
    if verdict.value is None:
        return f"{symbol} is not known"
    beside = "certified " if guarantee is not None and verdict.status != guarantee.status else ""
    return f"{beside}{symbol} = {upper_against(verdict.value, verdict.limit)}"


def _judged(verdict: Verdict) -> str:
    limit = written(verdict.limit)
    if verdict.outcome == "within":
        return f", within the limit {limit}"
    if verdict.outcome == "unproved":
        why = "" if verdict.value is None else f" ({verdict.status}, not certified)"
        return f", NOT SHOWN to be within the limit {limit}{why}"
    value = verdict.value
    excess = "" if value is None or not math.isfinite(value) else f" by {rounded_up(value - verdict.limit, 3)}"
    return f", OVER the limit {limit}{excess}"


def numbers(result: Result, *, verbose: bool) -> list[Fact]:
    """What is known about the answer: how far it can be trusted, the same in other notions, and the risk."""
    guarantee = result.guarantee
    if guarantee is None or (result.command in _OF_A_BUDGET and not verbose):
        return list(result.facts)
    told = {label for label, _ in result.facts} | {row[0] for row in result.labelled}
    implied = result.command in _OF_NOTIONS and is_exact(guarantee) and not verbose
    nothing = guarantee.upper(guarantee.asks) is None and guarantee.mu is None and guarantee.rho is None
    facts: list[Fact] = []
    beside = guarantee.status in told or (guarantee.status == "certified" and "neighbours" in told)
    if not (implied or nothing or beside):
        facts.append((guarantee.status, _interval(guarantee)))
    if result.certified is not None and guarantee.status != "certified":
        facts.append(("certified", f"ε ≤ {rounded_up(result.certified.epsilon)}, which limits are checked against"))
    facts += result.facts
    if result.command in _OF_NOTIONS:
        also = _others(guarantee)
    else:
        also = "" if result.command in _BY_THEMSELVES and not verbose else _also(guarantee, verbose)
    if also:
        facts.append(("same as", also))
    if result.details.get("fitted"):
        facts.append(("fitted", _fitted(result.details["fitted"])))
    if guarantee.risk is not None:
        facts.append(("attacker", _attacker(guarantee, all_rates=verbose or result.command in _OF_NOTIONS)))
    if verbose:
        facts += _more(guarantee)
    return facts


def _interval(guarantee: Guarantee) -> str:
    symbol = SYMBOLS[guarantee.asks]
    upper, lower = guarantee.upper(guarantee.asks), guarantee.lower(guarantee.asks)
    neighbours = NEIGHBOURS[guarantee.adjacency]
    if guarantee.status != "certified":
        return f"{_NOT_CERTIFIED[guarantee.status]}; {neighbours}"
    if upper is None:
        return neighbours
    if not math.isfinite(upper):
        return f"no finite {symbol} is known; {neighbours}"
    if lower is None:
        return f"{symbol} ≤ {rounded_up(upper)}; {neighbours}"
    if is_exact(guarantee):
        return f"exactly; {neighbours}"
    return f"{rounded_down(lower)} ≤ {symbol} ≤ {rounded_up(upper)}; {neighbours}"


def is_exact(guarantee: Guarantee) -> bool:
    """Whether what was asked for is known from both sides, up to rounding."""
    upper, lower = guarantee.upper(guarantee.asks), guarantee.lower(guarantee.asks)
    return upper is not None and lower is not None and upper - lower <= 1e-9 * upper


def _also(guarantee: Guarantee, verbose: bool) -> str:
    """The other notions, where they say something."""
    enough = math.inf if verbose else telling(guarantee)
    found = []
    if guarantee.mu is not None and guarantee.mu <= enough:
        kind = "" if guarantee.mu_kind == "exact" else f" ({guarantee.mu_kind})"
        found.append(f"{_of(guarantee.mu)}-GDP{kind}")
    if guarantee.rho is not None and guarantee.rho <= enough:
        found.append(f"{_of(guarantee.rho)}-zCDP")
    return "; ".join(found)


def _of(amount: float) -> str:
    text = beside_a_budget(amount)
    return f"({text})" if " " in text else text


def telling(guarantee: Guarantee) -> float:
    """The largest μ or ρ that says something: one above ε does not, unless δ was asked for and follows from it."""
    if guarantee.asks == "delta" and guarantee.epsilon is not None:
        return math.inf if guarantee.mu_kind == "exact" else guarantee.epsilon
    return guarantee.epsilon or math.inf


def _origin(guarantee: Guarantee) -> str:
    """The notion that an answer comes from, and whether nothing is lost on the way."""
    if guarantee.question is None or len(guarantee.mechanisms) != 1:
        return ""
    notion = _notion(guarantee.mechanisms[0])
    bracketed = f", from {notion}" if notion.startswith("(") else f" ({notion})"
    return f"{', exactly' if is_exact(guarantee) else ''}{bracketed}"


def _notion(entry: Mapping[str, Any]) -> str:
    if entry["type"] == "gdp":
        return f"{written(entry['mu'])}-GDP"
    if entry["type"] == "zcdp":
        return f"{written(entry['rho'])}-zCDP"
    if entry["type"] == "dp":
        epsilon, delta = written(entry["epsilon"]), entry.get("delta", 0.0)
        return f"({epsilon}, {written(delta)})-DP" if delta else f"{epsilon}-DP"
    points = zip(entry["orders"], entry["epsilons"], strict=True)
    return "RDP " + ", ".join(f"{written(epsilon)} at order {order:g}" for order, epsilon in points)


def _others(guarantee: Guarantee) -> str:
    """The notions that follow from the one that was given, of RDP a few orders."""
    at_most = "at most " if guarantee.mu_kind == "upper" else ""
    told = [] if guarantee.mu is None else [f"{at_most}{rounded_up(guarantee.mu)}-GDP"]
    told += [] if guarantee.rho is None else [f"{rounded_up(guarantee.rho)}-zCDP"]
    known = dict(guarantee.rdp)
    points = [f"{rounded_up(known[order])} at {order}" for order in _FEW_ORDERS if order in known]
    if points:
        told.append("RDP " + ", ".join(points).replace(" at ", " at order ", 1))
    given = _notion(guarantee.mechanisms[0]) if guarantee.mechanisms else ""
    return "; ".join(text for text in told if text != given)


def _fitted(fit: Mapping[str, Any]) -> str:
    """A μ with its slack and its regret: none of them says anything without the others."""
    mu, slack, regret = fit["mu"], fit["slack"], fit["regret"]
    if not isinstance(mu, (int, float)) or not math.isfinite(mu):
        return f"no μ-GDP is known up to slack {written(slack)}"
    stated = f"{rounded_up(mu)}-GDP " + (f"up to slack {written(slack)}" if slack else "without slack")
    regret = "regret is not known" if regret is None else f"regret ≤ {rounded_up(regret, 3)}"
    at = "" if fit["epsilon"] is None else f" (binding at ε = {fit['epsilon']:.4g})"
    return f"{stated}{at}; {regret}" + ("" if fit["guarantee"] == "certified" else f" ({fit['guarantee']})")


def _attacker(guarantee: Guarantee, *, all_rates: bool) -> str:
    risk = guarantee.risk
    assert risk is not None
    rates = [rate for rate in risk.tpr_at_fpr if all_rates or rate == _USUAL_RATE] or list(risk.tpr_at_fpr)
    shares = [percentage(risk.tpr_at_fpr[rate]) for rate in rates]
    alarms = [written(100 * float(rate)) for rate in rates]
    text = f"finds ≤ {', '.join(shares)} of members at {', '.join(alarms)} % false alarms"
    text += f"; advantage ≤ {rounded_up(risk.advantage, 3)}"
    if risk.prior != 0.5:
        alone = rounded_up(100 * max(risk.prior, 1 - risk.prior))
        text += f"; at prior {written(risk.prior)} guesses right ≤ {percentage(risk.bayes_accuracy, 4)} of the time, "
        text += f"without the release {alone} %"
    return text


def in_plain_words(guarantee: Guarantee) -> str:
    """What an attacker can learn, in a sentence for people who decide; empty where no risk is known."""
    risk = guarantee.risk
    if risk is None or "0.01" not in risk.tpr_at_fpr:
        return ""
    return (
        "Somebody who knows everything else, and wants to tell from what is released whether one record was in the "
        f"data, finds at most {percentage(risk.tpr_at_fpr['0.01'])} of those who were, at the price of wrongly "
        f"accusing 1 % of those who were not; without any release it would be 1 %. Guessing at even odds is right at "
        f"most {percentage((1 + risk.advantage) / 2)} of the time, where a coin is right 50 %."
    )


def _more(guarantee: Guarantee) -> list[Fact]:
    facts = []
    finite = [(order, epsilon) for order, epsilon in guarantee.rdp if math.isfinite(epsilon)]
    wanted = [point for point in finite if point[0] in _SHOWN_ORDERS] or finite[:6]
    if wanted:
        facts.append(("RDP", ", ".join(f"{rounded_up(epsilon)} at order {order:g}" for order, epsilon in wanted)))
    if guarantee.epsilon_estimate is not None and guarantee.epsilon_lower != guarantee.epsilon:
        facts.append(("estimate", f"ε ≈ {guarantee.epsilon_estimate:.6g}"))
    if guarantee.sampler != "none":
        facts.append(("sampling", guarantee.sampler))
    facts.append(("accountant", guarantee.accountant))
    return facts


def conditions(result: Result, *, verbose: bool) -> list[Fact]:
    """What the reader must make sure of, then the sources: where the first is from, or all of them with their words."""
    guarantee = result.guarantee
    if guarantee is None or (result.command in _OF_A_BUDGET and not verbose):
        return []
    stated = () if result.command in _OF_NOTIONS and not verbose else guarantee.assumptions
    facts = [("holds if" if i == 0 else "", line) for i, line in enumerate(stated)]
    first, *others = guarantee.citations
    if verbose:
        sources = [("by", first), *(("", other) for other in others)]
        return [*facts, *sources, *(("remark" if i == 0 else "", line) for i, line in enumerate(guarantee.remarks))]
    source = reference(guarantee.citations)
    if source == _NO_SOURCE or any("by" in section.columns for section in result.sections):
        return facts
    return [*facts, ("by", source + ("; -v for the mechanisms" if others else ""))]


def reference(citations: Sequence[str]) -> str:
    """Who has proved the first and where, without what it says; with the other theorems of the same paper."""
    first, *others = (citation.partition(": ")[0].partition(_THEOREM) for citation in citations)
    paper, theorem, number = first
    numbers = dict.fromkeys((number, *(other[2] for other in others if theorem and other[0] == paper)))
    return f"{paper} (Theorems {', '.join(numbers)})" if len(numbers) > 1 else f"{paper}{theorem}{number}"

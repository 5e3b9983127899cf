"""A result as plain data, and its numbers as text: upper bounds rounded up, lower bounds down, never the other way."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Any

from dpcalc.guarantee import LAST_DIGITS, Budget, Guarantee, Result, Verdict, exceeds
from dpcalc.risk import Risk
from dpcalc.version import __version__

SCHEMA = "dpcalc/1"

DIGITS = 4

# What is above a number by less than this, relatively, is rounding that was allowed for.
_HAIR = Decimal("1e-9")

# Below this and from this on a number is written with an exponent.
_SMALLEST_PLAIN, _LARGEST_PLAIN = -3, 6

# What a result lists row by row beside its answer.
_BREAKDOWNS = ("bounds", "changes", "mechanisms")

SYMBOLS = {"epsilon": "ε", "delta": "δ", "mu": "μ", "rho": "ρ", "advantage": "advantage"}


def to_json(result: Result) -> dict[str, Any]:
    """The JSON object of the contract: infinity is the string "inf", NaN never appears."""
    told = {"schema": SCHEMA, "command": result.command, "version": __version__}
    guarantee = {} if result.guarantee is None else _guarantee(result.guarantee)
    curve = [{"epsilon": epsilon, "delta": delta} for epsilon, delta in result.curve]
    rest = {"budget": _budget(result), "curve": curve or None, "details": dict(result.details)}
    document: dict[str, Any] = plain({**told, **guarantee, **rest})
    return document


def from_json(document: Mapping[str, Any]) -> Result:
    """The result that a JSON object tells, as data: what it claims is checked where it is read as a spec."""
    numbers = {key: _unwritten(document.get(key)) for key in _NUMBERS}
    budget = document.get("budget") or {}
    limits = {key: _unwritten(value) for key, value in budget.items() if key != "within"}
    guarantee = None
    if "guarantee" in document:
        question = document.get("question") or {}
        guarantee = Guarantee(
            **numbers,
            asks="delta" if "epsilon" in question else "epsilon",
            mu_kind=document.get("mu_kind"),
            rdp=tuple((float(point["order"]), _unwritten(point["epsilon"])) for point in document.get("rdp") or ()),
            risk=_read_risk(document.get("risk")),
            adjacency=document["adjacency"],
            sampler=document.get("sampler") or "none",
            status=document["guarantee"],
            accountant=document.get("accountant") or "",
            theorem=document.get("theorem") or "",
            assumptions=tuple(document.get("assumptions") or ()),
            mechanisms=tuple(document.get("mechanisms") or ()),
            certificate=document.get("certificate"),
            warnings=tuple(document.get("warnings") or ()),
        )
    points = document.get("curve") or ()
    return Result(
        command=document["command"],
        guarantee=guarantee,
        details=document.get("details") or {},
        curve=tuple((_unwritten(point["epsilon"]), point["delta"]) for point in points),
        budget=Budget(**limits),
        private=document["command"] in _PRIVATE,
    )


# Commands whose details tell about individuals.
_PRIVATE = ("filter", "train", "queries")
_NUMBERS = ("epsilon", "delta", "epsilon_lower", "epsilon_estimate", "delta_lower", "mu", "rho")


def _unwritten(value: Any) -> Any:
    """A number as it was before JSON, which has no infinity."""
    return math.inf if value == "inf" else value


def _read_risk(told: Mapping[str, Any] | None) -> Risk | None:
    if told is None:
        return None
    guess = told["bayes_accuracy"]
    return Risk(
        advantage=told["advantage"], tpr_at_fpr=told["tpr_at_fpr"], prior=guess["prior"], bayes_accuracy=guess["value"]
    )


def _guarantee(guarantee: Guarantee) -> dict[str, Any]:
    return {
        "question": guarantee.question,
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "epsilon_lower": guarantee.epsilon_lower,
        "epsilon_estimate": guarantee.epsilon_estimate,
        "delta_lower": guarantee.delta_lower,
        "mu": guarantee.mu,
        "mu_kind": guarantee.mu_kind,
        "rho": guarantee.rho,
        "rdp": [{"order": order, "epsilon": epsilon} for order, epsilon in guarantee.rdp],
        "risk": None if guarantee.risk is None else _risk(guarantee.risk),
        "adjacency": guarantee.adjacency,
        "sampler": guarantee.sampler,
        "guarantee": guarantee.status,
        "accountant": guarantee.accountant,
        "theorem": "; ".join(guarantee.citations),
        "assumptions": list(guarantee.assumptions),
        "mechanisms": list(guarantee.mechanisms),
        "certificate": guarantee.certificate,
        "warnings": [*guarantee.warnings, *guarantee.remarks],
    }


def _risk(risk: Risk) -> dict[str, Any]:
    return {
        "advantage": risk.advantage,
        "tpr_at_fpr": dict(risk.tpr_at_fpr),
        "bayes_accuracy": {"prior": risk.prior, "value": risk.bayes_accuracy},
    }


def _budget(result: Result) -> dict[str, Any] | None:
    limits = {f"max_{quantity}": limit for quantity, limit in result.budget.limits().items()}
    within = all(verdict.outcome == "within" for verdict in result.verdicts)
    return {"within": within, **limits} if limits else None


def plain(value: Any) -> Any:
    """Only what JSON knows: NumPy values become Python's, tuples lists, infinity "inf"; NaN is a bug and raises."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy arrays and scalars
        return plain(value.tolist())
    if isinstance(value, float):
        if math.isnan(value):
            raise ValueError("a result holds NaN")
        if math.isinf(value):
            return "inf" if value > 0 else "-inf"
    return value


def rounded_up(value: float | None, digits: int = DIGITS) -> str:
    """An upper bound to so many significant digits, never below the value."""
    return _rounded(value, digits, ROUND_CEILING)


def beside_a_budget(value: float | None, digits: int = DIGITS) -> str:
    """An upper bound where the number that it was meant to keep is told too.

    What sums were allowed for their rounding is told apart: 1 + 3e-13, as 1 is below the bound and 1.001 is another
    number.
    """
    if value is None or not _is_number(value) or value <= 0:
        return rounded_up(value, digits)
    exact = Decimal(value)
    short = exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), ROUND_FLOOR)
    hair = exact - short
    if not Decimal(LAST_DIGITS) * exact < hair <= _HAIR * exact:
        return rounded_up(value, digits)
    return f"{_plain_text(short.normalize())} + {rounded_up(float(hair), 1)}"


def rounded_down(value: float | None, digits: int = DIGITS) -> str:
    """A lower bound to so many significant digits, never above the value."""
    return _rounded(value, digits, ROUND_FLOOR)


def in_a_column(value: float | None) -> str:
    """An upper bound to be read among others: at most three decimals, where that leaves two digits."""
    if value is None or not _is_number(value) or not 0.01 <= value < 1:
        return rounded_up(value)
    return _rounded(value, DIGITS - 1, ROUND_CEILING, unit=Decimal("0.001"))


def written(value: float | None) -> str:
    """A number that somebody gave, as short as it can be told: 1e-6, 0.05, 3."""
    return "–" if value is None else _plain_text(Decimal(repr(float(value))).normalize()) if _is_number(value) else "∞"


def upper_against(value: float | None, limit: float) -> str:
    """An upper bound with as many digits as it takes to see on which side of a limit it is."""
    if value is None or not _is_number(value):
        return rounded_up(value)
    for digits in range(DIGITS, 18):
        text = beside_a_budget(value, digits)
        if exceeds(value, limit) == (sum(map(Decimal, text.split(" + "))) > Decimal(repr(limit))):
            return text
    return text


def percentage(share: float, digits: int = 3) -> str:
    """A share that is an upper bound, in percent, rounded up: to two decimals from 10 % on."""
    return f"{rounded_up(100 * share, digits + (share >= 0.1))} %"


def _is_number(value: float) -> bool:
    return math.isfinite(value)


def _rounded(value: float | None, digits: int, direction: str, unit: Decimal | None = None) -> str:
    """To so many digits in a direction; with fewer where the value is that number up to its last digits.

    1.9993 is 2.000 from above and 2 is 2: the zeros say that something was rounded.
    """
    if value is None:
        return "–"
    if value == 0 or not _is_number(value):
        return "0" if value == 0 else "∞" if value > 0 else "-∞"
    exact = Decimal(value)
    fixed, unit = unit is not None, unit or Decimal(1).scaleb(exact.adjusted() - digits + 1)
    nearest = exact.quantize(unit, ROUND_HALF_EVEN)
    if abs(exact - nearest) <= Decimal(LAST_DIGITS) * abs(exact):
        return _plain_text(nearest.normalize())
    found = exact.quantize(unit, direction)
    if not fixed and found.adjusted() > exact.adjusted():  # 9.9996 became 10.000: one digit fewer
        found = found.quantize(unit.scaleb(1))
    return _plain_text(found)


def _plain_text(number: Decimal) -> str:
    """Without an exponent where that is short, else 1e-6 and 1.235e8."""
    if number == 0:
        return "0"
    if _SMALLEST_PLAIN <= number.adjusted() < _LARGEST_PLAIN:
        return f"{number:f}"
    sign, digits, _ = number.as_tuple()
    tail = "".join(map(str, digits[1:]))
    return f"{'-' if sign else ''}{digits[0]}{'.' if tail else ''}{tail}e{number.adjusted()}"


def percents(shares: Sequence[float | None]) -> list[str]:
    """Shares in whole percent, equal ones alike, told apart from none and from all.

    They add up to 100 unless equal ones would have to differ for that: three thirds are 33 % each.
    """
    known = [100 * (share or 0.0) for share in shares]
    left = round(sum(known)) - sum(map(math.floor, known))
    counts, raised = Counter(known), set()
    for percent in sorted(counts, key=lambda each: math.floor(each) - each):
        if counts[percent] <= left:
            raised.add(percent)
            left -= counts[percent]
    return [_percent(share, up=100 * (share or 0.0) in raised) for share in shares]


def _percent(share: float | None, *, up: bool) -> str:
    if share is None:
        return "–"
    if 0 < share < 0.005:
        return "< 1 %"
    return f"{min(math.floor(100 * share) + up, 99) if share < 1 else 100} %"


def shortened(text: str, most: int) -> str:
    """The text, cut after a word where it is longer than that."""
    return text if len(text) <= most else text[: most - 1].rsplit(" ", 1)[0] + " …"


def verdict_line(verdict: Verdict) -> str:
    """A limit that is not kept, in words, with the number as the first line has it."""
    name, limit = verdict.quantity, written(verdict.limit)
    if verdict.value is None:
        return f"{name} is not known for this result, so its limit {limit} is not shown to hold"
    value = upper_against(verdict.value, verdict.limit)
    if verdict.outcome == "over":
        return f"{name} = {value} is over its limit {limit}"
    return f"{name} = {value} is {verdict.status}, not certified, so its limit {limit} is not shown to hold"


def csv_records(result: Result) -> tuple[Mapping[str, Any], ...]:
    """One row for each record of the result: those of a sweep, or the guarantee with its details and its breakdown."""
    if result.records:
        return tuple(plain(record) for record in result.records)
    numbers = ("epsilon", "delta", "epsilon_lower", "epsilon_estimate", "delta_lower", "mu", "mu_kind", "rho")
    described = ("adjacency", "sampler", "guarantee", "accountant", "theorem")
    document = to_json(result)
    record = {key: document[key] for key in ("command", *numbers, *described) if key in document}
    if document["budget"]:
        record["within_budget"] = document["budget"]["within"]
    details = document["details"]
    rows: list[Any] = next((details[key] for key in _BREAKDOWNS if details.get(key)), [])
    told = {**({"name": "answer"} if rows else {}), **_flat(details)}
    return ({**record, **told, **record}, *({"command": result.command, **_flat(row)} for row in rows))


def _flat(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that fit into a cell."""
    return {key: value for key, value in fields.items() if not isinstance(value, (dict, list, tuple))}

"""A filtered log in words and small tables: the answer first, then who takes part when and who has lost how much."""

from __future__ import annotations

import math

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.filters import dominating
from dpcalc.filters.rule import Rule
from dpcalc.filters.run import Run
from dpcalc.filters.summary import Losses, beyond, last_run_step, members, odometer
from dpcalc.guarantee import Bar, Guarantee, Section
from dpcalc.mechanisms.declared import DeclaredGDP, DeclaredRDP, DeclaredZCDP
from dpcalc.report import beside_a_budget, rounded_up
from dpcalc.rounding import up

_BINS = 5
AFTER_THE_FACT_IN_SHORT = "own ε: after the fact, neither exact nor a bound if steps depended on outputs"
_SYMBOLS = {"mu": "μ", "sum of epsilon": "Σε", "zCDP rho": "ρ"}


def headline(run: Run, stated: Guarantee, epsilon: float | None, delta: float | None) -> str:
    """The answer in one line: whether the budget is kept, by whom it is not, and what it guarantees."""
    rule = run.settings.budget or run.settings.rule
    budget = f"ε = {epsilon:g} at δ = {_short(delta)}" if epsilon is not None else _budget(rule)
    if run.settings.dominating is not None:
        budget = f"a curve of μ = {run.settings.dominating[0]:.4g} (approximate)"
    if run.settings.finished:
        return _finished(run, budget)
    if rule.notion is None:
        return _tracked(run)
    if run.settings.scope == "global":
        return _whole_run(run, budget)
    if stated.epsilon is not None:
        budget = f"ε = {rounded_up(stated.epsilon, 4)} at δ = {_short(delta)}"
    return _records(run, budget)


def _whole_run(run: Run, budget: str) -> str:
    ran, steps = sum(run.steps.active), len(run.steps.labels)
    if run.halt_step is None:
        return f"all {steps:,} steps fit {budget}" if steps > 1 else f"the only step fits {budget}"
    if not ran or last_run_step(run) < run.halt_step:
        return f"stop before step {run.halt_step}: {ran:,} of {steps:,} steps fit {budget}"
    others = f" and {steps - ran - 1:,} more" if steps - ran > 1 else ""
    return f"leave out step {run.halt_step}{others}: {ran:,} of {steps:,} steps fit {budget}"


def _records(run: Run, budget: str) -> str:
    lost, clipped = int(run.filter.lost.sum()), int(run.filter.clipped.sum())
    then = f"; then {budget}" if lost or clipped else f": {budget}"
    if clipped:
        return f"{clipped:,} of {run.individuals:,} records must be clipped to what they have left{then}"
    if lost:
        return f"{lost:,} of {run.individuals:,} records must sit out some of {len(run.steps.labels):,} steps{then}"
    everybody = f"all {run.individuals:,} records" if run.individuals > 1 else "the only record"
    return f"{everybody} may take part in all {'their' if run.individuals > 1 else 'its'} steps{then}"


def _finished(run: Run, budget: str) -> str:
    whole = run.settings.scope == "global"
    rule, largest = run.settings.rule, float(run.filter.spent.max(initial=0.0))
    notion = (run.settings.budget or rule).notion
    if isinstance(notion, DeclaredZCDP) and rule.unit == "mu":
        most = f"ρ = {rounded_up(up(largest * largest / 2))}"
    else:
        most = f"{_symbol(rule.unit)} = {rounded_up(largest)}"
    if run.settings.dominating is not None:
        fitted = dominating.fitted(run, run.settings.dominating[1]).mu
        most = f"μ = {rounded_up(float(fitted.max(initial=0.0)), 4)}"
    everybody = "the run" if whole else f"all {run.individuals:,} records"
    if run.settings.budget is None and run.settings.dominating is None:
        return f"{everybody} spent at most {most}; there is no budget to hold it against"
    over = int(beyond(run).sum())
    if not over:
        return f"yes: {everybody} stayed within {budget} (the most: {most})"
    who = "the run went" if whole else f"{over:,} of {run.individuals:,} records took part"
    return f"NO: {who} beyond {budget} (the most: {most})"


def _tracked(run: Run) -> str:
    shown = odometer(run, None)
    symbol, without = _symbol(shown["unit"]), "" if run.settings.budget or run.settings.rule.notion else ", no budget"
    if run.settings.scope == "global":
        loss, last = beside_a_budget(shown["loss"][-1]), shown["stopping_times"][-1]
        return f"the loss up to step {last} is at most {symbol} = {loss} (stretches of {shown['width']:g}{without})"
    loss = beside_a_budget(shown["largest_loss"])
    return f"nobody's loss is above {symbol} = {loss} (stretches of {shown['width']:g}{without})"


def _budget(rule: Rule) -> str:
    """A budget that is not (ε,δ), as it was given: μ, or ρ at orders."""
    notion = rule.notion
    if isinstance(notion, DeclaredGDP):
        return f"μ = {rounded_up(math.sqrt(rule.limits[0]) / rule.scale)}"
    if isinstance(notion, DeclaredZCDP):
        return f"ρ = {rounded_up(rule.limits[0] / (2 * rule.scale**2) if rule.squares else rule.limits[0])} (zCDP)"
    if isinstance(notion, DeclaredRDP):
        return ", ".join(
            f"ρ = {rounded_up(rho)} at order {order:g}" for order, rho in zip(rule.orders, rule.limits, strict=False)
        )
    return "the budget"


def _symbol(unit: str) -> str:
    return _SYMBOLS.get(unit, unit.replace("rdp", "ρ"))


def facts(run: Run, found: Losses, stated: Guarantee) -> list[tuple[str, str]]:
    """What is enforced, who takes part when, what was spent, and what is proved beside a record's own ε."""
    rule = run.settings.budget or run.settings.rule
    told = []
    if rule.split is not None:
        told.append(
            ("parts of δ", f"{rule.split.filter:.4g} for the filter, {rule.split.steps:.4g} for the steps' own")
        )
    whole = run.settings.scope == "global"
    # A finished run that went beyond its budget has no guarantee, and none is told.
    known = any(value is not None for value in (stated.epsilon, stated.mu, stated.rho)) or stated.rdp
    if known and rule.notion is not None and rule.mixture is None:
        whom = "the whole run" if whole else "everyone"
        told.append((stated.status, f"{_budget(rule)} for {whom}, fixed beforehand; one record added or removed"))
    if whole:
        return told
    if run.odometer is not None and rule.notion is not None:
        told.append(("odometer", _tracked(run)))
    if not run.settings.finished:
        told.append(("taking part", _taking_part(run)))
    if found.epsilon is None or run.settings.finished:
        least, median, most = (rounded_up(float(value)) for value in np.quantile(found.spent, (0, 0.5, 1)))
        told.append(("spent", f"{_symbol(rule.unit)} from {least} to {most}, median {median}"))
    if found.fitted is not None:
        told.append(("fitted μ", f"up to {rounded_up(float(found.fitted.mu.max()))} (approximate)"))
    if found.anytime is not None and run.settings.anytime is not None:
        ends = " to ".join(rounded_up(float(value)) for value in (found.anytime.min(), found.anytime.max()))
        told.append(("at all times", f"own ε from {ends}, proved with r = {run.settings.anytime[1]:g}"))
    return told


def _taking_part(run: Run) -> str:
    """How many, up to the step where somebody first sits out, half way from there, and at the end."""
    labels, active = list(run.steps.labels), list(run.steps.active)
    full = next((place for place, count in enumerate(active) if count < active[0]), len(active))
    if full == len(active) and len(set(active)) == 1:
        return f"{active[0]:,} in every step"
    words = [f"{active[0]:,} up to step {labels[full - 1]}"]
    for place in sorted({(full + len(active)) // 2, len(active) - 1} & set(range(full, len(active)))):
        words.append(f"{active[place]:,} in step {labels[place]}")
    return ", ".join(words)


def sections(run: Run, found: Losses, delta: float | None) -> list[Section]:
    """The odometer's stretches; who has lost how much; the same for groups."""
    shown = []
    if run.odometer is not None and run.settings.scope == "global":
        shown.append(_stretches(run, delta))
    if run.settings.scope == "individual":
        shown.append(_histogram(run, found))
    if run.group_names:
        shown.append(_groups(run, found))
    return shown


def _stretches(run: Run, delta: float | None) -> Section:
    shown = odometer(run, delta)
    unit = _symbol(shown["unit"])
    names = ["stretch", "ends at step", f"loss up to there ({unit})"]
    columns = [range(1, len(shown["loss"]) + 1), shown["stopping_times"], map(beside_a_budget, shown["loss"])]
    if delta is not None:
        names.append(f"ε at δ = {_short(delta)}")
        columns.append(map(rounded_up, shown["epsilon"]))
    return Section(title="Odometer", columns=tuple(names), rows=tuple(zip(*columns, strict=True)))


def _short(delta: float | None) -> str:
    return f"{delta or 0.0:g}".replace("e-0", "e-")


def _shown_loss(run: Run, found: Losses) -> tuple[Floats, str]:
    """The individual loss to draw: ε where δ is known, else what was spent, with its unit."""
    if found.epsilon is not None:
        return found.epsilon, "own ε"
    return found.spent, f"spent ({_symbol(run.settings.rule.unit)})"


def _histogram(run: Run, found: Losses) -> Section:
    values, word = _shown_loss(run, found)
    bins = histogram(values)
    most = max((count for *_, count in bins), default=1)
    drawn = tuple((_range(low, high), count, Bar(count / most)) for low, high, count in bins)
    note = "" if found.epsilon is None else AFTER_THE_FACT_IN_SHORT
    columns = (word, "records", "SENSITIVE: read off the data without noise")
    return Section(title="How many have lost how much", columns=columns, rows=drawn, note=note)


def _range(low: float, high: float) -> str:
    return rounded_up(high, 3) if low == high else f"{low:.4g} – {rounded_up(high, 3)}"


def histogram(values: Floats, bins: int = _BINS) -> list[tuple[float, float, int]]:
    """Counts in ranges of a round width from 0 or above: (from, to, records); ranges that nobody is in are left out."""
    if not values.size:
        return []
    low, high = float(values.min()), float(values.max())
    if high - low <= 1e-9 * high:
        return [(high, high, values.size)]
    rough = (high - low) / bins
    power = 10.0 ** math.floor(math.log10(rough))
    width = next(unit * power for unit in (1, 2, 5, 10) if unit * power >= rough * (1 - 1e-9))
    places = np.floor(values / width).astype(np.int64)
    found, counts = np.unique(places, return_counts=True)
    return [
        (place * width, min((place + 1) * width, high), count)
        for place, count in zip(found.tolist(), counts.tolist(), strict=True)
    ]


def _groups(run: Run, found: Losses) -> Section:
    values, word = _shown_loss(run, found)
    rows = []
    for index, (name, who) in enumerate(zip(run.group_names, members(run), strict=True)):
        last = int(run.steps.view("active_by_group")[-1, index])
        mean = float(values[who].mean()) if who.size else 0.0
        largest = float(values[who].max(initial=0.0))
        rows.append((name, int(who.size), last, int(run.filter.lost[who].sum()), mean, largest))
    columns = ("group", "records", "in the last step", "sat out a step", f"mean {word}", f"largest {word}")
    return Section(title="Subgroups (SENSITIVE)", columns=columns, rows=tuple(rows))

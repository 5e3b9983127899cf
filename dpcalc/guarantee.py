"""A privacy guarantee as a value: the numbers, and everything they are conditional on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, get_args

from dpcalc.errors import IncompatibleError
from dpcalc.evidence import Evidence, Status, weakest_status
from dpcalc.risk import Risk

Adjacency = Literal["add-remove", "replace-one"]
MuKind = Literal["exact", "upper", "approximate"]
Quantity = Literal["epsilon", "delta", "mu", "rho", "advantage"]
Outcome = Literal["within", "over", "unproved"]

ADJACENCIES: tuple[Adjacency, ...] = ("add-remove", "replace-one")

# Two numbers this close, relative to each other, are one number whose last digits were rounded: 0.1 + 0.2 is 0.3.
LAST_DIGITS = 1e-14

DEFAULT_ORDERS: tuple[float, ...] = (1.25, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256)


class Release(Protocol):
    """What a guarantee asks of what it is about: a mechanism, or what is only stated."""

    @property
    def adjacency(self) -> Adjacency: ...

    def sampler(self) -> str: ...

    def spec(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, kw_only=True)
class Stated:
    """A release of which only the entry of a spec is known (nothing if that is empty), and how records are drawn."""

    adjacency: Adjacency
    entry: Mapping[str, Any] = field(default_factory=dict)
    drawn: str = "none"

    def sampler(self) -> str:
        """How records are drawn."""
        return self.drawn

    def spec(self) -> Mapping[str, Any]:
        """The entry."""
        return self.entry


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """What holds, and on which conditions.

    `epsilon` is a sound upper bound at `delta`; `epsilon_lower` and `epsilon_estimate` show how tight it is. Where ε
    was given and δ is the answer, `asks` says so and `delta_lower` is the bound from below. `theorem` is one citation
    or several, each a reference and, after a colon, what it says. `warnings` must be read; `remarks` are for whoever
    wonders why a field is None or an interval wide, and stand behind the warnings in JSON.
    """

    adjacency: Adjacency
    status: Status
    accountant: str
    theorem: str | tuple[str, ...]
    epsilon: float | None = None
    delta: float | None = None
    asks: Literal["epsilon", "delta"] = "epsilon"
    epsilon_lower: float | None = None
    epsilon_estimate: float | None = None
    delta_lower: float | None = None
    mu: float | None = None
    mu_kind: MuKind | None = None
    rho: float | None = None
    rdp: tuple[tuple[float, float], ...] = ()
    risk: Risk | None = None
    certificate: Mapping[str, Any] | None = None
    sampler: str = "none"
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    mechanisms: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def of(
        cls, releases: Sequence[tuple[Release, int | None]], evidence: Evidence, *, accountant: str, **numbers: Any
    ) -> Guarantee:
        """The guarantee of releases, each with how often it was made (None where it is stated as one).

        Adjacency, sampler and entries follow from the releases, which must fit together; what the numbers rest on from
        the evidence.
        """
        listed = [(release.spec(), count) for release, count in releases if release.spec()]
        return cls(
            adjacency=common_adjacency(release.adjacency for release, _ in releases),
            sampler=" + ".join(dict.fromkeys(release.sampler() for release, _ in releases)),
            mechanisms=tuple(dict(entry) if count is None else {**entry, "count": count} for entry, count in listed),
            accountant=accountant,
            status=evidence.status,
            theorem=evidence.citations[0] if len(evidence.citations) == 1 else evidence.citations,
            assumptions=evidence.assumptions,
            warnings=evidence.warnings,
            remarks=evidence.remarks,
            **numbers,
        )

    def __post_init__(self) -> None:
        bounds = (self.epsilon, self.delta, self.epsilon_lower, self.epsilon_estimate, self.delta_lower)
        values = [*bounds, self.mu, self.rho, *(value for point in self.rdp for value in point)]
        if any(value is not None and (math.isnan(value) or value < 0) for value in values):
            raise ValueError(f"Expected non-negative parameters in a guarantee, got {values}.")
        if (self.mu is None) != (self.mu_kind is None):
            raise ValueError("Expected mu and mu_kind to be given together.")

    @property
    def citations(self) -> tuple[str, ...]:
        """What the numbers rest on, one theorem each."""
        return (self.theorem,) if isinstance(self.theorem, str) else self.theorem

    @property
    def question(self) -> dict[str, float] | None:
        """What was given: the δ at which to tell ε, or the ε at which to tell δ; None if neither was."""
        given = "delta" if self.asks == "epsilon" else "epsilon"
        value: float | None = getattr(self, given)
        return None if value is None else {given: value}

    def upper(self, quantity: str) -> float | None:
        """The upper bound on a quantity; None if it is not known."""
        if quantity == "advantage":
            return None if self.risk is None else self.risk.advantage
        value: float | None = getattr(self, quantity)
        return value

    def lower(self, quantity: str) -> float | None:
        """A certified lower bound on a quantity; None if none is known."""
        if quantity == self.asks:
            return self.epsilon_lower if quantity == "epsilon" else self.delta_lower
        return None

    def with_warnings(self, *messages: str) -> Guarantee:
        """The same guarantee with more to be aware of, each thing once, and not what it remarks already."""
        new = (message for message in messages if message not in self.remarks)
        return replace(self, warnings=tuple(dict.fromkeys((*self.warnings, *new))))

    def unattained(self) -> Guarantee:
        """The same upper bounds where nobody is known to attain what they are of: no lower one, and no exact μ."""
        kind: MuKind | None = "upper" if self.mu_kind == "exact" else self.mu_kind
        return replace(self, epsilon_lower=None, delta_lower=None, mu_kind=kind)

    def as_weak_as(self, *statuses: Status) -> Guarantee:
        """The same numbers, trusted no more than the least of these: nothing about them is certified then."""
        status = weakest_status([self.status, *statuses])
        if status == self.status:
            return self
        kind: MuKind | None = None if self.mu is None else "approximate"
        return replace(self, status=status, epsilon_lower=None, delta_lower=None, mu_kind=kind)


def common_adjacency(adjacencies: Iterable[Adjacency]) -> Adjacency:
    """The adjacency all parts share; parts that differ do not compose and raise."""
    found = sorted(set(adjacencies))
    if len(found) != 1:
        raise IncompatibleError(
            f"cannot combine guarantees under {' and '.join(found)}; state them all under one adjacency."
        )
    return found[0]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A limit and whether it is kept: `value` is the bound that was compared, None if there is none.

    `unproved` is neither kept nor broken for sure: the number is not certified, or not known.
    """

    quantity: Quantity
    limit: float
    outcome: Outcome
    value: float | None
    status: Status


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The limits a result is checked against."""

    max_epsilon: float | None = None
    max_delta: float | None = None
    max_mu: float | None = None
    max_rho: float | None = None
    max_advantage: float | None = None

    def limits(self) -> dict[Quantity, float]:
        """The limits that were given, by the quantity that they limit."""
        named: dict[Quantity, float | None] = {each: getattr(self, f"max_{each}") for each in get_args(Quantity)}
        return {quantity: limit for quantity, limit in named.items() if limit is not None}

    def judge(self, guarantee: Guarantee, certified: Guarantee | None = None) -> tuple[Verdict, ...]:
        """A verdict on every limit. Only what is certified keeps a limit.

        `certified` is a certified guarantee of the same release beside one that is not: it decides if it is there.
        """
        return tuple(_verdict(quantity, limit, guarantee, certified) for quantity, limit in self.limits().items())


def _verdict(quantity: Quantity, limit: float, guarantee: Guarantee, certified: Guarantee | None) -> Verdict:
    deciding = certified if certified is not None and guarantee.status != "certified" else guarantee
    value, lower = deciding.upper(quantity), guarantee.lower(quantity)
    if deciding.status == "certified" and value is not None:
        outcome: Outcome = "over" if exceeds(value, limit) else "within"
    else:
        outcome = "over" if lower is not None and exceeds(lower, limit) else "unproved"
    return Verdict(quantity=quantity, limit=limit, outcome=outcome, value=value, status=deciding.status)


def exceeds(value: float, limit: float) -> bool:
    """Whether a value is above a limit by more than rounding in the last digits."""
    return not value <= limit * (1 + LAST_DIGITS)


class Bar(float):
    """A cell that is drawn: a share from 0 to 1, as a bar as long as there is room for."""


@dataclass(frozen=True, kw_only=True)
class Section:
    """A table for people: plain words and numbers, drawn by whichever format was asked for.

    A `note` that begins with the name of a column and a colon explains that column, and goes with it. What `leads`
    stands directly below the answer. Rows without names of columns are labelled lines, and stand below the tables.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str = ""
    leads: bool = False


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a command returns: a guarantee (or none), its details, and how to show them.

    `headline` is the first line, the answer in words; without it the guarantee says its own, after `preface`, and
    `qualifier` what that is about; `aside` is told after the verdicts. `facts` are labelled lines below it: one named
    like the guarantee's status takes the place of its interval. `curve` are (ε, δ) that hold all at once. `goal` is
    whether what was aimed at is kept, where that is not a limit. `certified` is a certified guarantee beside one that
    is not. `course` are (step, quantiles of what people had spent by then), for pictures alone: a run that is continued
    has only its own. `private` says that it tells about individuals, so that a file with it is for its owner alone.
    `parts` are results that a report tells one by one.
    """

    command: str
    guarantee: Guarantee | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    headline: str = ""
    preface: str = ""
    qualifier: str = ""
    aside: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    sections: tuple[Section, ...] = ()
    records: tuple[Mapping[str, Any], ...] = ()
    curve: tuple[tuple[float, float], ...] = ()
    budget: Budget = field(default_factory=Budget)
    goal: Outcome | None = None
    certified: Guarantee | None = None
    course: tuple[tuple[int, list[float]], ...] = ()
    private: bool = False
    parts: tuple[Result, ...] = ()

    @property
    def labelled(self) -> tuple[tuple[Any, ...], ...]:
        """The rows of its sections that have a name of their own, and no columns."""
        return tuple(row for section in self.sections if not any(section.columns) for row in section.rows)

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Whether each limit is kept."""
        return () if self.guarantee is None else self.budget.judge(self.guarantee, self.certified)

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """What became of every limit, and of the goal if there was one."""
        return (*(verdict.outcome for verdict in self.verdicts), *(() if self.goal is None else (self.goal,)))

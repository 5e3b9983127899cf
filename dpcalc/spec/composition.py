"""What the entries of specs cost together, and each of them on its own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from dpcalc.accounting.closed_forms import sum_up
from dpcalc.accounting.compose import Accountant, compose
from dpcalc.accounting.renyi import all_rdps
from dpcalc.conversions import rdp_epsilons
from dpcalc.errors import InputError
from dpcalc.guarantee import DEFAULT_ORDERS, Adjacency, Guarantee
from dpcalc.mechanisms.base import Mechanism
from dpcalc.report import rounded_up
from dpcalc.spec.entries import Entry
from dpcalc.spec.specification import Document, common_adjacency

Part = tuple[Mechanism, int]

_PURE = "pure ε adds up (Dwork, McSherry, Nissim, Smith 2006)"

# So many different entries are accounted for one by one as tightly as their sum; more of them by RDP, which is quick.
_TIGHT_ENTRIES = 12


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked of a composition: ε at `delta` or δ at `epsilon`, by which accountant, how tightly."""

    delta: float | None = None
    epsilon: float | None = None
    accountant: Accountant = "auto"
    tolerance: float = 1e-3

    def ask(self, parts: Sequence[Part]) -> Guarantee:
        """The guarantee of mechanisms composed."""
        return _composed(tuple(parts), self)


@lru_cache(maxsize=64)
def _composed(parts: tuple[Part, ...], question: Question) -> Guarantee:
    """Kept, since a result that is read back is composed to check it, and then again."""
    if question.delta == 0:
        return _pure(parts, question)
    return compose(
        parts,
        delta=question.delta,
        epsilon=question.epsilon,
        accountant=question.accountant,
        tolerance=question.tolerance,
    )


def _pure(parts: tuple[Part, ...], question: Question) -> Guarantee:
    """ε without any δ: the largest losses add up, and are reached together where each of them is reached."""
    if question.accountant == "clt":
        raise InputError("the central limit theorem says nothing without a δ", where="accountant")
    largest = [mechanism.pure_epsilon() for mechanism, _ in parts]
    losses = [(loss, count) for loss, (_, count) in zip(largest, parts, strict=True) if loss is not None]
    finite = len(losses) == len(parts)
    epsilon = sum_up(losses) if finite else math.inf
    others = compose(parts, epsilon=epsilon if finite else 0.0, tolerance=question.tolerance)
    attained = all(mechanism.attained_pairs() == mechanism.pairs() for mechanism, _ in parts)
    return replace(
        others,
        asks="epsilon",
        epsilon=epsilon,
        delta=0.0,
        epsilon_lower=epsilon * (1 - 1e-12) if attained and finite else None,
        epsilon_estimate=epsilon if attained and finite else None,
        delta_lower=None,
        accountant="pure",
        theorem=_PURE,
        certificate=None,
    )


@dataclass(frozen=True)
class Cost:
    """One entry on its own: an upper bound on its ε at the δ of the total, and its share of the total loss."""

    entry: Entry
    epsilon: float | None
    share: float | None


@dataclass(frozen=True)
class Composition:
    """The guarantee of all entries, the cost of each, and what Poisson sampling would give for shuffled ones."""

    guarantee: Guarantee
    costs: tuple[Cost, ...]
    question: Question
    if_poisson: Guarantee | None = None

    def curve(self, deltas: Sequence[float]) -> Iterator[tuple[float, float]]:
        """(ε, δ) at each δ, each as sound as the guarantee itself."""
        parts = [(cost.entry.mechanism, cost.entry.count) for cost in self.costs]
        for delta in deltas:
            found = replace(self.question, delta=delta, epsilon=None).ask(parts).epsilon
            if found is not None:
                yield found, delta

    def fitted(self, slack: float) -> dict[str, Any]:
        """μ-GDP up to a slack, with its regret and what each direction needs: as sound as the guarantee itself."""
        from dpcalc.accounting.fitted import fitted

        parts = [(cost.entry.mechanism, cost.entry.count) for cost in self.costs]
        found = fitted(parts, slack, accountant=self.question.accountant, tolerance=self.question.tolerance)
        return {**asdict(found), "guarantee": self.guarantee.status}


def read_entries(documents: Sequence[Document], asked: Adjacency | None) -> list[Entry]:
    """The entries of all documents under one adjacency."""
    adjacency = common_adjacency(documents, asked)
    return [entry for document in documents for entry in document.read(adjacency)]


def compose_entries(entries: Sequence[Entry], question: Question) -> Guarantee:
    """The guarantee of entries composed, as trustworthy as the least of them, and composable again."""
    guarantee = question.ask([(entry.mechanism, entry.count) for entry in entries])
    guarantee = guarantee.as_weak_as(*(entry.status for entry in entries))
    return replace(guarantee, mechanisms=tuple(entry.spec() for entry in entries))


def with_carried(guarantee: Guarantee, documents: Sequence[Document]) -> Guarantee:
    """The guarantee with what the documents' readers had to make sure of and to be aware of, and no lower bound that
    they do not have: what a result lists may be a bound on a class of algorithms."""
    assumptions = dict.fromkeys((*guarantee.assumptions, *(line for d in documents for line in d.assumptions)))
    guarantee = replace(guarantee, assumptions=tuple(assumptions))
    if not all(document.attained for document in documents):
        guarantee = guarantee.unattained()
    return guarantee.with_warnings(*(line for document in documents for line in document.warnings))


def compose_documents(
    documents: Sequence[Document], question: Question, adjacency: Adjacency | None = None
) -> Composition:
    """The composition of all that the documents list."""
    entries = read_entries(documents, adjacency)
    guarantee = compose_entries(entries, question)
    guarantee = with_carried(guarantee, documents)
    if_poisson = None
    if any(entry.poisson for entry in entries):
        if_poisson = question.ask([entry.poisson or (entry.mechanism, entry.count) for entry in entries])
        guarantee = guarantee.with_warnings(_difference(if_poisson, question))
    return Composition(guarantee, _costs(entries, guarantee, question), question, if_poisson)


def _difference(if_poisson: Guarantee, question: Question) -> str:
    quantity, symbol = ("delta", "δ") if question.delta is None else ("epsilon", "ε")
    return (
        f"Poisson sampling at the same rate would give {symbol} = {rounded_up(getattr(if_poisson, quantity))}, which "
        "is not proved for shuffled batches, can be far too small, and must not be reported for them"
    )


def _costs(entries: Sequence[Entry], guarantee: Guarantee, question: Question) -> tuple[Cost, ...]:
    delta = guarantee.delta
    if len(entries) == 1:
        return (Cost(entries[0], guarantee.epsilon, 1.0),)
    if delta is None or not 0 < delta < 1:
        return _pure_costs(entries, guarantee)
    # RDP at the order that decides the total, where the shares are read off, and above it, where one entry's ε is.
    deciding = _deciding_order(guarantee, delta)
    orders = deciding * np.array([1.0, 2.0, 6.0])
    parts = list(dict.fromkeys((entry.mechanism, entry.count) for entry in entries))
    rdps = np.array([[float(count)] for _, count in parts]) * all_rdps([mechanism for mechanism, _ in parts], orders)
    own: Iterable[float | None] = rdp_epsilons(orders, rdps, delta).min(axis=1).tolist()
    if len(parts) <= _TIGHT_ENTRIES:
        alone = replace(question, delta=delta, epsilon=None)
        own = [alone.ask([part]).epsilon for part in parts]
    known = dict(zip(parts, zip(own, rdps[:, 0].tolist(), strict=True), strict=True))
    epsilons, amounts = zip(*(known[entry.mechanism, entry.count] for entry in entries), strict=True)
    shares = _shares(amounts, epsilons)
    return tuple(Cost(*cost) for cost in zip(entries, epsilons, shares, strict=True))


def _pure_costs(entries: Sequence[Entry], guarantee: Guarantee) -> tuple[Cost, ...]:
    """Each entry's own pure ε and its part of the sum; nothing where there is no such sum."""
    if guarantee.delta != 0 or guarantee.epsilon is None or not 0 < guarantee.epsilon < math.inf:
        return tuple(Cost(entry, None, None) for entry in entries)
    own = [entry.count * (entry.mechanism.pure_epsilon() or 0.0) for entry in entries]
    return tuple(Cost(entry, loss, loss / guarantee.epsilon) for entry, loss in zip(entries, own, strict=True))


def _deciding_order(guarantee: Guarantee, delta: float) -> float:
    """The order that gives the smallest ε at δ for the total."""
    orders, epsilons = zip(*guarantee.rdp, strict=True) if guarantee.rdp else (DEFAULT_ORDERS, DEFAULT_ORDERS)
    return float(orders[int(np.argmin(rdp_epsilons(orders, epsilons, delta)))])


def _shares(rdps: Sequence[float], epsilons: Sequence[float | None]) -> list[float | None]:
    """How much of the loss each entry makes up; the shares sum to one.

    RDP adds, so a share is the entry's part of the sum. Where some entry has no finite RDP (a δ of its own), the
    shares are those of its ε.
    """
    amounts = rdps if all(map(math.isfinite, rdps)) else [epsilon or 0.0 for epsilon in epsilons]
    whole = math.fsum(amounts)
    return [amount / whole if 0 < whole < math.inf else None for amount in amounts]

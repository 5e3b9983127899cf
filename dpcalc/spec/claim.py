"""What a result says of itself, field by field, as nodes that know where they stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

from dpcalc.evidence import STATUSES, Status
from dpcalc.numbers import NON_NEGATIVE, PROBABILITY_OR_ZERO, Range
from dpcalc.report import SCHEMA, written
from dpcalc.spec.fields import Field, read_number
from dpcalc.spec.node import MISSING_WORDS, Node

# Every command whose result can be composed, with what its details must have to be its own.
_DETAILS: Mapping[str, str] = {
    "compose": "mechanisms",
    "calibrate": "solution",
    "convert": "advantage",
    "filter": "request",
    "sgd-bound": "request",
    "exp-mech": "request",
    "train": "request",
    "queries": "request",
    "report": "mechanisms",
    "ledger init": "budget",
    "ledger spend": "budget",
    "ledger status": "budget",
}


@dataclass(frozen=True)
class Claim:
    """What a result says, as nodes that know where they stand."""

    root: Node
    values: Mapping[str, Node]
    command: str
    status: Status

    @classmethod
    def read(cls, root: Node) -> Claim:
        """The fields every result has; one that is missing is an error that names it."""
        values = root.mapping("a result")
        for key in ("schema", "command", "guarantee", "adjacency", "mechanisms"):
            if key not in values:
                root.fail(f"{key} is missing from the result")
        values["schema"].word((SCHEMA,))
        command = values["command"].word(_DETAILS)
        return cls(root, values, command, cast(Status, values["guarantee"].word(STATUSES)))

    def details(self) -> Mapping[str, Node]:
        """The details, which must be those of this command."""
        needed = _DETAILS[self.command]
        found = self.values.get("details")
        details = found.mapping("details") if found is not None else {}
        if needed not in details:
            self.root.fail(f"details.{needed} is missing, without which a {self.command} result cannot be recomputed")
        return details

    def number(self, key: str, allowed: Range = NON_NEGATIVE) -> float | None:
        """The number of one of its fields."""
        return stated_number(self.values.get(key), allowed)

    def lines(self, key: str) -> tuple[str, ...]:
        """A list of sentences."""
        items = self.values[key].items("a list of sentences") if key in self.values else []
        return tuple(item.text("a sentence") for item in items)

    def question(self) -> dict[str, float]:
        """What was asked: δ for ε, or ε for δ; results of the first edition asked for ε."""
        asked = self.values.get("question")
        if asked is not None and isinstance(asked.content, dict):
            asked.only_keys(("delta", "epsilon"), "a question")
            for key, node in asked.content.items():
                value = stated_number(node, PROBABILITY_OR_ZERO if key == "delta" else NON_NEGATIVE)
                if value is not None and self.number(key) != value:
                    self._field(key).fail(f"expected {written(value)}, which the question asks at")
            found = {key: stated_number(node, NON_NEGATIVE) for key, node in asked.content.items()}
            return {key: value for key, value in found.items() if value is not None}
        delta = self.number("delta", PROBABILITY_OR_ZERO)
        return {} if not delta else {"delta": delta}

    def _field(self, key: str) -> Node:
        return self.values.get(key, replace(self.root, path=key))

    def refuse(self, key: str, message: str) -> None:
        """Stop at a field."""
        self._field(key).fail(message)


def stated_number(node: Node | None, allowed: Range) -> float | None:
    """The number of a field; None where it is null or absent, infinity where it says so."""
    if node is None or (node.plain and node.content in MISSING_WORDS):
        return None
    if node.content == "inf":
        return float("inf")
    return read_number(node, Field(allowed))

"""What numbers rest on, and how much may be claimed of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Status = Literal["certified", "numerical", "approximate"]

# From the strongest claim to the weakest: a combination is as weak as its weakest part.
STATUSES: tuple[Status, ...] = ("certified", "numerical", "approximate")


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What numbers rest on, as data: citations, what must hold, what must be read, and how much may be claimed.

    It adds up: everything once, in order, and the claim as weak as its weakest part.
    """

    citations: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    status: Status = "certified"

    def __add__(self, other: Evidence) -> Evidence:
        lines = ("citations", "assumptions", "warnings", "remarks")
        both = {name: tuple(dict.fromkeys((*getattr(self, name), *getattr(other, name)))) for name in lines}
        return Evidence(**both, status=weakest_status([self.status, other.status]))


def weakest_status(statuses: Iterable[Status]) -> Status:
    """How much a combination may claim: as much as its weakest part."""
    return max(statuses, key=STATUSES.index, default="certified")

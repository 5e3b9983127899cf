"""Every error of a certificate by name. One field, one lemma of docs/certificate.md, one constant, one test."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True)
class Ledger:
    """What a law leaves out or may be wrong by; products of independent laws add their ledgers, field by field.

    `infinite`, `zero`: P-mass at X = ∞ and Q-mass at X = 0 of the upper law, its own and what was cut off (L8);
    `lost`: what numbers below the normal range may have taken from any one entry of a row (L10);
    `relative`: relative rounding error of every weight (L10);
    `slack`: relative error of the cell masses of the lower rows (L9);
    `shift`: how far, in log X, the points that weights were computed for may be from those of the grid (L9);
    `surely_infinite`, `surely_zero`: at most -log P(X < ∞) and -log Q(X > 0), for lower bounds (L3).
    The errors of transforms are in the weights themselves (`convolve`).
    """

    infinite: float = 0.0
    zero: float = 0.0
    lost: float = 0.0
    relative: float = 0.0
    slack: float = 0.0
    shift: float = 0.0
    surely_infinite: float = 0.0
    surely_zero: float = 0.0

    def then(self, other: Ledger, totals: tuple[float, float] = (1.0, 1.0)) -> Ledger:
        """The ledger of a product of independent laws (L4: masses at 0 and ∞ add up at most).

        What an entry lost is multiplied by at most the total of the other law's rows.
        """
        added = Ledger(*(mine + theirs for mine, theirs in zip(_values(self), _values(other), strict=True)))
        return replace(added, lost=self.lost * totals[1] + other.lost * totals[0])

    def times(self, count: int) -> Ledger:
        """The ledger of so many copies; `lost` for rows of a total of at most 1."""
        return Ledger(*(count * value for value in _values(self)))

    def plus(self, *, infinite: float = 0.0, zero: float = 0.0, lost: float = 0.0, relative: float = 0.0) -> Ledger:
        """The ledger with more charged to it."""
        return replace(
            self,
            infinite=self.infinite + infinite,
            zero=self.zero + zero,
            lost=self.lost + lost,
            relative=self.relative + relative,
        )


def _values(ledger: Ledger) -> tuple[float, ...]:
    return tuple(getattr(ledger, name) for name in _FIELDS)


_FIELDS = tuple(field.name for field in fields(Ledger))

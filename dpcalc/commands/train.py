"""`dpcalc train`: private training that says what it cost, and leaves a log that `dpcalc filter` can audit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from dpcalc.asked import Algorithm, Asked, number, option
from dpcalc.errors import InputError
from dpcalc.guarantee import Guarantee, Result
from dpcalc.terminal.progress import progress
from dpcalc.training.combinations import idle
from dpcalc.training.settings import Settings
from dpcalc.training.wanted import Files, Wanted

_LEDGER = "Ledger"
_EPSILON = 3.0  # the target if neither ε nor the noise is given


@dataclass(frozen=True, kw_only=True)
class Train(Files, Wanted, Settings, Asked):
    """Train a model with differential privacy, and say what it cost.

    Without options it trains on a built-in data set. Every step clips each record's gradient and adds Gaussian noise;
    the guarantee covers the parameters of every step. Accuracy and loss on the training records are shown for their
    owner and are not covered.
    """

    example: ClassVar[str] = "dpcalc train --model logistic --epochs 2 --epsilon 1 --delta 1e-5"

    leading: ClassVar[tuple[str, ...]] = (
        *("data", "model", "descent", "filter", "clipping", "optimizer", "epsilon", "delta", "noise", "clip"),
        *("lr", "epochs", "steps", "batch_size"),
    )

    descent: Annotated[
        Algorithm | None,
        option("--algorithm", help="Full batch, cyclic or stochastic; sgd, or gd with --filter gdp.", panel="Method"),
    ] = None
    noise: Annotated[
        float | None, number("--noise-multiplier", help="Noise on the sum, over the clip.", panel="Privacy")
    ] = None
    ledger: Annotated[
        str | None,
        option("--ledger", metavar="URL", help="Start only if this ledger accepts the cost.", panel=_LEDGER),
    ] = None
    budget: Annotated[
        str | None, option("--budget", metavar="NAME", help="The ledger's budget to charge.", panel=_LEDGER)
    ] = None
    key: Annotated[str | None, option("--key", metavar="K", help="Charged once for this key.", panel=_LEDGER)] = None

    def __post_init__(self) -> None:
        if self.descent is not None or self.filter == "gdp":
            object.__setattr__(self, "algorithm", self.descent or "gd")
        if self.epochs is not None and self.steps is not None:
            raise InputError("expected `epochs` or `steps`, got both")
        if self.noise is not None:
            if self.epsilon is not None:
                raise InputError("expected `noise_multiplier` or `epsilon` (which finds it), got both")
            object.__setattr__(self, "noise_multiplier", self.noise)
        elif self.epsilon is None:
            object.__setattr__(self, "epsilon", _EPSILON)
        for name, reason in self.idle().items():
            if getattr(self, name) != getattr(Settings, name):
                raise InputError(reason, where=name)
        super().__post_init__()

    def idle(self) -> Mapping[str, str]:
        """What needs another value of another option; a grid may bring that."""
        return {} if self.grid is not None else idle(self)

    def answer(self) -> Result:
        """Train, after a ledger has accepted the cost if there is one."""
        from dpcalc.training.session import train_and_report

        asked = (self.part(Settings), self.part(Wanted), self.part(Files))
        if self.ledger is None and self.budget is None and self.key is None:
            return train_and_report(*asked, progress=progress)
        if self.ledger is None or self.budget is None or self.key is None:
            raise InputError("`ledger`, `budget` and `key` go together: where, what and for which run is charged")
        charged: dict[str, Any] = {"budget": self.budget, "key": self.key}
        result = train_and_report(*asked, progress=progress, charge=_charging(self.ledger, charged, self.resume))
        return replace(result, details={**result.details, "ledger": charged})


def _charging(ledger: str, charged: dict[str, Any], resumed: bool) -> Callable[[Guarantee], None]:
    """Charges what a run will guarantee; raises if it is refused, or if its key was charged and it is no resumed run.

    `charged` is told the entry's number.
    """

    def charge_run(guarantee: Guarantee) -> None:
        from dpcalc.ledger.advice import charge

        answer = charge(ledger, charged["budget"], guarantee, key=charged["key"], note="dpcalc train")
        charged["entry"] = answer.entry if resumed else answer.expect_new().entry

    return charge_run

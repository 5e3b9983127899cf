"""Settings that say on which losses, over which set and with which clip for each layer a run descends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from dpcalc.asked import number, option, parsed
from dpcalc.last_iterate.losses import LossName
from dpcalc.numbers import POSITIVE, parse_number
from dpcalc.training.names import ReleaseName


def _shares(text: str) -> tuple[float, ...]:
    return tuple(parse_number(part, POSITIVE) for part in text.split(","))


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """The loss, the ball that parameters are brought back to after every step, and what each layer has of the clip.

    A ball of `diameter` D is centred at 0. With per-layer clipping layer l is clipped at C·a_l/√Σa², a the
    `layer_shares` (all alike unless told), so that a record's whole gradient has at most the norm C. `release` says
    what leaves the building: any of the iterates, or the last one and nothing that earlier ones were asked.
    """

    loss: Annotated[LossName, option("--loss", help="Of the class scores.", panel="Data and model")] = "cross-entropy"
    diameter: Annotated[
        float | None,
        number("--diameter", help="Project parameters onto a ball this wide.", panel="Method"),
    ] = None
    layer_shares: Annotated[
        tuple[float, ...],
        parsed(
            "--layer-shares",
            help="Of the clip, for each layer; all alike.",
            metavar="A,B,…",
            parse=_shares,
            panel="Method",
            shows_default=False,
        ),
    ] = ()
    release: Annotated[ReleaseName, option("--release", help="Which iterates may be released.", panel="Privacy")] = (
        "iterates"
    )

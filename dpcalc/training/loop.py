"""The training loop: one private step after another, each decided by released values and public numbers only."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.errors import CertificationError
from dpcalc.files import reading
from dpcalc.files.archive import Arrays, check_alike
from dpcalc.filters.filters import IndividualFilter
from dpcalc.filters.totals import Totals
from dpcalc.training import checkpoint, clipping, models, optimizers
from dpcalc.training.backends.network import Network
from dpcalc.training.batches import Records, seated
from dpcalc.training.clipping import Online, layer_clips, norms_within, scale_to
from dpcalc.training.data import Dataset
from dpcalc.training.history import DivergedError, History
from dpcalc.training.looks import Looking
from dpcalc.training.noise import Noise, SeededNoise, SystemNoise
from dpcalc.training.optimizers import projected
from dpcalc.training.plan import Plan
from dpcalc.training.record import Log
from dpcalc.training.settings import Settings
from dpcalc.training.step_rounding import exact_move
from dpcalc.training.sums import Bools, Seats, SlotSums
from dpcalc.training.tiles import as_aligned, squared_norms

# Parameters beyond this are no model any more, and single precision is about to overflow.
_DIVERGED = 1e6


def network(settings: Settings, data: Dataset) -> Network:
    """The model of a run on these data; raises where they do not go together."""
    return models.build(
        settings.model,
        features=data.features,
        classes=data.classes,
        hidden=settings.hidden,
        backend=settings.backend,
        activation=settings.activation,
        multilabel=data.multilabel,
        loss=settings.loss,
    )


class Trainer:
    """A run that can be advanced step by step, saved and taken up again; all that is private about it is its plan."""

    def __init__(self, plan: Plan, data: Dataset, *, stream: int = 0) -> None:
        settings = plan.settings
        self.plan, self.settings, self.batches = plan, settings, plan.batches
        self.data = data if settings.feature_clip is None else data.with_features_clipped(settings.feature_clip)
        self.x = as_aligned(self.data.x_train)
        self._known = squared_norms(self.x)
        self.total_steps = plan.total_steps
        self.model = network(settings, data)
        self.noise: Noise = SystemNoise() if settings.seed is None else SeededNoise(settings.seed, stream=stream)
        self.sums = SlotSums(self.model, plan.slots, sparse=plan.looks_at_everyone)
        self.clipping = clipping.build(
            settings.clipping,
            clip=settings.clip,
            noise_multiplier=settings.noise_multiplier,
            quantile=settings.quantile,
            batch_size=self.batches.batch_size,
            margin=self.sums.margin,
            parameters=self.model.size,
            online=Online(settings.clip_rate, settings.lr_rate, settings.direction_noise),
        )
        self._layer_clips: Floats | None = None
        if settings.clipping == "per-layer":
            self._layer_clips = layer_clips(settings.clip, settings.layer_shares, self.model.blocks)
        self._exact = exact_move(plan, self.model.size)
        self._optimizer = optimizers.build(settings.optimizer, momentum=settings.momentum)
        self.filter: IndividualFilter | None = None
        if plan.rule is not None:
            self.filter = IndividualFilter(plan.rule, individuals=len(data), mode=settings.filter_mode)
        self.parameters = projected(self.model.initial(self.noise.uniforms), settings.diameter)
        self.sums.test_locality(self.parameters)
        self.step = 0
        self.allocation = np.zeros(len(data) if self.batches.allocated else 0, dtype=np.int64)
        self.history = History()
        # How plain training did on the test records, and the step whose parameters were kept instead of the last ones.
        self.plain: float | None = None
        self.plain_parameters = self.parameters
        self.kept_step: int | None = None
        self.looking = Looking()
        self.best_parameters = self.parameters

    def advance(self, log: Log | None = None) -> None:
        """One step: norms, weights, weighted sums, noise, and the optimizer's move."""
        look = self._look(self._drawn(), log)
        tally = _Tally()

        def weigh(norms: Floats, present: Bools, slots: slice) -> Floats:
            return self._weights(norms, present, slots, look, tally)

        found = self.sums.run(
            self.parameters, self.x, self.data.y_train, look.seats, weigh,
            queries=self.clipping.queries, known=self._known, clips=self._layer_clips,
        )  # fmt: skip
        self.history.clips.append(self.clipping.clip)
        # The rate of this step is the one from before its gradient is seen (Galli et al., Algorithm 1).
        rate = self.settings.rate * self.clipping.rate_factor
        size = self.batches.batch_size
        size = 1 if self._exact else size  # an exact move takes the sum itself
        gradient = self.clipping.release(found.sums, tally.within, batch_size=size, noise=self.noise)
        self.history.active.append(tally.active)
        self.history.losses.append(float(found.losses.sum()) / max(1, tally.present))
        self._move(gradient, rate)

    def _drawn(self) -> Records:
        """The records of this step; with random allocation, those that were allocated to it when its epoch began."""
        if not self.batches.allocated:
            return self.batches.draw(self.step, self.noise)
        place = self.step % self.batches.steps_per_epoch
        if place == 0:
            self.allocation = self.batches.allocation(self.noise)
        return np.flatnonzero(self.allocation == place)

    def _look(self, drawn: Records, log: Log | None) -> _Look:
        """Who sits where in this step, and which of them it uses."""
        if self.plan.looks_at_everyone:
            chosen = np.zeros(len(self.data), dtype=bool)
            chosen[drawn] = True
            return _Look(slice(0, len(self.data)), chosen, log)
        if isinstance(drawn, slice) or not self.batches.has_random_size:
            return _Look(drawn, None, log)
        return _Look(seated(drawn, self.plan.slots, self.noise), None, log)

    def _move(self, gradient: Floats, rate: float) -> None:
        level = self.clipping.noise_multiplier * self.history.clips[-1] / self.batches.batch_size
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite has diverged
            if self._exact:
                moved = self._exact(self.parameters, gradient)
            else:
                if self.settings.regularization:
                    gradient = gradient + self.settings.regularization * self.parameters
                moved = self._optimizer.update(gradient, rate=rate, noise_level=level)
                np.subtract(self.parameters, moved, out=moved)
            moved = projected(moved, self.settings.diameter)
        self.step += 1
        largest = float(max(moved.max(), -moved.min()))
        if not largest <= _DIVERGED:
            raise DivergedError(self.step, f"a parameter has reached {largest:.3g}")
        self.parameters = moved.astype(np.float32)

    def _weights(self, norms: Floats, present: Bools, slots: slice, look: _Look, tally: _Tally) -> Floats:
        """The factors on these records' gradients, once the filter has had its say and been charged."""
        weights = self.clipping.weights(norms)
        active = present.copy()
        if self.filter is not None:
            shares = self.clipping.spent(norms) * present
            weights = np.minimum(weights, self._charged(norms, shares, slots, look, active))
        if look.chosen is not None:
            active &= look.chosen[slots]
        tally.present += int(present.sum())
        tally.active += int(active.sum())
        tally.within += float(((norms <= self.clipping.clip) - 0.5)[active].sum())
        return weights * active

    def _charged(self, norms: Floats, shares: Floats, slots: slice, look: _Look, active: Bools) -> Floats | float:
        """Charge each record its share, take out of `active` whoever it does not fit, and bound the weights."""
        if self.filter is None or not isinstance(look.seats, slice):
            raise CertificationError("a filter charges records by their place in the file; these have none.")
        stop = min(slots.stop, look.seats.stop - look.seats.start)
        who = slice(look.seats.start + slots.start, look.seats.start + stop)
        here = slice(0, stop - slots.start)
        if look.log is not None:
            look.log.write(self.step, who, shares[here])
        fits, costs = self.filter.charge(shares[here], who)
        active[here] &= fits
        if self.filter.mode != "clip":
            return 1.0
        reach = np.zeros(len(norms))
        reach[here] = np.sqrt(costs[0])
        return scale_to(norms, norms_within(reach, clip=self.clipping.clip, beyond=self.clipping.beyond))

    @cached_property
    def _fingerprint(self) -> str:
        """Which training records this run is on."""
        digest = hashlib.sha256(self.x.tobytes())
        digest.update(self.data.y_train.tobytes())
        return digest.hexdigest()

    def save(self, path: str, facts: dict[str, Any]) -> None:
        """A checkpoint of everything that the next step depends on."""
        stored = {
            "step": self.step,
            "plan": self.plan.as_dict(),
            "data": self._fingerprint,
            "network": self.model.identity,
            "noise": self.noise.state(),
            "history": asdict(self.history),
            "plain": self.plain,
            "kept_step": self.kept_step,
            "looking": self.looking.as_dict(),
        }
        checkpoint.save(path, {**stored, **facts}, self._arrays())

    def _arrays_like(self, stored: Arrays) -> Arrays:
        """The arrays of a checkpoint of this run; those of optimizer and clipping are scalars before the first step."""
        shape = self.parameters.shape
        return {
            name: np.broadcast_to(array, shape)
            if name.startswith(("optimizer.", "clipping.")) and stored.get(name, array).shape == shape
            else array
            for name, array in self._arrays().items()
        }

    def _arrays(self) -> Arrays:
        arrays: Arrays = {"parameters": self.parameters, "plain_parameters": self.plain_parameters}
        arrays["best_parameters"] = self.best_parameters
        arrays |= {f"clipping.{name}": value for name, value in self.clipping.state().items()}
        arrays |= {f"optimizer.{name}": value for name, value in self._optimizer.state().items()}
        if self.filter is not None:
            arrays |= self.filter.state.to_arrays("filter.")
        if self.batches.allocated:
            arrays["allocation"] = self.allocation
        return arrays

    def resume(self, path: str) -> dict[str, Any]:
        """Take up the run at `path`, which must be this one; returns the facts that were saved with it."""
        facts, arrays = checkpoint.load(path)
        with reading(path, "not a readable checkpoint"):
            checkpoint.same_run(path, facts["plan"], self.plan.as_dict())
            checkpoint.same_run(path, facts, {"data": self._fingerprint, "network": self.model.identity})
            check_alike(path, arrays, self._arrays_like(arrays))
            self.step, self.history = int(facts["step"]), History(**facts["history"])
            self.parameters, self.plain_parameters = arrays["parameters"], arrays["plain_parameters"]
            self.plain, self.kept_step = facts["plain"], facts["kept_step"]
            self.looking, self.best_parameters = Looking.from_dict(facts["looking"]), arrays["best_parameters"]
            self.clipping.restore(_under("clipping.", arrays))
            self._optimizer.restore(_under("optimizer.", arrays))
            self.noise.restore(facts["noise"])
            if self.batches.allocated:
                self.allocation = arrays["allocation"]
            if self.filter is not None:
                self.filter.state = Totals.from_arrays(arrays, "filter.")
        return facts

    @property
    def finished(self) -> bool:
        """Whether all steps were run, or what was left could not help."""
        return self.step >= self.total_steps or self.kept_step is not None or self.looking.stopped is not None

    def quality(self) -> tuple[float, float | None]:
        """How good the parameters are (see Network) on the training records and, where there are any, the test ones."""
        train = self.model.quality(self.parameters, self.data.x_train, self.data.y_train)
        return train, self.test_quality

    @property
    def test_quality(self) -> float | None:
        """How good they are on the test records, which are public."""
        x, y = self.data.x_test, self.data.y_test
        return self.model.quality(self.parameters, x, y) if len(x) else None


@dataclass(frozen=True)
class _Look:
    """Who sits where in a step, which of them it uses (all if None), and where their norms are written."""

    seats: Seats
    chosen: Bools | None
    log: Log | None


@dataclass
class _Tally:
    """How many records were there and how many took part, and Σ(1[norm ≤ clip] − ½) over these."""

    present: int = 0
    active: int = 0
    within: float = 0.0


def _under(prefix: str, arrays: Arrays) -> Arrays:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}

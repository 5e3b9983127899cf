"""The training loop: one private step after another, each decided by released values and public numbers only."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Floats
from dpcalc.errors import CertificationError, InputError
from dpcalc.filters.filters import IndividualFilter
from dpcalc.filters.rules import unlimited
from dpcalc.filters.totals import Totals
from dpcalc.training import checkpoint, clipping, models, optimizers
from dpcalc.training.batches import Records
from dpcalc.training.clipping import scale_to
from dpcalc.training.data import Dataset
from dpcalc.training.noise import Noise, SeededNoise, SystemNoise
from dpcalc.training.privacy import filter_rule, noise_units
from dpcalc.training.record import Log
from dpcalc.training.settings import Settings

# Parameters beyond this are no model any more, and single precision is about to overflow.
_DIVERGED = 1e6


class DivergedError(CertificationError):
    """Training has left the range of numbers; what was released until then is still accounted for."""

    def __init__(self, step: int, why: str) -> None:
        super().__init__(f"training diverged at step {step}: {why}; lower --lr or --clip.")
        self.step, self.why = step, why


@dataclass
class History:
    """What happened at each step. Counts and losses are those of the private records: the guarantee leaves them out."""

    active: list[int] = field(default_factory=list)
    clips: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)


class Trainer:
    """A run that can be advanced step by step, saved and taken up again."""

    def __init__(
        self, settings: Settings, data: Dataset, *, delta: float, track: bool = False, stream: int = 0
    ) -> None:
        self.settings, self._data = settings, data
        if settings.feature_clip is not None:
            self._data = data.with_features_clipped(settings.feature_clip)
        self.batches = settings.batches(len(data))
        self.total_steps = settings.all_steps(len(data))
        self.model = models.build(settings.model, features=data.features, classes=data.classes, hidden=settings.hidden)
        self.noise: Noise = SystemNoise() if settings.seed is None else SeededNoise(settings.seed, stream=stream)
        self.clipping = clipping.build(
            settings.clipping,
            clip=settings.clip,
            noise_multiplier=settings.noise_multiplier,
            quantile=settings.quantile,
            batch_size=self.batches.batch_size,
        )
        self._optimizer = optimizers.build(settings.optimizer, momentum=settings.momentum)
        self.filter = self._build_filter(delta, track)
        self.parameters = self.model.initial(self.noise.uniforms)
        self.step = 0
        self.history = History()

    def _build_filter(self, delta: float, track: bool) -> IndividualFilter | None:
        settings, records = self.settings, len(self._data)
        if settings.filter != "none":
            rule = filter_rule(settings, records, delta)
            return IndividualFilter(rule, individuals=records, mode=settings.filter_mode)
        if not track:
            return None
        if self.batches.fixed_size and settings.algorithm == "sgd":
            raise InputError(
                "individual losses of uniform batches are not known, so there is nothing to audit: --log needs "
                "--adjacency add-remove here, or --algorithm gd or cgd."
            )
        clip, sigma = noise_units(settings)
        if settings.algorithm == "sgd" and self.batches.sampling_rate < 1:
            order = filter_rule(settings, records, delta).orders
            rule = unlimited("rdp", sigma=sigma, clip=clip, orders=order, sampling_rate=self.batches.sampling_rate)
        else:
            rule = unlimited("gdp", sigma=sigma, clip=clip)
        return IndividualFilter(rule, individuals=records)

    @property
    def looks_at_everyone(self) -> bool:
        """Whether every record's norm is needed at every step, sampled or not."""
        return self.filter is not None and self.settings.algorithm == "sgd"

    def advance(self, log: Log | None = None) -> None:
        """One step: norms, weights, weighted sums, noise, and the optimizer's move."""
        drawn = self.batches.draw(self.step, self.noise)
        records = slice(0, len(self._data)) if self.looks_at_everyone else drawn
        look = _Look(records, self._chosen(drawn) if self.looks_at_everyone else None, log)
        tally = _Tally()

        def weigh(norms: Floats, part: slice) -> Floats:
            if not np.isfinite(norms).all():
                raise DivergedError(self.step + 1, "a gradient is not a finite number")
            return self._weights(norms, part, look, tally)

        y = self._data.y_train[records]
        found = self.model.weighted_pass(self.parameters, self._data.x_train[records], y, weigh)
        self.history.clips.append(self.clipping.clip)
        size = self.batches.batch_size
        gradient = self.clipping.release(found.sums, tally.within, batch_size=size, noise=self.noise)
        self.history.active.append(tally.active)
        self.history.losses.append(float(found.losses.mean()) if len(found.losses) else 0.0)
        self._move(gradient)

    def _move(self, gradient: Floats) -> None:
        level = self.clipping.noise_multiplier * self.history.clips[-1] / self.batches.batch_size
        if self.settings.regularization:
            gradient = gradient + self.settings.regularization * self.parameters
        rate = self.settings.rate * self.clipping.rate_factor
        moved = self._optimizer.update(gradient, rate=rate, noise_level=level)
        np.subtract(self.parameters, moved, out=moved)
        self.step += 1
        largest = float(max(moved.max(), -moved.min()))
        if not largest <= _DIVERGED:
            raise DivergedError(self.step, f"a parameter has reached {largest:.3g}")
        self.parameters = moved.astype(np.float32)

    def _chosen(self, drawn: Records) -> NDArray[np.bool_]:
        chosen = np.zeros(len(self._data), dtype=bool)
        chosen[drawn] = True
        return chosen

    def _weights(self, norms: Floats, part: slice, look: _Look, tally: _Tally) -> Floats:
        """The factors on these records' gradients, once the filter has had its say and been charged."""
        weights = self.clipping.weights(norms)
        active = np.ones(len(norms), dtype=bool)
        if self.filter is not None and isinstance(look.records, slice):
            who = slice(look.records.start + part.start, look.records.start + part.stop)
            shares = self.clipping.spent(norms)
            if look.log is not None and len(norms):
                look.log.write(self.step, who, shares)
            active, costs = self.filter.charge(shares, who)
            if self.filter.mode == "clip":
                weights = np.minimum(weights, scale_to(norms, np.sqrt(costs[0])))
        if look.chosen is not None:
            active = active & look.chosen[part]
        tally.active += int(active.sum())
        tally.within += float(((norms <= self.clipping.clip) - 0.5)[active].sum())
        return weights * active

    @cached_property
    def _fingerprint(self) -> str:
        """Which training records this run is on."""
        digest = hashlib.sha256(self._data.x_train.tobytes())
        digest.update(self._data.y_train.tobytes())
        return digest.hexdigest()

    def save(self, path: str, facts: dict[str, Any]) -> None:
        """A checkpoint of everything that the next step depends on."""
        arrays: checkpoint.Arrays = {"parameters": self.parameters}
        arrays |= {f"clipping.{name}": value for name, value in self.clipping.state().items()}
        arrays |= {f"optimizer.{name}": value for name, value in self._optimizer.state().items()}
        if self.filter is not None:
            arrays |= self.filter.state.to_arrays("filter.")
        history = {"active": self.history.active, "clips": self.history.clips, "losses": self.history.losses}
        stored = {
            "step": self.step,
            "settings": self.settings.as_dict(),
            "data": self._fingerprint,
            "noise": self.noise.state(),
            "history": history,
        }
        checkpoint.save(path, {**stored, **facts}, arrays)

    def resume(self, path: str) -> dict[str, Any]:
        """Take up the run at `path`, which must be this one; returns the facts that were saved with it."""
        facts, arrays = checkpoint.load(path)
        checkpoint.same_settings(path, facts["settings"], self.settings.as_dict())
        checkpoint.same_settings(path, facts, {"data": self._fingerprint})
        self.step, self.history = int(facts["step"]), History(**facts["history"])
        self.parameters = arrays["parameters"]
        self.clipping.restore(_under("clipping.", arrays))
        self._optimizer.restore(_under("optimizer.", arrays))
        self.noise.restore(facts["noise"])
        if self.filter is not None:
            self.filter.state = Totals.from_arrays(arrays, "filter.")
        return facts

    def quality(self) -> tuple[float, float | None]:
        """Accuracy (or mean squared error) on the training records and, where there are any, the test records."""
        data = self._data
        train = self.model.quality(self.parameters, data.x_train, data.y_train)
        test = self.model.quality(self.parameters, data.x_test, data.y_test) if len(data.x_test) else None
        return train, test


@dataclass(frozen=True)
class _Look:
    """Whose gradients a step computes, which of them it uses (all if None), and where their norms are written."""

    records: Records
    chosen: NDArray[np.bool_] | None
    log: Log | None


@dataclass
class _Tally:
    """How many records took part, and Σ(1[norm ≤ clip] − ½) over them."""

    active: int = 0
    within: float = 0.0


def _under(prefix: str, arrays: checkpoint.Arrays) -> checkpoint.Arrays:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}

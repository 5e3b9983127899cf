"""One run of noisy gradient descent, with every condition that the theorems ask for checked by name."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpcalc.asked import Algorithm
from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency
from dpcalc.last_iterate.contraction import Contraction
from dpcalc.rounding import up

ALGORITHMS: tuple[Algorithm, ...] = ("gd", "cgd", "sgd")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """X ← Π_K[X - η((1/b) Σ ∇f_i(X) + Z)], Z ~ N(0, σ² I), run for `steps` steps; only the last X is released.

    `sigma` is the noise on the average gradient, `sensitivity` is L, how far apart the gradients of two records can be
    (twice the norm that gradients are clipped to); neighbours replace one record. Under add-remove, where a removed
    record leaves its place empty, L is the largest norm of one gradient. `strong_convexity` 0 means convex; without it
    and without a diameter nothing is known of the losses, and only composition holds.

    Random batches are of fixed size under replace-one, Poisson under add-remove. These have up to `largest_batch`
    records, of which more are drawn, over all steps, with probability `overflow` at most.
    """

    algorithm: Algorithm
    learning_rate: float
    sigma: float
    sensitivity: float
    dataset_size: int
    steps: int
    batch_size: int | None = None
    strong_convexity: float | None = None
    smoothness: float | None = None
    diameter: float | None = None
    adjacency: Adjacency = "replace-one"
    largest_batch: int | None = None
    overflow: float = 0.0

    def __post_init__(self) -> None:
        _require(self.algorithm in ALGORITHMS, f"algorithm is gd, cgd or sgd, got {self.algorithm!r}")
        positive = {
            "learning rate η": self.learning_rate,
            "noise σ": self.sigma,
            "sensitivity L": self.sensitivity,
            "smoothness M": self.smoothness,
            "diameter D": self.diameter,
        }
        for name, value in positive.items():
            _require(value is None or (math.isfinite(value) and value > 0), f"{name} > 0 is needed, got {value}")
        _require(self.dataset_size >= 1, f"n ≥ 1 records are needed, got n = {self.dataset_size}")
        _require(self.steps >= 1, f"t ≥ 1 steps are needed, got t = {self.steps}")
        self._check_batches()
        self._check_losses()

    def _check_batches(self) -> None:
        size, batch = self.dataset_size, self.batch_size
        if self.algorithm == "gd":
            _require(batch in (None, size), f"gd uses all n = {size} records at every step, got batch size b = {batch}")
            return
        _require(batch is not None, f"{self.algorithm} needs a batch size b")
        assert batch is not None
        _require(1 <= batch <= size, f"1 ≤ b ≤ n is needed, got b = {batch} and n = {size}")
        if self.algorithm == "cgd":
            _require(
                size % batch == 0,
                f"cgd needs b to divide n (equal batches), got n/b = {size}/{batch} = {size / batch:g}",
            )

    def _check_losses(self) -> None:
        m, M, D = self.strong_convexity, self.smoothness, self.diameter
        if not self.is_convex:
            return
        _require(m is None or (math.isfinite(m) and m >= 0), f"strong convexity m ≥ 0 is needed, got m = {m}")
        _require(M is not None, "the step size condition η < 2/M cannot be checked: give `smoothness=M`")
        assert M is not None
        _require(m is None or m <= M, f"m ≤ M is needed, got m = {m:g} and M = {M:g}" if m is not None else "")
        if self.is_poisson:
            _require(self.largest_batch is not None, "Poisson batches need a largest size: η < 2/M must hold for all")
        M = self.step_smoothness
        limit = 2 / M
        largest = f" for a batch of {self.largest_batch:,}" if self.is_poisson else ""
        found = f"η = {self.learning_rate:g} and 2/M = {limit:g}{largest}"
        if m is not None and D is None:
            _require(
                self.learning_rate < limit or (m == 0 and self.learning_rate <= limit),
                f"η < 2/M is needed (Bok et al., Theorems 4.2, 4.5, 4.9), got {found}",
            )
        _require(
            self.learning_rate <= limit,
            f"η ≤ 2/M is needed (Bok et al., Theorems 4.3, 4.6, 4.10), got {found}",
        )

    @property
    def is_poisson(self) -> bool:
        """Whether every record is drawn by itself."""
        return self.algorithm == "sgd" and self.adjacency == "add-remove" and self.batch < self.dataset_size

    @property
    def step_smoothness(self) -> float:
        """M of what a step descends on: of a Poisson batch's sum over b, to which the regulariser is added once."""
        assert self.smoothness is not None
        if not self.is_poisson or self.largest_batch is None:
            return self.smoothness
        m = self.strong_convexity or 0.0
        return up(m + (self.smoothness - m) * max(1.0, self.largest_batch / self.batch))

    @property
    def batch(self) -> int:
        """b: how many records a step averages over."""
        return self.dataset_size if self.batch_size is None else self.batch_size

    @property
    def batches(self) -> int:
        """l = n/b, the steps of an epoch (cgd)."""
        return self.dataset_size // self.batch

    @property
    def epochs(self) -> int:
        """E, rounded up: a record of an unfinished epoch may already have been used in it."""
        return -(-self.steps // self.batches)

    @property
    def sampling_rate(self) -> float:
        """p = b/n."""
        return self.batch / self.dataset_size

    @property
    def step_mu(self) -> float:
        """L/(bσ), the GDP parameter of one step that uses the record."""
        return self.sensitivity / (self.batch * self.sigma)

    @property
    def noise_over_sensitivity(self) -> float:
        """bσ/L, half the noise multiplier bσ/C of gradients clipped at C."""
        return 1 / self.step_mu

    @property
    def injection(self) -> float:
        """s = ηL/b, how far apart one use of the record moves two runs."""
        return self.learning_rate * self.sensitivity / self.batch

    @property
    def noise(self) -> float:
        """w = ησ, the noise on the iterate."""
        return self.learning_rate * self.sigma

    @property
    def is_convex(self) -> bool:
        """Whether the losses are known to be convex: without that no bound on the last iterate alone holds."""
        return self.strong_convexity is not None or self.diameter is not None

    @property
    def strongly_convex(self) -> bool:
        """Whether a step is known to contract by more than nothing."""
        return self.is_convex and self.contraction.gap > 0

    @property
    def contraction(self) -> Contraction:
        """c = max(|1 - ηm|, |1 - ηM|)."""
        return Contraction.of_gradient_step(
            learning_rate=self.learning_rate,
            strong_convexity=self.strong_convexity or 0.0,
            smoothness=self.step_smoothness,
        )


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InputError(message)

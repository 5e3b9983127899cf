"""A user's own nn.Module, with every record's gradient by `torch.func`.

`torch.vmap` hands the module one record at a time, whatever kernels run beneath, so the module's own code cannot mix
records; that kernels do not is tested bit for bit at the start of every run. A module that needs a batch (batch
normalisation), draws random numbers (dropout) or changes its buffers is refused.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dpcalc.arrays import Floats
from dpcalc.errors import InputError
from dpcalc.training.backends.gradients import Gradients, OwnGradients
from dpcalc.training.backends.network import Network
from dpcalc.training.backends.torch_network import Tensor
from dpcalc.training.tiles import Array

# Numbers in the gradients of one chunk of records.
_CHUNK_NUMBERS = 20_000_000
_TRIED = 5


class ModuleNetwork(Network):
    """The module that `build(features, classes)` in FILE.py returns for `FILE.py:build`; it gives class scores."""

    def __init__(self, source: str, *, features: int, classes: int, multilabel: bool = False) -> None:
        self._source, self._build = source, _loaded(source)
        self.input_shape, self.classes, self.multilabel = (features,), classes, multilabel
        self._bits = torch.arange(classes)
        self.identity = hashlib.sha256(Path(source.rpartition(":")[0]).read_bytes()).hexdigest()
        self._module = self._built(0)
        self._shapes = {name: value.shape for name, value in self._module.named_parameters()}
        self._buffers = dict(self._module.named_buffers())
        self.size = sum(value.numel() for value in self._module.parameters())
        if self.size == 0:
            self._refuse("has no parameters")
        self.chunk = max(1, _CHUNK_NUMBERS // self.size)
        # The parameters that a layer holds itself lie together; `per-layer` clips them together.
        self._layers = [[*names] for _, names in groupby(self._shapes, lambda name: name.rpartition(".")[0])]
        self._gradients = [OwnGradients(sum(self._shapes[name].numel() for name in names)) for names in self._layers]
        self.blocks = len(self._layers)
        self._each = torch.vmap(torch.func.grad_and_value(self._loss), in_dims=(None, 0, 0))
        self._try()

    def initial(self, uniforms: Callable[[int], NDArray[np.float64]]) -> NDArray[np.float32]:
        """The module's own start, built again from a seed of the run."""
        module = self._built(int(uniforms(1)[0] * 2**53))
        flat: NDArray[np.float32] = _flat(list(module.parameters())).astype(np.float32)
        return flat

    def propagate(self, parameters: Array, x: Array, y: Array) -> tuple[Array, Sequence[Gradients]]:
        found, losses = self._each(self._views(parameters), torch.from_numpy(x), torch.from_numpy(y))
        held = []
        for names, gradients in zip(self._layers, self._gradients, strict=True):
            rows = torch.cat([found[name].reshape(len(x), -1) for name in names], dim=1)
            held.append(gradients.hold(rows.detach().numpy()))
        return losses.detach().numpy(), held

    def plain_sum(self, parameters: Array, x: Array, y: Array) -> Floats:
        total = np.zeros(self.size)
        for part in self._chunks(len(x)):
            views = {name: view.detach().requires_grad_() for name, view in self._views(parameters).items()}
            scores = torch.func.functional_call(self._module, (views, self._buffers), (torch.from_numpy(x[part]),))
            loss = self._losses(scores, torch.from_numpy(y[part])).sum()
            total += _flat(torch.autograd.grad(loss, list(views.values())))
        return total

    def outputs_of_chunk(self, parameters: Array, x: Array) -> Array:
        with torch.no_grad():
            call = (self._views(parameters), self._buffers)
            scores: Tensor = torch.func.functional_call(self._module, call, (torch.from_numpy(x),))
        return np.asarray(scores)

    def _views(self, parameters: Array) -> dict[str, Tensor]:
        views, start = {}, 0
        for name, shape in self._shapes.items():
            views[name] = torch.from_numpy(parameters[start : start + shape.numel()]).reshape(shape)
            start += shape.numel()
        return views

    def _loss(self, parameters: dict[str, Tensor], record: Tensor, label: Tensor) -> Tensor:
        scores = torch.func.functional_call(self._module, (parameters, self._buffers), (record[None],))
        return self._losses(scores, label[None])[0]

    def _losses(self, scores: Tensor, labels: Tensor) -> Tensor:
        if not self.multilabel:
            return torch.nn.functional.cross_entropy(scores, labels, reduction="none")
        there = ((labels[:, None] >> self._bits) & 1).to(scores.dtype)
        return torch.nn.functional.binary_cross_entropy_with_logits(scores, there, reduction="none").mean(dim=1)

    def _built(self, seed: int) -> Any:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            module = self._build(self.input_shape[0], self.classes)
        if not isinstance(module, torch.nn.Module):
            self._refuse(f"is {type(module).__name__}, not an nn.Module")
        return module

    def _try(self) -> None:
        """Refuse a module that does not treat a record the same alone and among others, or remembers it."""
        generator = np.random.default_rng(0)
        x = generator.standard_normal((_TRIED, *self.input_shape)).astype(np.float32)
        y = generator.integers(0, self.classes, _TRIED)
        parameters = _flat(list(self._module.parameters())).astype(np.float32)
        before = {name: value.clone() for name, value in self._buffers.items()}
        try:
            together = self.outputs_of_chunk(parameters, x)
            alone = [self.outputs_of_chunk(parameters, row[None]) for row in x]
            fits = together.shape == (_TRIED, self.classes)
            if fits:
                self.propagate(parameters, x, y)
        except Exception as error:
            self._refuse(f"cannot be differentiated record by record: {str(error).splitlines()[0][:200]}")
        if not fits:
            self._refuse(f"gives scores of shape {together.shape} for {_TRIED} records and {self.classes} classes")
        if not np.allclose(together, np.concatenate(alone), rtol=1e-3, atol=1e-4):
            self._refuse("mixes records, or is random: a record's scores depend on the others (batch normalisation?)")
        if any(not torch.equal(value, before[name]) for name, value in self._buffers.items()):
            self._refuse("changes its buffers as it sees records")

    def _refuse(self, why: str) -> None:
        raise InputError(f"the module {why}.", where=self._source)


def _flat(tensors: Sequence[Tensor]) -> NDArray[Any]:
    return np.concatenate([tensor.detach().reshape(-1).numpy() for tensor in tensors])


def _loaded(source: str) -> Callable[[int, int], Any]:
    """The function of `FILE.py:FUNCTION`."""
    path, _, name = source.rpartition(":")
    if not Path(path).is_file():
        raise InputError("no such file; expected `model=FILE.py:FUNCTION`.", where=path)
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise InputError("not a Python file; expected `model=FILE.py:FUNCTION`.", where=path)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        found: Callable[[int, int], Any] = getattr(module, name)
    except Exception as error:
        raise InputError(f"cannot be loaded: {type(error).__name__}: {error}.", where=source) from None
    return found

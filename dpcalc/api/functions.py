"""The commands as functions: options are arguments of the same name with underscores, checked in the same way."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpcalc import commands
from dpcalc.api.mechanisms import Mechanism
from dpcalc.api.result import Result
from dpcalc.errors import InputError


def compose(*releases: Any, **options: Any) -> Result:
    """ε at `delta` (or δ at `epsilon`) of mechanisms composed, certified from above and below.

    Releases are mechanisms, results, paths of specs, or mappings as they would stand in one:

    >>> import dpcalc
    >>> dpcalc.compose(dpcalc.Gaussian(sigma=2, sensitivity=1), delta=1e-5)
    ε = 1.994 at δ = 1e-5, exactly (certified, add-remove)
    μ = 0.5, ρ = 0.125
    by Dong, Roth, Su 2022, Corollaries 1 and 2

    Options: `delta` (one or several), `epsilon`, `curve`, `slack`, `accountant`, `adjacency`,
    `tolerance`, and limits.
    """
    return _called("compose", {**options, "spec": _documents(releases)})


def calibrate(*releases: Any, **options: Any) -> Result:
    """The one number that is the word "solve", so that the releases stay within a budget; `details["solution"]`.

    >>> import dpcalc
    >>> found = dpcalc.calibrate(dpcalc.Gaussian(noise_multiplier="solve"), epsilon=1, delta=1e-5)
    >>> round(found.details["solution"], 2)
    3.73

    Targets: `epsilon` with `delta`, `advantage`, `tpr=(T, F)`, `mu`, `rho`.
    """
    return _called("calibrate", {**options, "spec": _documents(releases)})


def convert(**options: Any) -> Result:
    """One notion in all the others: `gdp`, `zcdp`, `dp=(ε, δ)` or `rdp=[(α, ε), …]`, at a `delta` or an `epsilon`.

    >>> import dpcalc
    >>> round(dpcalc.convert(gdp=1.2, delta=1e-5).epsilon, 3)
    5.413
    """
    return _called("convert", options)


def filter(log: Any, **options: Any) -> Result:
    """A log of norms through a privacy filter: who takes part when, and what each has lost.

    `log` is an array (steps × records), a DataFrame with step, id and norm, or a path. `filter` is "gdp", "rdp" or
    "dp", with `sigma` (or `noise_multiplier` and `clip`) and a budget: `mu`, `epsilon` with `delta`, `norm_budget`, or
    `order` with `rho`.
    """
    with _as_file(log) as path:
        return _called("filter", {**options, "log": path})


def sgd_bound(**options: Any) -> Result:
    """ε when only the last iterate of a convex run is released (Bok, Su, Altschuler 2024)."""
    return _called("sgd-bound", options)


def exp_mech(**options: Any) -> Result:
    """ε of the exponential mechanism, exact or by Langevin sampling."""
    return _called("exp-mech", options)


def train(**options: Any) -> Result:
    """Train a model with differential privacy on a built-in or given data set, and say what it cost."""
    return _called("train", options)


def verify(*results: Any, **options: Any) -> Result:
    """Results (as they are, or their paths) computed again in ball arithmetic: confirmed, contradicted, not checked."""
    with tempfile.TemporaryDirectory(prefix="dpcalc-") as folder:
        paths = [Path(folder) / f"result-{place}.json" for place in range(len(results))]
        for each, path in zip(results, paths, strict=True):
            if isinstance(each, Result):
                each.save(path)
        found = [str(path if isinstance(each, Result) else each) for each, path in zip(results, paths, strict=True)]
        return _called("verify", {**options, "results": found})


def diff(before: Any, after: Any, **options: Any) -> Result:
    """What changed between two releases, by entry and in ε: each a mechanism, a result, a list of them or a path."""
    sides = {"before": _documents([before]), "after": _documents([after])}
    return _called("diff", {**options, **sides})


def _documents(releases: Sequence[Any]) -> list[Any]:
    """Paths as they are, everything else as the documents that it would be in a file."""
    found: list[Any] = []
    entries: list[dict[str, Any]] = []
    for each in _flat(releases):
        if isinstance(each, (str, Path)):
            found.append(str(each))
        elif isinstance(each, Result):
            found.append(_document(each.to_dict(), "a result"))
        elif isinstance(each, Mechanism):
            entries.append(each.spec())
        elif isinstance(each, Mapping):
            if "type" in each:
                entries.append(dict(each))
            else:
                found.append(_document(dict(each), "a mapping"))
        else:
            raise InputError(f"expected a mechanism, a result, a mapping or a path, got {type(each).__name__}")
    return [*found, *([_document({"mechanisms": entries}, "")] if entries else [])]


def _flat(releases: Sequence[Any]) -> Iterator[Any]:
    for each in releases:
        if isinstance(each, (list, tuple)):
            yield from _flat(each)
        else:
            yield each


def _document(data: Mapping[str, Any], source: str) -> Any:
    from dpcalc.spec.documents import read_document
    from dpcalc.spec.text import from_data

    try:
        return read_document(from_data(data, source))
    except (TypeError, ValueError) as error:
        raise InputError(f"expected plain numbers and words ({error})", where=source or "mechanisms") from None


@contextmanager
def _as_file(log: Any) -> Iterator[str]:
    """The path of a log; an array or a frame is written for its owner alone and removed afterwards."""
    if isinstance(log, (str, Path)):
        yield str(log)
        return
    with tempfile.TemporaryDirectory(prefix="dpcalc-") as folder:
        if hasattr(log, "to_csv"):
            path = Path(folder) / "log.csv"
            log.to_csv(path, index=False)
        else:
            import numpy as np

            path = Path(folder) / "log.npy"
            try:
                np.save(path, np.asarray(log, dtype=float), allow_pickle=False)
            except (TypeError, ValueError) as error:
                raise InputError(f"expected numbers, steps × records ({error})", where="log") from None
        yield str(path)


def _called(command: str, given: Mapping[str, Any]) -> Result:
    """What the command answers to these arguments."""
    question = commands.question(command).given(given)
    return Result(question.result(), prior=question.prior)

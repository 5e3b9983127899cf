"""What every function returns: numbers as attributes, the JSON of the command line, and something to look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dpcalc import guarantee as _guarantee
from dpcalc.errors import InputError
from dpcalc.report import beside_a_budget, from_json, rounded_down, rounded_up, to_json
from dpcalc.risk import Risk

if TYPE_CHECKING:
    from os import PathLike

_FROM_GUARANTEE = (
    "epsilon", "delta", "epsilon_lower", "epsilon_estimate", "delta_lower", "mu", "mu_kind", "rho", "rdp", "adjacency",
    "sampler", "accountant", "assumptions", "warnings", "mechanisms", "certificate", "question",
)  # fmt: skip
# Attributes that say something else here than on the guarantee.
_OWN = ("risk", "guarantee", "theorem", "details", "curve", "command", "within")


class Result:
    """A guarantee with everything it is conditional on; the fields of the JSON are its attributes.

    `epsilon` is an upper bound at `delta`, `epsilon_lower` a certified lower bound; `guarantee` says whether the
    number is certified, numerical or approximate; `within` whether every limit is certainly kept (None without one).
    """

    def __init__(self, told: _guarantee.Result, *, prior: float = 0.5) -> None:
        self._told = told
        self._prior = prior

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Result:
        """The result that `to_dict` gave, once what it claims has been computed again; InputError where it differs."""
        from dpcalc.spec.documents import read_document
        from dpcalc.spec.text import from_data

        if "guarantee" in document:
            read_document(from_data(dict(document), "result"))
        elif document.get("schema") != "dpcalc/1":
            raise InputError('expected the JSON of a dpcalc command ("schema": "dpcalc/1")', where="schema")
        return cls(from_json(document))

    @cached_property
    def _complete(self) -> _guarantee.Result:
        """With its risk, which takes a moment and is worked out when somebody looks."""
        found = self._told.guarantee
        if found is None or found.risk is not None:
            return self._told
        from dpcalc.spec.risk import with_risk

        return replace(self._told, guarantee=with_risk(found, self._prior))

    def __getattr__(self, name: str) -> Any:
        if name in _FROM_GUARANTEE:
            found = self._told.guarantee
            if name == "warnings" and found is not None:
                return (*found.warnings, *found.remarks)
            return None if found is None else getattr(found, name)
        raise AttributeError(f"a result has no {name!r}; it has {', '.join(sorted((*_FROM_GUARANTEE, *_OWN)))}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_FROM_GUARANTEE, *_OWN})

    @property
    def command(self) -> str:
        """Which function gave it."""
        return self._told.command

    @property
    def guarantee(self) -> str | None:
        """`certified`, `numerical` or `approximate`."""
        return None if self._told.guarantee is None else self._told.guarantee.status

    @property
    def theorem(self) -> tuple[str, ...]:
        """What the numbers rest on."""
        return () if self._told.guarantee is None else self._told.guarantee.citations

    @property
    def details(self) -> Mapping[str, Any]:
        """What is particular to the function."""
        return self._told.details

    @property
    def curve(self) -> tuple[tuple[float, float], ...]:
        """(ε, δ) that hold all at once."""
        return self._told.curve

    @property
    def risk(self) -> Risk | None:
        """What an attacker can reach, at most; None where no certified curve is known."""
        found = self._complete.guarantee
        return None if found is None else found.risk

    @property
    def within(self) -> bool | None:
        """Whether all limits are certainly kept; None if there are none."""
        outcomes = self._complete.outcomes
        return all(outcome == "within" for outcome in outcomes) if outcomes else None

    def to_dict(self) -> dict[str, Any]:
        """The JSON object of the command line, as plain values."""
        return to_json(self._complete)

    def to_frame(self) -> Any:
        """The rows of the CSV as a pandas DataFrame: the total and every entry, or every value of a sweep."""
        try:
            import pandas
        except ImportError:
            raise InputError("a frame needs pandas, which is not installed; pip install pandas") from None
        from dpcalc.report import csv_records

        return pandas.DataFrame([dict(record) for record in csv_records(self._told)])

    def save(self, path: str | PathLike[str]) -> None:
        """Write it in the format of the file's name: .json, .csv, .md, .xml, .html, or a picture (.png, .svg, .pdf)."""
        from pathlib import Path

        from dpcalc.files import PRIVATE, SHARED, write_text
        from dpcalc.render import SUFFIXES, render
        from dpcalc.render.plot import FORMATS, plot

        suffix = Path(path).suffix.lower()
        if suffix in FORMATS:
            plot(self._complete, str(path))
        elif suffix in SUFFIXES:
            mode = PRIVATE if self._told.private else SHARED
            write_text(str(path), render(self._complete, SUFFIXES[suffix]), mode=mode)
        else:
            raise InputError(f"expected a name that ends in {', '.join((*SUFFIXES, *FORMATS))}, got {str(path)!r}")

    def __str__(self) -> str:
        from dpcalc.render import render

        return render(self._complete, "table").rstrip("\n")

    def __repr__(self) -> str:
        from dpcalc.render.words import answer, reference, telling

        found = self._told.guarantee
        if found is None:
            return answer(self._told)
        upper, lower = found.upper(found.asks), found.lower(found.asks)
        exact = upper is not None and lower is not None and upper - lower <= 1e-9 * upper
        line = answer(self._told)
        told = self._told
        plainly = not (told.headline or told.preface or told.qualifier or told.aside)
        exactly = ", exactly" if exact and plainly and ", exactly" not in line else ""
        first = f"{line}{exactly} ({found.status}, {found.adjacency})"
        lines = [
            first,
            _second(found, telling(found), None if exact else lower, upper),
            f"by {reference(found.citations)}",
        ]
        return "\n".join(line for line in lines if line)

    def _repr_html_(self) -> str | None:
        from dpcalc.render.html import as_fragment

        try:
            return as_fragment(self._complete)
        except InputError:  # Jinja2 is not installed: a notebook shows the text then
            return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Result) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]


def _second(found: _guarantee.Guarantee, enough: float, lower: float | None, upper: float | None) -> str:
    """The other notions where they say something, or the interval."""
    told = []
    if found.mu is not None and found.mu <= enough:
        sign = {"exact": "=", "upper": "≤"}.get(found.mu_kind or "", "≈")
        told.append(f"μ {sign} {beside_a_budget(found.mu)}")
    if found.rho is not None and found.rho <= enough:
        told.append(f"ρ = {beside_a_budget(found.rho)}")
    if lower is not None:
        symbol = "ε" if found.asks == "epsilon" else "δ"
        told.insert(0, f"{rounded_down(lower)} ≤ {symbol} ≤ {rounded_up(upper)}")
    return ", ".join(told)

"""A value of a spec together with where it was written, so that every complaint can point there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeAlias

from dpcalc.errors import InputError
from dpcalc.numbers import parse_number

Content: TypeAlias = "str | list[Node] | dict[str, Node]"

MISSING_WORDS = ("", "~", "null", "Null", "NULL")


# The words of Opacus, dp-accounting, diffprivlib and of papers, in ours.
_TRANSLATED = {
    **dict.fromkeys(("sample_rate", "sampling_probability", "sampling_prob", "sampling_rate", "q"), "rate"),
    **dict.fromkeys(("sample_size", "lot_size", "expected_batch_size"), "batch_size"),
    **dict.fromkeys(("n", "num_examples", "num_samples", "source_dataset_size", "number_of_examples"), "dataset_size"),
    **dict.fromkeys(("num_steps", "iterations", "number_of_steps"), "steps"),
    **dict.fromkeys(("num_epochs", "number_of_epochs"), "epochs"),
    **dict.fromkeys(("standard_deviation", "stddev", "std", "noise_std"), "sigma"),
    **dict.fromkeys(("l1_sensitivity", "l2_sensitivity", "max_grad_norm"), "sensitivity"),
    **dict.fromkeys(("alphas", "rdp_orders"), "orders"),
    **dict.fromkeys(("eps", "target_epsilon"), "epsilon"),
    **dict.fromkeys(("target_delta",), "delta"),
    **dict.fromkeys(("b", "parameter"), "scale"),
    **dict.fromkeys(("z", "sigma_over_clip"), "noise_multiplier"),
    **dict.fromkeys(("num_times", "repetitions", "times"), "count"),
    **dict.fromkeys(("mechanism", "events", "entries", "queries"), "mechanisms"),
}


@dataclass(frozen=True, slots=True)
class Node:
    """A scalar (its text, and whether it stood without quotes), a list or a mapping, with its place."""

    content: Content
    source: str
    path: str = ""
    line: int | None = None
    plain: bool = True
    key_line: int | None = None

    @property
    def where(self) -> str:
        """`spec.yaml:7: mechanisms[2].scale`, or the field alone where there is no file."""
        place = self.source if self.line is None else f"{self.source}:{self.line}"
        return ": ".join(filter(None, (place, self.path)))

    def fail(self, message: str) -> NoReturn:
        """Stop with a message that points here."""
        raise InputError(message, where=self.where)

    def found(self) -> str:
        """What stands here, in a few words."""
        if isinstance(self.content, list):
            return "a list"
        if isinstance(self.content, dict):
            return "a mapping"
        if self.plain and self.content in MISSING_WORDS:
            return "nothing"
        text = self.content if len(self.content) <= 40 else f"{self.content[:37]}..."
        shown = repr(text) if text.isprintable() else ascii(text)
        return shown if self.plain else f"the quoted text {shown}"

    def data(self) -> Any:
        """What stands here as plain values: numbers where a number was written without quotes."""
        if isinstance(self.content, dict):
            return {key: value.data() for key, value in self.content.items()}
        if isinstance(self.content, list):
            return [value.data() for value in self.content]
        if not self.plain:
            return self.content
        if self.content in (*MISSING_WORDS, "true", "false"):
            return {"true": True, "false": False}.get(self.content)
        try:
            return int(self.content) if self.content.lstrip("-").isdigit() else parse_number(self.content)
        except ValueError:
            return self.content

    def mapping(self, what: str) -> dict[str, Node]:
        """The content as a mapping of keys; `what` completes "expected …"."""
        if not isinstance(self.content, dict):
            self.fail(f"expected {what}, got {self.found()}")
        return self.content

    def items(self, what: str) -> list[Node]:
        """The content as a list; `what` completes "expected …"."""
        if not isinstance(self.content, list):
            self.fail(f"expected {what}, got {self.found()}")
        return self.content

    def text(self, what: str) -> str:
        """The content as a scalar; `what` completes "expected …"."""
        if not isinstance(self.content, str) or (self.plain and self.content in MISSING_WORDS):
            self.fail(f"expected {what}, got {self.found()}")
        return self.content

    def word(self, allowed: Iterable[str]) -> str:
        """The content as one of the allowed words, with the nearest one suggested otherwise."""
        words = list(allowed)
        text = self.content if isinstance(self.content, str) else ""
        if text not in words:
            text = self.text(one_of(words))
            self.fail(f"expected {one_of(words)}, got {self.found()}{nearest(text, words)}")
        return text

    def only_keys(self, allowed: Iterable[str], what: str, *, common: Sequence[str] = ()) -> None:
        """Stop at the first key that `what` does not have; `common` are those that others of its kind have too."""
        words = list(allowed)
        for key, value in self.mapping(what).items():
            if key not in words and key not in common:
                name = key if key.isprintable() and len(key) <= 40 else ascii(key)[:40]
                line = value.line if value.key_line is None else value.key_line
                place = replace(value, path=f"{self.path}.{name}".lstrip("."), line=line)
                raise InputError(
                    f"no such key for {what}{_instead(key, words, common)}",
                    where=place.where,
                    found=name,
                    allowed=", ".join((*words, *common)),
                )


def one_of(words: Iterable[str]) -> str:
    """`a, b or c`."""
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last


def nearest(word: str, words: Iterable[str]) -> str:
    """A suggestion to append to a message, empty if nothing is near."""
    found = _near(word, words)
    return f"; did you mean {found}?" if found else ""


def _near(word: str, words: Iterable[str]) -> str | None:
    known, lowered = list(words), word[:60].lower()
    translated = _TRANSLATED.get(lowered.replace("-", "_"))
    if translated in known:
        return translated
    return next(iter(difflib.get_close_matches(lowered, known, n=1, cutoff=0.6)), None)


def _instead(key: str, own: Sequence[str], common: Sequence[str]) -> str:
    """What may stand there: the key that was meant and the others beside it, or all of them."""
    found = _near(key, (*own, *common))
    if found is None:
        return f"; it has {', '.join((*own, *common))}"
    others = [other for other in own if other != found]
    listed = " and ".join(filter(None, [", ".join(others[:-1]), *others[-1:]]))
    return f"; did you mean {found}?{f' (or {listed})' if common and found in own and others else ''}"

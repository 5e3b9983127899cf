"""Text in lines of a width: broken between words, and within a word only where it has no room at all."""

from __future__ import annotations

import re
import textwrap

_AT_SLASHES = re.compile(r"[^/]*/|[^/]+")


class Wrapper(textwrap.TextWrapper):
    """Breaks by words, and a word that is wider than a line after its slashes: most often it is a path."""

    def _split(self, text: str) -> list[str]:
        room = self.width - max(len(self.initial_indent), len(self.subsequent_indent))
        words: list[str] = super()._split(text)
        return [part for word in words for part in (pieces(word) if len(word) > room else [word])]


def pieces(word: str) -> list[str]:
    """The parts of a path, which may stand on lines of their own."""
    return _AT_SLASHES.findall(word)

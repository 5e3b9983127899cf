"""What is made wrong: bytes, numbers, words and archives, always the same for a seed."""

from __future__ import annotations

import bz2
import gzip
import random
import re
from collections.abc import Callable
from functools import partial

NASTY = (
    "0", "-0", "1", "-1", "1e-5", "1e300", "1e-300", "5e-324", "1.7976931348623157e308", "1e309", "nan", "inf", "-inf",
    "1_0", "１", "0x10", "010", "1:30", "1/3", "1/0", "256/60000", "", " 1 ", "true", "null", "~", "=1", "9" * 300,
    "0." + "0" * 200 + "1", "1e", "--", "1,2", "[1", "{", "é", "\x1b[31m", "\u202e", "2147483648",
    "9223372036854775808", "0.999999999999", "18446744073709551616", "solve", "'", '"',
)  # fmt: skip
_BYTES = (
    b"\0", b"\xff", b"\xfe\xff", b"\n", b"\r", b",", b'"', b"[" * 50, b"{" * 50, b"&a [*a]", b"*a", b"!!python/object",
    b"---\n", b"9" * 400, b"\x1b]0;x\x07", b"PK\x03\x04", b"\x1f\x8b", b"\x93NUMPY", b"PAR1", b"nan", b"-1", b"1e309",
    b"1_0", b"\xef\xbb\xbf",
)  # fmt: skip


def spoilt(dice: random.Random, data: bytes) -> bytes:
    """The bytes with a few changes, more often small ones."""
    for _ in range(dice.choice([0, 1, 1, 1, 2, 5])):
        at = dice.randrange(len(data) + 1)
        end = min(len(data), at + dice.choice([1, 1, 4, 64, 1000]))
        change = dice.randrange(6)
        if change == 0:
            data = data[:at]
        elif change == 1:
            data = data[:at] + data[end:]
        elif change == 2:
            data = data[:at] + dice.choice(_BYTES) + data[at:]
        elif change == 3:
            data = data[:end] + data[at:end] * dice.choice([1, 3]) + data[end:]
        else:
            data = data[:at] + bytes(byte ^ (1 << dice.randrange(8)) for byte in data[at : at + 1]) + data[at + 1 :]
    return data


def renumbered(dice: random.Random, text: str) -> str:
    """The text with a number or a word replaced by something nasty."""
    places = [found.span() for found in re.finditer(r"[0-9][0-9.e-]*|[a-z_-]{3,}", text)]
    for _ in range(dice.choice([1, 1, 2])):
        start, end = dice.choice(places)
        text = text[:start] + dice.choice(NASTY) + text[end:]
        places = [found.span() for found in re.finditer(r"[0-9][0-9.e-]*|[a-z_-]{3,}", text)] or [(0, 0)]
    return text


def spoilt_text(dice: random.Random, text: str) -> bytes:
    return spoilt(dice, text.encode()) if dice.random() < 0.5 else renumbered(dice, text).encode()


def packed(dice: random.Random, data: bytes) -> bytes:
    """As it is, compressed, or compressed and then damaged."""
    pack: Callable[[bytes], bytes] = dice.choice([bytes, bytes, partial(gzip.compress, mtime=0), bz2.compress])
    return spoilt(dice, pack(data)) if dice.random() < 0.2 else pack(data)


def with_nasty_words(dice: random.Random, words: list[str], first: int) -> list[str]:
    """A command of which a word or two, from the first one that may be, is something nasty."""
    for _ in range(dice.choice([1, 1, 2])):
        at = dice.randrange(first, len(words))
        words[at] = dice.choice(NASTY) if dice.random() < 0.7 else renumbered(dice, words[at] + "1")
    return words

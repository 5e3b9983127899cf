"""Names of individuals, integers or strings, numbered in the order in which they appear."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int64]

# Integer names are looked up in a table as long as it is at most this much longer than the number of names.
_SPARSE = 64
_ROOM = 1 << 20


class Identifiers:
    """A two-way table between names and codes 0, 1, 2, …"""

    def __init__(self) -> None:
        self.names: list[Any] = []
        self._listed: dict[Any, int] = {}
        self._table: Codes = np.zeros(0, dtype=np.int64)
        self._tabled = 0  # how many names are in the table

    def __len__(self) -> int:
        return len(self.names)

    def name(self, names: list[Any]) -> None:
        """Give these names, each of them new, the next codes."""
        self.names += names

    @property
    def _codes(self) -> dict[Any, int]:
        """The codes of all names, listed when they are asked for: integers seldom need it."""
        known = len(self._listed)
        if known < len(self.names):
            self._listed.update(zip(self.names[known:], range(known, len(self.names)), strict=True))
        return self._listed

    def codes(self, ids: Any) -> Codes:
        """The codes of an array of integers, a list of strings, or an Arrow column; new names get new codes."""
        if isinstance(ids, np.ndarray):
            return self._integers(ids)
        if isinstance(ids, list):
            return np.fromiter(map(self.code, ids), dtype=np.int64, count=len(ids))
        encoded = ids.dictionary_encode()
        words = np.fromiter(map(self.code, encoded.dictionary.to_pylist()), dtype=np.int64)
        codes: Codes = words[encoded.indices.to_numpy(zero_copy_only=False)]
        return codes

    def code(self, name: Any) -> int:
        """The code of one name."""
        code = self._codes.get(name)
        if code is None:
            code = self._codes[name] = len(self.names)
            self.names.append(name)
        return code

    def _integers(self, ids: Codes) -> Codes:
        if not ids.size:
            return ids
        low, high = int(ids.min()), int(ids.max())
        if low < 0 or high > self._longest(ids.size):
            unique, inverse = np.unique(ids, return_inverse=True)
            return np.fromiter(map(self.code, unique.tolist()), dtype=np.int64)[inverse]
        self._stretch(high)
        codes = self._table[ids]
        new = codes < 0
        if new.any():
            unique, first = np.unique(ids[new], return_index=True)
            unique = unique[np.argsort(first)]
            self._table[unique] = self._new(unique.tolist())
            codes = self._table[ids]
        return codes

    def _longest(self, more: int) -> int:
        return _SPARSE * (len(self.names) + more) + _ROOM

    def _stretch(self, high: int) -> None:
        """Make room in the table for numbers up to this one."""
        if self.names and not self._tabled:
            known = np.array(self.names, dtype=np.int64)
            if known.min() >= 0 and known.max() <= self._longest(0):
                self._table = np.full(int(known.max()) + 1, -1, dtype=np.int64)
                self._table[known] = np.arange(known.size)
                self._tabled = known.size
        if high >= self._table.size:
            more = max(high + 1, 2 * self._table.size) - self._table.size
            self._table = np.concatenate([self._table, np.full(more, -1, dtype=np.int64)])

    def _new(self, names: list[int]) -> Codes:
        """The codes of different names that are not in the table; they may be known all the same."""
        complete = self._tabled == len(self.names)
        self._tabled += len(names)
        if not complete:
            return np.fromiter(map(self.code, names), dtype=np.int64, count=len(names))
        self.name(names)
        return np.arange(len(self.names) - len(names), len(self.names))

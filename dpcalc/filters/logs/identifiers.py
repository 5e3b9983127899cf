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
        self._codes: dict[Any, int] = {}
        self._table: Codes = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.names)

    def name(self, names: list[Any]) -> None:
        """Give these names, each of them new, the next codes."""
        self._codes.update(zip(names, range(len(self.names), len(self.names) + len(names)), strict=True))
        self.names += names

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
        if low < 0 or high > _SPARSE * (len(self.names) + ids.size) + _ROOM:
            unique, inverse = np.unique(ids, return_inverse=True)
            return np.fromiter(map(self.code, unique.tolist()), dtype=np.int64)[inverse]
        if high >= self._table.size:
            self._table = np.pad(
                self._table, (0, max(high + 1, 2 * self._table.size) - self._table.size), constant_values=-1
            )
        codes = self._table[ids]
        new = codes < 0
        if new.any():
            unique, first = np.unique(ids[new], return_index=True)
            unique = unique[np.argsort(first)]
            self._table[unique] = self._new(unique.tolist())
            codes = self._table[ids]
        return codes

    def _new(self, names: list[int]) -> Codes:
        """The codes of different names that are not in the table; they may be known all the same."""
        if not self._codes.keys().isdisjoint(names):
            return np.fromiter(map(self.code, names), dtype=np.int64, count=len(names))
        self.name(names)
        return np.arange(len(self.names) - len(names), len(self.names))

"""Why records are dead letters. The first reason of a record counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa


class Reasons:
    """The reason of each of some records, if it has one."""

    def __init__(self, rows: int) -> None:
        self._texts: list[str] = []
        self._which = np.full(rows, -1, np.int32)

    @property
    def dead(self) -> np.ndarray:
        """Which records have a reason."""
        return self._which >= 0

    def add(self, marks: np.ndarray, reason: str) -> None:
        """A reason of the marked records."""
        self.add_from(0, marks, reason)

    def add_from(self, begin: int, marks: np.ndarray, reason: str) -> None:
        """A reason of the marked records, counted from one on."""
        if marks.any():
            which = self._which[begin : begin + len(marks)]
            which[marks & (which < 0)] = len(self._texts)
            self._texts.append(reason)

    def add_each(self, rows: np.ndarray, which: np.ndarray, texts: Sequence[str]) -> None:
        """Reasons of some records. In: which  of the texts is that of each record."""
        first = self._which[rows] < 0
        self._which[rows[first]] = which[first] + len(self._texts)
        self._texts += texts

    def add_one(self, row: int, reason: str) -> None:
        """A reason of one record."""
        if self._which[row] < 0:
            self._which[row] = len(self._texts)
            self._texts.append(reason)

    def as_column(self) -> pa.Array:
        """STRING, null where there is no reason."""
        return pa.array(self._texts, pa.string()).take(pa.array(self._which, mask=self._which < 0))


def marks_of(mask: pa.Array) -> np.ndarray:
    """Which records a mask names; null is none."""
    found: np.ndarray = mask.fill_null(False).to_numpy(zero_copy_only=False)
    return found

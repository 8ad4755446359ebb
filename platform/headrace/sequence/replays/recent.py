"""The records that an exact guard has taken last, by the digests of their bytes.

Law: a root partition keeps the last RECENT_MAX of its records that were taken, in the order in which the guard judges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headrace.fold.segments import begins, numbered
from headrace.sequence.replays.contents import Contents, Digests, differ
from headrace.sequence.replays.intervals import NOWHERE, Intervals

RECENT_MAX = 8
Recent = Sequence[tuple[tuple[int, ...], int, Digests]]
"""Of each record its unit without the root, its last number and its digests."""


@dataclass(frozen=True)
class Taken:
    """Records in the order in which a guard judges, with the root's place first in `unit`; `marks`: which are taken."""

    unit: np.ndarray
    at: np.ndarray
    marks: np.ndarray
    rows: np.ndarray
    contents: Contents

    def differing(self, before: Sequence[Recent], refused: np.ndarray) -> np.ndarray:
        """The refused records whose bytes differ from those of the record that was taken at their position.

        In: before   the records that were taken last of each root partition, by its place
            refused  records at a position that was taken
        """
        if not len(refused):
            return refused
        known, number, digest = _rows_of(before)
        places = known.joined(Intervals(self.unit, self.at, self.at))
        is_taken = np.concatenate([np.ones(len(known), bool), self.marks])
        asked, count = len(known) + refused, self._taken_before()
        # Few rows are at the position of a refused record: they are made distinct, and no other.
        columns = [*places.unit.T, places.first]
        rows = np.flatnonzero(np.logical_and.reduce([np.isin(each, each[asked]) for each in columns]))
        _, key = np.unique(np.column_stack([each[rows] for each in columns]), axis=0, return_inverse=True)
        key = key.reshape(-1)
        owner = np.full(len(rows), NOWHERE, np.int64)
        owner[key[is_taken[rows]]] = rows[is_taken[rows]]
        owner = owner[key[np.searchsorted(rows, asked)]]
        refused, owner = refused[owner >= 0], owner[owner >= 0]
        numbers = np.concatenate([number, count])
        near = count[refused] - numbers[owner] <= RECENT_MAX
        refused, owner = refused[near], owner[near]
        digests, here = np.zeros((len(owner), 2), np.int64), owner >= len(known)
        digests[~here] = digest[owner[~here]]
        digests[here] = self.contents.digests(self.rows[owner[here] - len(known)])
        other: np.ndarray = refused[differ(digests, self.contents.digests(self.rows[refused]))]
        return other

    def recent_after(self, before: Sequence[Recent]) -> list[Recent]:
        """The records that were taken last of each root partition, these among them."""
        after = list(before)
        taken = np.flatnonzero(self.marks)
        root = self.unit[taken, 0]
        for place in np.unique(root).tolist():
            last = taken[root == place][-RECENT_MAX:]
            digests = map(tuple, self.contents.digests(self.rows[last]).tolist())
            units = (tuple(n for n in unit if n != NOWHERE) for unit in self.unit[last, 1:].tolist())
            found = zip(units, self.at[last].tolist(), digests, strict=True)
            after[place] = tuple([*before[place], *found][-RECENT_MAX:])
        return after

    def _taken_before(self) -> np.ndarray:
        """How many records of its root partition were taken before each."""
        order = np.argsort(self.unit[:, 0], kind="stable")
        marks, first = self.marks[order].astype(np.int64), begins(self.unit[order, 0])
        before = np.cumsum(marks) - marks
        count = np.empty(len(order), np.int64)
        count[order] = before - before[first][numbered(first)]
        return count


def _rows_of(recent: Sequence[Recent]) -> tuple[Intervals, np.ndarray, np.ndarray]:
    """The records as rows, the number of each among those of its root (the last one is -1), and their digests."""
    rows = [
        ([root, *(unit or (NOWHERE,))], at, number - len(last), digests)
        for root, last in enumerate(recent)
        for number, (unit, at, digests) in enumerate(last)
    ]
    width = max((len(unit) for unit, *_ in rows), default=2)
    units = np.array([unit + [NOWHERE] * (width - len(unit)) for unit, *_ in rows], np.int64).reshape(
        -1, width
    )
    at, number, digests = (np.array([row[column] for row in rows], np.int64) for column in (1, 2, 3))
    return Intervals(units, at, at), number, digests.reshape(-1, 2)

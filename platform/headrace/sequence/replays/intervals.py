"""Sets of whole numbers, for many units at once, as disjoint intervals in columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.fold.segments import running_max

NOWHERE = -1  # before all offsets and ordinals


@dataclass(frozen=True)
class Intervals:
    """Intervals of numbers, both ends included.

    unit         of each interval: a row of numbers, the first of which is its root's place
    first, last  of each interval
    """

    unit: np.ndarray
    first: np.ndarray
    last: np.ndarray

    def __len__(self) -> int:
        return len(self.first)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Intervals) or len(self) != len(other):
            return False
        one, two = _of_one_width(self.unit, other.unit)
        return bool(
            (one == two).all() and (self.first == other.first).all() and (self.last == other.last).all()
        )

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def none(cls) -> Intervals:
        """No numbers."""
        return cls(np.zeros((0, 2), np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))

    def joined(self, other: Intervals) -> Intervals:
        """These, then the others."""
        return Intervals(
            np.vstack(_of_one_width(self.unit, other.unit)),
            np.concatenate([self.first, other.first]),
            np.concatenate([self.last, other.last]),
        )

    def where(self, marks: np.ndarray) -> Intervals:
        """The marked ones."""
        return Intervals(self.unit[marks], self.first[marks], self.last[marks])


def merged(intervals: Intervals) -> Intervals:
    """The same numbers in as few intervals as possible, by unit and in order."""
    if not len(intervals):
        return intervals
    order = np.lexsort((intervals.first, *intervals.unit.T[::-1]))
    unit, first, last = intervals.unit[order], intervals.first[order], intervals.last[order]
    new = np.ones(len(order), bool)
    new[1:] = (unit[1:] != unit[:-1]).any(axis=1)
    reached = running_max(new, last)
    new[1:] |= first[1:] > reached[:-1] + 1
    starts = np.flatnonzero(new)
    ends = np.append(starts[1:], len(order)) - 1
    return Intervals(unit[starts], first[starts], reached[ends])


def above_the_lowest(intervals: Intervals, root: int, count: int) -> int:
    """The first offset above so many of a root's intervals, those with the lowest offsets."""
    mine = intervals.unit[:, 0] == root
    offset = intervals.unit[mine, 1]
    tops = np.where(offset == NOWHERE, intervals.last[mine], offset)
    return int(np.partition(tops, count - 1)[count - 1]) + 1


def _of_one_width(one: np.ndarray, two: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    width = max(one.shape[1], two.shape[1])
    wide = [
        np.pad(unit, ((0, 0), (0, width - unit.shape[1])), constant_values=NOWHERE) for unit in (one, two)
    ]
    return wide[0], wide[1]

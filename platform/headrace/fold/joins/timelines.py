"""The rows of both sides of a join as versions in time: which right row a commit finds, and which left rows it touches.

A *moment* is a commit of the micro-batch at one right key, as one number that compares by key and then by commit. Rows
that are known from before stand at the first moment of their key.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.fold.changes.deltas import AFTER
from headrace.fold.changes.ordering import order
from headrace.fold.segments import ranges

NO_ROW = -1


@dataclass(frozen=True)
class Moments:
    """How moments are numbered. In: commits  the commits of the micro-batch, sorted, each once."""

    commits: np.ndarray

    @property
    def width(self) -> int:
        """How many moments a key has: one for what is known, the commits, and one beyond all."""
        return len(self.commits) + 2

    def of(self, keys: np.ndarray, commits: np.ndarray | None) -> np.ndarray:
        """The moments of rows. In: keys  by number; commits  None: they are known from before."""
        first: np.ndarray = keys * np.int64(self.width)
        return first if commits is None else first + 1 + np.searchsorted(self.commits, commits)

    def end(self, moments: np.ndarray) -> np.ndarray:
        """The moment beyond all of the same key."""
        found: np.ndarray = (moments // self.width + 1) * self.width - 1
        return found

    def same_key(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Whether moments are of one key."""
        found: np.ndarray = one // self.width == other // self.width
        return found


class RightRows:
    """The right row of each key at each moment."""

    def __init__(self, moments: Moments, at: np.ndarray, signs: np.ndarray) -> None:
        """In: at, signs  of each row that is known or changes its moment and its sign."""
        by_moment = order(at, signs)  # a row after comes behind the row before
        last = np.append(at[by_moment][1:] != at[by_moment][:-1], True)[: len(by_moment)]
        self._moments, self._row = moments, by_moment[last]
        self._at, self._there = at[by_moment][last], signs[by_moment][last] == AFTER

    def at(self, moments: np.ndarray, *, before: bool = False) -> np.ndarray:
        """The number of the row that is there after these moments, or before them; NO_ROW: there is none."""
        if not len(self._at):
            return np.full(len(moments), NO_ROW, np.int64)
        place = np.searchsorted(self._at, moments, side="left" if before else "right") - 1
        there: np.ndarray = (
            (place >= 0) & self._there[place] & self._moments.same_key(self._at[place], moments)
        )
        found: np.ndarray = np.where(there, self._row[place], NO_ROW)
        return found

    def changes(self) -> tuple[np.ndarray, np.ndarray]:
        """The moments that change a key, sorted, and the number of the row that makes each."""
        new = self._at % self._moments.width > 0
        new &= self._there | (self.at(self._at, before=True) != NO_ROW)
        return self._at[new], self._row[new]

    def last(self) -> np.ndarray:
        """The number of the last row of each key that is not known from before."""
        key = self._at // self._moments.width
        last = np.append(key[1:] != key[:-1], True)[: len(key)]
        found: np.ndarray = self._row[last & (self._at % self._moments.width > 0)]
        return found


def lives(
    moments: Moments, at: np.ndarray, signs: np.ndarray, left: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Left rows that come, or are known, and until when they stay.

    In:  at, signs  of each left row that is known or changes; left  the number of its left key
    Out: the numbers of these rows, and of each the moment that ends it
    """
    by_left = order(left, at, signs)
    left, at = left[by_left], at[by_left]
    ends = moments.end(at)
    follows = (left[1:] == left[:-1]) & moments.same_key(at[1:], at[:-1])
    ends[:-1] = np.where(follows, at[1:], ends[:-1])
    comes = signs[by_left] == AFTER
    return by_left[comes], ends[comes]


def touched(begin: np.ndarray, end: np.ndarray, changes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which lives each change of a right row falls into, after their begin and before their end.

    Out: pairs: numbers of lives, and numbers of changes
    """
    first = np.searchsorted(changes, begin, side="right")
    count = np.maximum(np.searchsorted(changes, end, side="left") - first, 0)
    return np.repeat(np.arange(len(begin)), count), ranges(first, count)

"""The rows of a state table that a bucket needs: by hash, by time, or either.

Law: `of` and `places` choose the same rows; `may_be_in` leaves out no file and no group that has one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.fold.contract import Needs
from headrace.fold.segments import distinct

Bounds = tuple[int, int]


@dataclass(frozen=True)
class SortedHashes:
    """The hashes of rows in rising order, and the way to rows by their time.

    hashes    HASH of each row, rising
    times     TIME of each row; None: the table has no time column
    by_time   the places of the rows, in the order of their time; None: likewise
    in_order  their times in this order; None: likewise
    """

    hashes: np.ndarray
    times: np.ndarray | None = None
    by_time: np.ndarray | None = None
    in_order: np.ndarray | None = None


@dataclass(frozen=True)
class NeededPart:
    """One of several needs, within a bucket. `hashes` None: all from `first` through `last`."""

    hashes: np.ndarray | None
    first: int
    last: int
    times: Bounds | None

    @property
    def is_empty(self) -> bool:
        """True if no row is needed."""
        return self.hashes is not None and not len(self.hashes)

    def may_be_in(self, hashes: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Which files, or groups of rows, may have needed rows. In: hashes, times  the bounds of each (see `pairs`)."""
        if self.hashes is None:
            near: np.ndarray = (hashes[:, 0] <= self.last) & (hashes[:, 1] >= self.first)
        else:
            near = np.searchsorted(self.hashes, hashes[:, 0]) < np.searchsorted(
                self.hashes, hashes[:, 1], "right"
            )
        if self.times is not None:
            near &= (times[:, 0] <= self.times[1]) & (times[:, 1] >= self.times[0])
        return near

    def of(self, hashes: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Which rows are needed."""
        if self.hashes is None:
            needed: np.ndarray = (hashes >= self.first) & (hashes <= self.last)
        else:
            at = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
            needed = self.hashes[at] == hashes
        if self.times is not None:
            needed &= (times >= self.times[0]) & (times <= self.times[1])
        return needed

    def places(self, rows: SortedHashes) -> np.ndarray:
        """The places of the needed rows, found without a look at all others."""
        if self.hashes is None:
            return self._places_in_range(rows)
        if not len(rows.hashes):
            return np.empty(0, np.int64)
        start, end = np.searchsorted(self.hashes, (rows.hashes[0], rows.hashes[-1]))
        near = self.hashes[start : end + 1]
        lowest = np.searchsorted(rows.hashes, near)
        counts = np.searchsorted(rows.hashes, near, "right") - lowest
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        places: np.ndarray = np.arange(total) + np.repeat(lowest - (ends - counts), counts)
        return places if self.times is None else places[_within(rows, places, self.times)]

    def _places_in_range(self, rows: SortedHashes) -> np.ndarray:
        begin = int(np.searchsorted(rows.hashes, self.first))
        end = int(np.searchsorted(rows.hashes, self.last, "right"))
        if self.times is None:
            return np.arange(begin, end)
        if rows.by_time is None or rows.in_order is None:
            return np.empty(0, np.int64)  # the table has no times, so no row has one of these
        start = int(np.searchsorted(rows.in_order, self.times[0]))
        stop = int(np.searchsorted(rows.in_order, self.times[1], "right"))
        places: np.ndarray = rows.by_time[start:stop].astype(np.int64)
        return places[(places >= begin) & (places < end)]


def needed_parts(need: Needs | None, hashes: Bounds) -> Iterator[NeededPart]:
    """The parts of a need that are not empty. In: hashes  the lowest and the highest hash of the bucket."""
    first, last = hashes
    while need is not None:
        own = need.hashes
        if own is not None:
            own = own[np.searchsorted(own, first, "left") : np.searchsorted(own, last, "right")]
        part = NeededPart(own, first, last, need.times)
        if not part.is_empty:
            yield part
        need = need.either


def may_be_in(parts: Sequence[NeededPart], hashes: np.ndarray, times: np.ndarray) -> np.ndarray:
    """See `NeededPart.may_be_in`."""
    near = np.zeros(len(hashes), bool)
    for part in parts:
        near |= part.may_be_in(hashes, times)
    return near


def needed_of(parts: Sequence[NeededPart], hashes: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Which rows are needed by any part."""
    needed = np.zeros(len(hashes), bool)
    for part in parts:
        needed |= part.of(hashes, times)
    return needed


def needed_places(parts: Sequence[NeededPart], rows: SortedHashes) -> np.ndarray:
    """The places of the rows that any part needs, rising, each once."""
    each = [part.places(rows) for part in parts]
    return distinct(np.concatenate(each)) if each else np.empty(0, np.int64)


def _within(rows: SortedHashes, places: np.ndarray, times: Bounds) -> np.ndarray:
    if rows.times is None:
        return np.zeros(len(places), bool)
    at = rows.times[places]
    within: np.ndarray = (at >= times[0]) & (at <= times[1])
    return within

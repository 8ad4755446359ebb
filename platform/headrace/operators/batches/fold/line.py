"""The new records of all groups in one line, and the searches that find places in it.

In the line one group follows another, and the records of a group stand in the log's order. So a group is a run of places,
and within it commit times and running sizes rise: every search is a binary search, made for many batches at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class Line:
    """Records by group, then in the log's order.

    group   number of each record's group, rising
    at_ms   commit time of each record
    size    bytes of each record
    groups  how many groups there are; some may have no record
    """

    group: np.ndarray
    at_ms: np.ndarray
    size: np.ndarray
    groups: int

    @cached_property
    def ends(self) -> np.ndarray:
        """The place after the last record of each group."""
        return np.cumsum(np.bincount(self.group, minlength=self.groups))

    @cached_property
    def starts(self) -> np.ndarray:
        """The place of the first record of each group; its end if it has none."""
        return np.concatenate([[0], self.ends[:-1]]).astype(np.int64)

    @cached_property
    def size_before(self) -> np.ndarray:
        """Total bytes of the records before each place, and before the end."""
        return np.concatenate([[0], np.cumsum(self.size)]).astype(np.int64)

    def first_from(self, group: np.ndarray, at_ms: np.ndarray) -> np.ndarray:
        """The first record of each group at or after a time; the end of the group if there is none."""
        wanted = group * self._stride + np.searchsorted(self._times, at_ms, "left")
        place: np.ndarray = np.searchsorted(self._group_and_time, wanted, "left")
        return place

    def first_within(self, begin: np.ndarray, room: np.ndarray) -> np.ndarray:
        """The end of the records from `begin` on that fit in `room` bytes; it may lie in a later group.

        Records of no size after the one that fills the room are not among them: that one closes the batch.
        """
        total = self.size_before[begin] + room
        beyond = np.searchsorted(self.size_before, total, "right") - 1
        filled = np.searchsorted(self.size_before, total, "left")
        exactly = self.size_before[np.minimum(filled, len(self.size))] == total
        ends: np.ndarray = np.where(exactly, filled, beyond)
        return ends

    @cached_property
    def _times(self) -> np.ndarray:
        return np.unique(self.at_ms)

    @property
    def _stride(self) -> int:
        return len(self._times) + 1

    @cached_property
    def _group_and_time(self) -> np.ndarray:
        """Group and commit time as one number; times by their rank, so that no length of time overflows it."""
        return self.group * self._stride + np.searchsorted(self._times, self.at_ms, "left")

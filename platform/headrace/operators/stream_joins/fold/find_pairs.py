"""Which records are pairs: for each record those of the other side that are near it in event time, by binary search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.fold.segments import order_within, places, ranges


@dataclass(frozen=True)
class Candidates:
    """Records that may have partners: first those of the state, then those of the micro-batch. A number is a place here.

    known      how many are from the state: two of these were compared in an earlier micro-batch
    group      numbers from 0, the same for the same key
    is_left    which are of the left side; `has_key`: which have a key
    place      numbers that compare as places in the log
    event_ms   event times; `stream_ms`: stream times
    closes_ms  the stream time at which each closes
    """

    known: int
    group: np.ndarray
    is_left: np.ndarray
    has_key: np.ndarray
    place: np.ndarray
    event_ms: np.ndarray
    stream_ms: np.ndarray
    closes_ms: np.ndarray


@dataclass(frozen=True)
class Pairs:
    """Numbers of records: the left and the right one of each pair; and the same two as the later and the earlier one."""

    left: np.ndarray
    right: np.ndarray
    later: np.ndarray
    earlier: np.ndarray


def find_pairs(of: Candidates, before_ms: int, after_ms: int) -> Pairs:
    """The pairs with at least one record of the micro-batch.

    Law: both have one key, the right one is at most `before_ms` earlier and `after_ms` later than the left one, and each
         comes in time for the other: both close beyond the stream times of both.
    """
    left, right = (np.flatnonzero(side & of.has_key) for side in (of.is_left, ~of.is_left))
    known_left, new_left = left[left < of.known], left[left >= of.known]
    near = [
        _near(of, new_left, right, before_ms, after_ms),
        _near(of, known_left, right[right >= of.known], before_ms, after_ms),
    ]
    left, right = (np.concatenate(numbers) for numbers in zip(*near, strict=True))
    in_time = np.minimum(of.closes_ms[left], of.closes_ms[right]) > np.maximum(
        of.stream_ms[left], of.stream_ms[right]
    )
    left, right = left[in_time], right[in_time]
    left_is_later = of.place[left] > of.place[right]
    return Pairs(left, right, np.where(left_is_later, left, right), np.where(left_is_later, right, left))


def _near(
    of: Candidates, left: np.ndarray, right: np.ndarray, before_ms: int, after_ms: int
) -> tuple[np.ndarray, np.ndarray]:
    """A left and a right record of one key for each two that are near one another in event time."""
    right = right[order_within(of.group[right], of.event_ms[right])]
    ordered = of.group[right], of.event_ms[right]
    first = places(ordered, (of.group[left], of.event_ms[left] - before_ms), "left")
    beyond = places(ordered, (of.group[left], of.event_ms[left] + after_ms), "right")
    counts = beyond - first
    return np.repeat(left, counts), right[ranges(first, counts)]

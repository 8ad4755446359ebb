"""Which records are pairs: for each record those of the other side that lie close to it, by binary search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.fold.segments import order_within, places, ranges


@dataclass(frozen=True)
class Candidates:
    """Records that may have partners, held ones first.

    earlier       how many of them came in earlier micro-batches: two of these have been compared before
    group      numbers from 0, the same for the same key
    is_left    which are of the left side; `has_key`: which have a key
    place      numbers that compare as places in the log
    event_ms   event times; `stream_ms`: stream times
    closes_ms  the stream time at which each closes
    """

    earlier: int
    group: np.ndarray
    is_left: np.ndarray
    has_key: np.ndarray
    place: np.ndarray
    event_ms: np.ndarray
    stream_ms: np.ndarray
    closes_ms: np.ndarray


@dataclass(frozen=True)
class Pairs:
    """Numbers of records: of each pair the left and the right one, which are the later and the earlier one in some order."""

    left: np.ndarray
    right: np.ndarray
    later: np.ndarray
    earlier: np.ndarray


def find_pairs(of: Candidates, before_ms: int, after_ms: int) -> Pairs:
    """Each pair of which at least one record has come.

    Law: of a key, the right one at most so much earlier and so much later than the left one, and each in time for the other.
    """
    left, right = (np.flatnonzero(side & of.has_key) for side in (of.is_left, ~of.is_left))
    came_left, came_right = (side[side >= of.earlier] for side in (left, right))
    some = [
        _close(of, came_left, right, before_ms, after_ms),
        _close(of, left[left < of.earlier], came_right, before_ms, after_ms),
    ]
    left, right = (np.concatenate(numbers) for numbers in zip(*some, strict=True))
    swap = of.place[left] > of.place[right]
    later, earlier = np.where(swap, left, right), np.where(swap, right, left)
    in_time = np.minimum(of.closes_ms[left], of.closes_ms[right]) > np.maximum(
        of.stream_ms[left], of.stream_ms[right]
    )
    return Pairs(left[in_time], right[in_time], later[in_time], earlier[in_time])


def _close(
    of: Candidates, left: np.ndarray, right: np.ndarray, before_ms: int, after_ms: int
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of a left and a right record of one key that lie so close to one another."""
    right = right[order_within(of.group[right], of.event_ms[right])]
    known = of.group[right], of.event_ms[right]
    first = places(known, (of.group[left], of.event_ms[left] - before_ms), "left")
    beyond = places(known, (of.group[left], of.event_ms[left] + after_ms), "right")
    counts = beyond - first
    return np.repeat(left, counts), right[ranges(first, counts)]

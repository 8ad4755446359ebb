"""Running values within segments: stretches of neighbouring rows that belong together, such as the rows of a group."""

from __future__ import annotations

from typing import Literal

import numpy as np

Side = Literal["left", "right"]
INT64 = np.iinfo(np.int64)
LOWEST, HIGHEST = int(INT64.min), int(INT64.max)
NO_TIME = LOWEST // 4  # stands for no time: below every time, and far enough from overflow to be added to


def ms_or_no_time(ms: int | None) -> int:
    """A time as a number; NO_TIME if there is none."""
    return NO_TIME if ms is None else ms


def begins(segment: np.ndarray) -> np.ndarray:
    """Mark the first row of each segment. In: a number per row, equal for the neighbours that belong together."""
    first = np.ones(len(segment), bool)
    first[1:] = segment[1:] != segment[:-1]
    return first


def numbered(first: np.ndarray) -> np.ndarray:
    """The number of each row's segment, from 0. In: marks of the first row of each segment."""
    return np.asarray(np.cumsum(first) - 1)


def before(first: np.ndarray, values: np.ndarray, none: int) -> np.ndarray:
    """The value one row earlier in the same segment; `none` at its first row."""
    earlier = np.empty_like(values)
    earlier[1:] = values[:-1]
    earlier[first] = none
    return earlier


def running_max(first: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The highest value of the segment through each row. In: BIGINT values from NO_TIME; marks of the first rows."""
    known = values > NO_TIME
    if not known.any():
        return values
    lowest = int(values[known].min()) - 1
    span = int(values[known].max()) - lowest + 1
    segment = numbered(first)
    if span * (int(segment[-1]) + 1) < HIGHEST:  # a later segment lies above all earlier ones
        lift = segment * np.int64(span)
        found = np.maximum.accumulate(np.where(known, values - lowest, 0) + lift) - lift + lowest
        return np.where(found == lowest, values.min(), found)
    known_values = distinct(values)  # times too far apart: by their rank instead
    lift = segment * np.int64(len(known_values))
    rank = np.searchsorted(known_values, values) + lift
    return np.asarray(known_values[np.maximum.accumulate(rank) - lift])


def running_min(first: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The lowest value of the segment through each row. In: BIGINT values through -NO_TIME; marks of the first rows."""
    return -running_max(first, -values)


def distinct(values: np.ndarray) -> np.ndarray:
    """The values, each once, in order. Sorting numbers takes a tenth of the time of `numpy.unique`."""
    ordered = np.sort(values)
    found: np.ndarray = ordered[begins(ordered)]
    return found


def ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The numbers of all ranges, one after another. In: of each range its first number and how many it has."""
    total = int(counts.sum())
    offsets = np.repeat(starts - (np.cumsum(counts) - counts), counts)
    found: np.ndarray = offsets + np.arange(total)
    return found


def places(
    within: tuple[np.ndarray, np.ndarray], wanted: tuple[np.ndarray, np.ndarray], side: Side = "left"
) -> np.ndarray:
    """Where values stand among the values of their segment.

    In:     within  segment numbers from 0 and BIGINT values, ordered by both
            wanted  segment numbers and values to look up
            side    "left": before equal values; "right": after them
    Out:    places in `within`, as `numpy.searchsorted` gives them
    """
    segments, values = within
    if not len(values):
        return np.zeros(len(wanted[0]), np.int64)
    lowest, highest = int(values.min()), int(values.max())
    span = highest - lowest + 3
    most = int(max(segments[-1], wanted[0].max(initial=0))) + 1
    if span * most < HIGHEST:
        own = segments * np.int64(span) + (values - lowest + 1)
        asked = wanted[0] * np.int64(span) + (np.clip(wanted[1], lowest - 1, highest + 1) - lowest + 1)
        found: np.ndarray = np.searchsorted(own, asked, side=side)
        return found
    known = distinct(values)  # times too far apart: by their rank instead
    width = np.int64(len(known) + 1)
    own = segments * width + np.searchsorted(known, values)
    found = np.searchsorted(own, wanted[0] * width + np.searchsorted(known, wanted[1], side=side))
    return found


def distinct_pairs(segment: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of a segment number from 0 and a BIGINT value, each once, ordered by both."""
    if not len(values):
        return segment, values
    lowest = int(values.min())
    span = int(values.max()) - lowest + 1
    if span * (int(segment.max()) + 1) < HIGHEST:
        both = distinct(segment * np.int64(span) + (values - lowest))
        return both // span, both % span + lowest
    order = np.lexsort((values, segment))
    segment, values = segment[order], values[order]
    each = begins(segment) | begins(values)
    return segment[each], values[each]


def order_within(segment: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The permutation that sorts rows by segment number from 0, then by BIGINT value; stable."""
    if not len(values):
        return np.empty(0, np.int64)
    lowest = int(values.min())
    span = int(values.max()) - lowest + 1
    if span * (int(segment.max()) + 1) < HIGHEST:
        return np.argsort(segment * np.int64(span) + (values - lowest), kind="stable")
    return np.lexsort((values, segment))

"""Which sliding windows there are, and which points lie in them.

A *point* is an event time of a group, with the first window end at or after it that is open to its records (`from_ms`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from headrace.fold.segments import HIGHEST, begins, distinct_pairs, places, ranges

PAIRS_MAX = 1 << 22  # of a window and a point that are taken at a time


@dataclass(frozen=True)
class Points:
    """Points of groups, ordered by group and time. One point may occur several times, with other ends open to it."""

    group: np.ndarray
    point_ms: np.ndarray
    from_ms: np.ndarray

    def own_end(self, difference_ms: int) -> np.ndarray:
        """The end of the window that each point makes for itself: its time, or that of [0, difference]."""
        return np.asarray(np.maximum(self.point_ms, difference_ms))

    def take(self, which: np.ndarray) -> Points:
        """Some points, in their order."""
        return Points(self.group[which], self.point_ms[which], self.from_ms[which])


@dataclass(frozen=True)
class Windows:
    """Windows of groups by their ends, ordered by both; each once."""

    group: np.ndarray
    end_ms: np.ndarray

    def take(self, which: np.ndarray | slice) -> Windows:
        """Some windows, in their order."""
        return Windows(self.group[which], self.end_ms[which])


def make_windows(points: Points, difference_ms: int, first_ms: int, last_ms: int) -> Windows:
    """The windows that points make with an end from `first_ms` through `last_ms`, those that hold no point included."""
    own = points.own_end(difference_ms)
    makes_own = points.from_ms <= own
    group = np.concatenate([points.group[makes_own], points.group])
    end_ms = np.concatenate([own[makes_own], points.point_ms + (difference_ms + 1)])
    asked = (end_ms >= first_ms) & (end_ms <= last_ms)
    group, end_ms = group[asked], end_ms[asked]
    return Windows(*distinct_pairs(group, end_ms))


def made_in(points: Points, batch: np.ndarray, windows: Windows, difference_ms: int) -> np.ndarray:
    """The first micro-batch in which a point made each window. In: batch of each point; windows that these points make."""
    own = points.own_end(difference_ms)
    makes_own = points.from_ms <= own
    group = np.concatenate([points.group[makes_own], points.group])
    end_ms = np.concatenate([own[makes_own], points.point_ms + (difference_ms + 1)])
    among = (windows.group, windows.end_ms)
    place = places(among, (group, end_ms))
    there = places(among, (group, end_ms), "right") > place
    found = np.full(len(windows.end_ms), HIGHEST)
    np.minimum.at(found, place[there], np.concatenate([batch[makes_own], batch])[there])
    return found


def entered(windows: Windows, points: Points, difference_ms: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of a window and a point that lies in it and to which it is open.

    Out:    places of windows, rising, and of points; all pairs of a window lie in one piece
    """
    for window, point in within(windows, points, difference_ms):
        is_open = points.from_ms[point] <= windows.end_ms[window]
        yield window[is_open], point[is_open]


def within(windows: Windows, points: Points, difference_ms: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of a window and a point between its bounds, open to it or not; as `entered`."""
    among = (points.group, points.point_ms)
    first = places(among, (windows.group, windows.end_ms - difference_ms))
    count = places(among, (windows.group, windows.end_ms), "right") - first
    piece = (np.cumsum(count) - count) // PAIRS_MAX
    starts = np.flatnonzero(begins(piece))
    for start, stop in zip(starts, np.append(starts[1:], len(count)), strict=False):
        part = slice(start, stop)
        yield np.repeat(np.arange(start, stop), count[part]), ranges(first[part], count[part])


def enters_none(points: Points, windows: Windows, difference_ms: int) -> np.ndarray:
    """Which points enter none of the windows. In: all windows that could hold them."""
    among = (windows.group, windows.end_ms)
    first = places(among, (points.group, points.from_ms))
    return places(among, (points.group, points.point_ms + difference_ms), "right") <= first

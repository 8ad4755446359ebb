"""Runs: records of a group that follow one another within the gap, put together before the fold sees them.

Law: folding a run as one interval, at the stream time of its first record, equals folding its records one by one. Each
record of a run is on time and at or after the one before it, at most `gap` later, while that one's session is open. So
it joins this session. Another session within `gap` of it is within `gap` of the run's first record too, or ends later
and is open. Stream time does not fall along a run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.fold.segments import before, begins


@dataclass(frozen=True)
class Items:
    """Runs, and sessions that were open before, in the order of the fold: by group, then by place in the log.

    group      a number for the group and partition
    start_ms   first event
    end_ms     last event
    before_ms  stream time of the partition before the item: a session that it has closed takes no part
    old        the item alone would be closed by its own stream time
    known      the item is a session that was open before
    """

    group: np.ndarray
    start_ms: np.ndarray
    end_ms: np.ndarray
    before_ms: np.ndarray
    old: np.ndarray
    known: np.ndarray

    def __len__(self) -> int:
        return len(self.group)

    def take(self, places: np.ndarray) -> Items:
        """Some items, in the order of their places."""
        return Items(*(getattr(self, name)[places] for name in self.__dataclass_fields__))


def make_runs(
    group: np.ndarray,
    event_ms: np.ndarray,
    stream_ms: np.ndarray,
    before_ms: np.ndarray,
    *,
    gap_ms: int,
    wait_ms: int,
) -> tuple[Items, np.ndarray]:
    """Put the records of a group that follow one another into runs.

    In:     records ordered by group and offset: event time, stream time of the row, stream time before the row
            wait_ms  gap plus grace: a session closes when stream time reaches its last event plus this
    Out:    the runs in the same order; and of each record the number of its run
    """
    old = event_ms + wait_ms <= stream_ms
    first = begins(group)
    last_ms = before(first, event_ms, 0)
    follows = ~first & ~old & ~before(first, old, 1).astype(bool)
    follows &= (last_ms <= event_ms) & (event_ms <= last_ms + gap_ms) & (last_ms + wait_ms > before_ms)
    follows &= before_ms >= before(first, before_ms, 0)
    run = np.cumsum(~follows) - 1
    at = np.flatnonzero(~follows)
    ends = np.append(at[1:], len(group)) - 1 if len(at) else at
    known = np.zeros(len(at), bool)
    return Items(group[at], event_ms[at], event_ms[ends], before_ms[at], old[at], known), run

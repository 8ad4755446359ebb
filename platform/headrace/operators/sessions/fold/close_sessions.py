"""When sessions close: each by the stream time of its own partition, in the first log commit that reaches its deadline."""

from __future__ import annotations

from collections.abc import Sequence
from operator import methodcaller

import numpy as np

from headrace.fold.contract import Clock, Times
from headrace.fold.segments import ms_or_no_time
from headrace.fold.window_shape import first_commits

Place = tuple[str, int]  # topic and partition


def stream_times(clock: Clock, of: Sequence[Place]) -> np.ndarray:
    """The stream time of some partitions; NO_TIME where one has none."""
    return np.array([ms_or_no_time(clock.partition_ms(place)) for place in of], np.int64)


def closing_commits(
    deadline_ms: np.ndarray, partition: np.ndarray, of: Sequence[Place], times: Times
) -> np.ndarray:
    """The commit time at which each session closes; HIGHEST: it does not in this micro-batch.

    In:     deadline_ms  last event plus gap plus grace
            partition    of each session its partition's place in `of`
    Law:    the first commit after which the partition's stream time has reached the deadline.
    """
    commits = np.empty(len(deadline_ms), np.int64)
    for number in np.flatnonzero(np.bincount(partition, minlength=len(of))).tolist():
        mine = np.flatnonzero(partition == number)
        commits[mine] = first_commits(deadline_ms[mine], times, methodcaller("partition_ms", of[number]))
    return commits


def stream_times_along(times: Times, place: Place) -> np.ndarray:
    """The stream time of a partition after each commit; it does not fall (L3)."""
    return np.array([ms_or_no_time(clock.partition_ms(place)) for _, clock in times.commits], np.int64)

"""The part of a shape that time windows, sliding windows and sessions have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.fold.aggregates import Aggregates
from headrace.fold.aggregates.kind import whole
from headrace.fold.contract import HASH, KEY, PARTITION, TOPIC
from headrace.fold.segments import HIGHEST, ms_or_no_time
from headrace.fold.values.json_size import json_size

if TYPE_CHECKING:
    from headrace.fold.contract import Clock, Times

START, END = "window_start", "window_end"
# Columns of a result: its event time, and the commit that closed it.
TIMESTAMP, SEQUENCE = ("__timestamp", "__sequence")
PLACES = ((TOPIC, pa.string()), (PARTITION, pa.int32()))
GROUPS = ((KEY, pa.binary()), (HASH, pa.int64()))


@dataclass(frozen=True)
class WindowShape:
    """The windows of one node. In: by  the group columns, with their types."""

    by: pa.Schema
    aggregates: Aggregates

    @property
    def keys(self) -> tuple[str, ...]:
        """The group columns."""
        return tuple(self.by.names)

    def row_bytes(self, rows: pa.Table) -> np.ndarray:
        """The bytes of windows as rows of the node's table."""
        values = [field.name for field in self.aggregates.results]
        names = (*self.keys, START, END, *values)
        return json_size({name: whole(rows[name]) for name in names})


def first_commits(
    deadline_ms: np.ndarray, times: Times, reached: Callable[[Clock], int | None]
) -> np.ndarray:
    """The first commit after which a clock has come to each deadline; HIGHEST: none of these.

    In: reached  the time of a clock, which does not fall; None: there is none yet
    """
    at_ms = np.array([*(ms for ms, _ in times.commits), HIGHEST], np.int64)
    known_ms = np.array([ms_or_no_time(reached(clock)) for _, clock in times.commits], np.int64)
    commits: np.ndarray = at_ms[np.searchsorted(known_ms, deadline_ms)]
    return commits


def lowest(clock: Clock) -> int | None:
    """The lowest stream time."""
    return clock.lowest_ms

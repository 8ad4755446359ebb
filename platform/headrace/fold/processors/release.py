"""The order of time: when each record is given to its group.

Law (L34): a record of log commit m with the event time e is released by the first commit n, not before m, after which the
stream clock has reached e. If it had done so after commit m-1 already, the record is late. So what waits after a commit has
an event time beyond the clock, and what an increment releases is told by the clock before and after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.columns import int64
from headrace.fold.contract import EVENT, HASH, INGESTED, KEY, Clock, StateTable, Times
from headrace.fold.positions import order_of, position_columns
from headrace.fold.processors.state_tables import lowest_ms

WAITING = "waiting"  # the state's table of records whose moment has not come


@dataclass(frozen=True)
class Released:
    """Records, and when they are given to their groups.

    commit  the number of the log commit that releases each
    late    whether it came after its moment
    """

    records: pa.Table
    commit: np.ndarray
    late: np.ndarray

    def order(self, codes: np.ndarray) -> np.ndarray:
        """The permutation that sorts them by group, then as they are released. In: the number of each one's group."""
        anywhen = pa.repeat(pa.scalar(0, pa.int64()), self.records.num_rows)
        place = order_of(position_columns(self.records) | {"ingested_ms": anywhen})
        return np.lexsort((place, int64(self.records[EVENT]), self.commit, codes))


def waiting_table(rows: pa.Schema, columns: Sequence[str], topics: Sequence[str]) -> StateTable:
    """The state's table. In: the rows' schema; the columns of a record."""
    own = [pa.field(KEY, pa.binary()), pa.field(HASH, pa.int64()), *(rows.field(name) for name in columns)]

    return StateTable(
        pa.schema(own), (EVENT, HASH), _as_they_are, EVENT, partial(_is_released, topics=topics)
    )


def passed(times: Times, topics: Sequence[str]) -> tuple[int, int] | None:
    """The event times that the stream clock passes in an increment: the first and the last; None: none."""
    before, after = (lowest_ms(clock, topics) for clock in (times.before, times.after))
    return (before + 1, after) if before < after else None


def release(
    came: pa.Table, waiting: pa.Table, times: Times, topics: Sequence[str]
) -> tuple[Released, pa.Table]:
    """The records that an increment releases, of those that came or have waited; and those that have to wait.

    In: waiting  rows of WAITING; also such as are not released, or were before
    """
    at_ms = np.array([ms for ms, _ in times.commits], np.int64)
    clocks = np.array([lowest_ms(clock, topics) for _, clock in times.commits], np.int64)
    before_ms = lowest_ms(times.before, topics)
    passing = passed(times, topics)
    if passing is None:
        waiting = waiting.slice(0, 0)
    else:
        event = waiting[EVENT]
        waiting = waiting.filter(
            pc.and_(pc.greater_equal(event, passing[0]), pc.less_equal(event, passing[1]))
        )
    own = np.searchsorted(at_ms, int64(came[INGESTED]))
    event = int64(came[EVENT])
    late = event <= np.concatenate([[before_ms], clocks])[own]
    commit = np.maximum(np.searchsorted(clocks, event), own)  # the clock does not fall
    waits = commit == len(at_ms)
    released = came.filter(pa.array(~waits))
    held = waiting.select(released.column_names).cast(released.schema)
    return Released(
        pa.concat_tables([released, held]),
        np.concatenate([commit[~waits], np.searchsorted(clocks, int64(held[EVENT]))]),
        np.concatenate([late[~waits], np.zeros(held.num_rows, bool)]),
    ), came.filter(pa.array(waits))


def _is_released(waiting: pa.Table, after: Clock, *, topics: Sequence[str]) -> pa.Array:
    return pa.array(int64(waiting[EVENT]) <= lowest_ms(after, topics))


def _as_they_are(rows: pa.Table) -> pa.Table:
    return rows

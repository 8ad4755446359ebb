"""Views of a node's state for people and checks: open windows, open records, values of entries. Tasks compute them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.engine.state_layout import StateLayout
from headrace.fold.batches import BatchedSink
from headrace.fold.batches.open_batches import still_open
from headrace.fold.contract import BATCH, PARTITION, TOPIC, Clock
from headrace.fold.joins.orphans import orphans as orphans_among
from headrace.fold.lookups import LookupInLog, LookupInTime
from headrace.fold.processors import Processors
from headrace.fold.processors.state_tables import shown_entries, store_table
from headrace.fold.sessions import Sessions
from headrace.fold.sliding import SlidingWindows
from headrace.fold.stream_joins import StreamJoins
from headrace.fold.stream_joins.join_records import RECORDS as OPEN
from headrace.fold.time_limits import TimeLimit
from headrace.fold.time_limits.settle_waits import ENTRIES
from headrace.fold.totals.merge_totals import RECORDS
from headrace.fold.windows import Windows
from headrace.nodes.state_frames import Tables, of_state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from headrace.nodes.bound_operator import BoundOperator

PANES, POINTS, SESSIONS, WAITING = "panes", "points", "open_sessions", "waiting"
TABLE_OF: dict[type, str] = {
    Windows: PANES,
    SlidingWindows: POINTS,
    Sessions: SESSIONS,
    BatchedSink: WAITING,
    LookupInTime: WAITING,
    LookupInLog: WAITING,
    StreamJoins: OPEN,
    TimeLimit: ENTRIES,
}


def open_windows(of: BoundOperator, state: DataFrame, clock: Clock) -> DataFrame | None:
    """The windows that are not closed yet, with their values so far; None: the node has no windows."""
    found = windows_in(of.operator.kernel, clock)
    return None if found is None else _of(of, state, found[1], found[0])


def windows_in(kernel: Any, clock: Clock) -> tuple[str, Callable[[Tables], pa.Table]] | None:
    """The state table that open windows are made of, and what makes them of its rows; None: the node has no windows."""
    match kernel:
        case Windows() | SlidingWindows():
            return TABLE_OF[type(kernel)], partial(_open_windows, kernel, clock)
        case Sessions():
            return SESSIONS, partial(_open_sessions, kernel, clock)
    return None


def open_records(of: BoundOperator, state: DataFrame, clock: Clock) -> DataFrame | None:
    """How many records of each partition are open: TOPIC, PARTITION, RECORDS, one row per task; None: none can be."""
    kernel = of.operator.kernel
    match kernel:
        case TimeLimit():
            return _of(of, state, partial(_open_waits, kernel), ENTRIES)
        case Windows() | SlidingWindows() | Sessions() | BatchedSink() | LookupInTime() | StreamJoins():
            table = TABLE_OF[type(kernel)]
            return _of(of, state, partial(_open_records, kernel, clock, table), table)
        case LookupInLog() if kernel.complete:
            return _of(of, state, partial(_open_records, kernel, clock, WAITING), WAITING)
    return None


def running_windows(of: BoundOperator, state: DataFrame, clock: Clock) -> DataFrame:
    """The values of each window after each micro-batch that touched it, with BATCH."""
    kernel = of.operator.kernel
    if isinstance(kernel, Windows):
        return _of(of, state, partial(_running_windows, kernel), PANES)
    return _of(of, state, partial(_running_sliding, kernel, clock), POINTS)


def running_sessions(of: BoundOperator, state: DataFrame) -> DataFrame:
    """Each open session after each micro-batch that touched it, with DELETED and BATCH."""
    return _of(of, state, partial(_running_sessions, of.operator.kernel), SESSIONS, merged=False)


def worth(of: BoundOperator, state: DataFrame) -> DataFrame:
    """The values of each entry of a time limit after each micro-batch that touched it, with BATCH."""
    return _of(of, state, partial(_worth, of.operator.kernel), ENTRIES, merged=False)


def waiting(of: BoundOperator, state: DataFrame, clock: Clock) -> DataFrame:
    """The records in open batches: the group columns, one row per record."""
    return _of(of, state, partial(_waiting, of.operator.kernel, clock), WAITING)


def entries(of: BoundOperator, state: DataFrame, store: str, clock: Clock) -> DataFrame:
    """The entries of a processor's store: the columns of the group, of the key and of the value; one row per entry."""
    kernel = of.operator.kernel
    assert isinstance(kernel, Processors)
    return _of(of, state, partial(_entries, kernel, store, clock), store_table(store))


def orphans(
    of: BoundOperator, state: DataFrame, tables: tuple[str, str], key: Sequence[str], on: Sequence[str]
) -> DataFrame:
    """The left rows of a join that refer to a right row. `__orphan` is true if that row does not exist.

    In: tables  the names of the state's tables of left rows and of right rows
    """
    return _of(of, state, partial(_orphans, *tables, key, on), *tables)


def _of(
    of: BoundOperator,
    state: DataFrame,
    make: Callable[[Tables], pa.Table],
    *tables: str,
    merged: bool = True,
) -> DataFrame:
    layout = of.operator.layout
    return of_state(state, StateLayout({name: layout.tables[name] for name in tables}), make, merged=merged)


def _open_windows(kernel: Windows | SlidingWindows, clock: Clock, tables: Tables) -> pa.Table:
    return kernel.open_windows(tables[TABLE_OF[type(kernel)]], clock)


def _open_sessions(kernel: Sessions, clock: Clock, tables: Tables) -> pa.Table:
    return kernel.open_sessions(tables[SESSIONS], clock)


def _running_windows(kernel: Windows, tables: Tables) -> pa.Table:
    return kernel.updates(tables[PANES])


def _running_sliding(kernel: SlidingWindows, clock: Clock, tables: Tables) -> pa.Table:
    return kernel.updates(tables[POINTS], clock)


def _running_sessions(kernel: Sessions, tables: Tables) -> pa.Table:
    return kernel.updates(tables[SESSIONS])


def _open_records(kernel: Any, clock: Clock, table: str, tables: Tables) -> pa.Table:
    return _counted(kernel.open_records(tables[table], clock))


def _open_waits(kernel: TimeLimit, tables: Tables) -> pa.Table:
    return _counted(kernel.open_records(tables[ENTRIES]))


def _counted(rows: pa.Table) -> pa.Table:
    """The sum of each partition. In: TOPIC, PARTITION and a number of records."""
    named = rows.rename_columns([TOPIC, PARTITION, RECORDS])
    sums = named.group_by([TOPIC, PARTITION]).aggregate([(RECORDS, "sum")])
    return sums.rename_columns({f"{RECORDS}_sum": RECORDS})


def _worth(kernel: TimeLimit, tables: Tables) -> pa.Table:
    return kernel.worth(tables[ENTRIES]).append_column(BATCH, tables[ENTRIES][BATCH])


def _waiting(kernel: BatchedSink, clock: Clock, tables: Tables) -> pa.Table:
    rows = still_open(tables[WAITING], clock, kernel.topics, kernel.limits.max_wait_ms)
    return rows.select([*kernel.by])


def _entries(kernel: Processors, store: str, clock: Clock, tables: Tables) -> pa.Table:
    return shown_entries(kernel.shape, store, tables[store_table(store)], clock)


def _orphans(left: str, right: str, key: Sequence[str], on: Sequence[str], tables: Tables) -> pa.Table:
    return orphans_among(tables[left], tables[right], key, on)

"""Views of a node's state for people and checks: open windows, open records, values of entries."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from headrace.engine.state_layout import StateLayout
from headrace.errors import DescriptionError
from headrace.fold.contract import BATCH, PARTITION, TOPIC, Clock
from headrace.fold.joins.orphans import orphans as orphans_among
from headrace.nodes.rows.state_frames import Tables
from headrace.operators.batches.fold import BatchedSink
from headrace.operators.batches.fold.gather_events import WAITING
from headrace.operators.batches.fold.open_batches import still_open
from headrace.operators.processors.fold import Processors
from headrace.operators.processors.fold.state_tables import shown_entries, store_table, stores_in
from headrace.operators.time_limits.fold import TimeLimit
from headrace.operators.time_limits.fold.entries import ENTRIES
from headrace.operators.totals.fold.merge_totals import RECORDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.fold.kernel import Shown
    from headrace.nodes.bound_operator import BoundOperator
    from headrace.nodes.rows.state_frames import StateRows

T = TypeVar("T")  # a frame of Spark, or a table of Arrow


def open_windows(of: BoundOperator, state: StateRows[T], clock: Clock) -> T | None:
    """The windows that are not closed yet, with their values so far; None: the node has no windows."""
    is_open = of.operator.kernel.open_state
    if is_open is None or is_open.windows is None:
        return None
    return _of(of, state, partial(_at, is_open.windows, is_open.table, clock), is_open.table)


def open_records(of: BoundOperator, state: StateRows[T], clock: Clock) -> T | None:
    """How many records of each partition are open: TOPIC, PARTITION, RECORDS, one row per task; None: none can be."""
    is_open = of.operator.kernel.open_state
    if is_open is None:
        return None
    return _of(of, state, partial(_counted, is_open.records, is_open.table, clock), is_open.table)


def running_windows(of: BoundOperator, state: StateRows[T], clock: Clock) -> T:
    """The values of each open window after each micro-batch that touched it (see `OpenState.updates`)."""
    is_open = of.operator.kernel.open_state
    assert is_open is not None
    assert is_open.updates is not None
    make = partial(_at, is_open.updates, is_open.table, clock)
    return _of(of, state, make, is_open.table, merged=not is_open.moves)


def worth(of: BoundOperator, state: StateRows[T]) -> T:
    """The values of each entry of a time limit after each micro-batch that touched it, with BATCH."""
    kernel = of.operator.kernel
    assert isinstance(kernel, TimeLimit)
    return _of(of, state, partial(_worth, kernel), ENTRIES, merged=False)


def waiting(of: BoundOperator, state: StateRows[T], clock: Clock) -> T:
    """The records in open batches: the group columns, one row per record."""
    kernel = of.operator.kernel
    assert isinstance(kernel, BatchedSink)
    return _of(of, state, partial(_waiting, kernel, clock), WAITING)


def entries(of: BoundOperator, state: StateRows[T], store: str, clock: Clock) -> T:
    """The entries of a processor's store: the columns of the group, of the key and of the value; one row per entry.

    Raises: DescriptionError when the node has no such store
    """
    kernel, names = of.operator.kernel, stores_in(of.operator.layout.tables)
    if store not in names:
        raise DescriptionError(
            f"Node '{of.operator.node.required_name}' has no store {store!r}.",
            hint=f"There are: {', '.join(names)}." if names else "Stores are those of processors.",
        )
    assert isinstance(kernel, Processors)
    return _of(of, state, partial(_entries, kernel, store, clock), store_table(store))


def orphans(
    of: BoundOperator, state: StateRows[T], tables: tuple[str, str], key: Sequence[str], on: Sequence[str]
) -> T:
    """The left rows of a join that refer to a right row. `__orphan` is true if that row does not exist.

    In: tables  the names of the state's tables of left rows and of right rows
    """
    return _of(of, state, partial(_orphans, *tables, key, on), *tables)


def _of(
    of: BoundOperator,
    state: StateRows[T],
    make: Callable[[Tables], pa.Table],
    *tables: str,
    merged: bool = True,
) -> T:
    layout = of.operator.layout
    return state.made(StateLayout({name: layout.tables[name] for name in tables}), make, merged=merged)


def _at(show: Shown, table: str, clock: Clock, tables: Tables) -> pa.Table:
    return show(tables[table], clock)


def _counted(show: Shown, table: str, clock: Clock, tables: Tables) -> pa.Table:
    """The sum of each partition."""
    rows = _at(show, table, clock, tables).rename_columns([TOPIC, PARTITION, RECORDS])
    sums = rows.group_by([TOPIC, PARTITION]).aggregate([(RECORDS, "sum")])
    return sums.rename_columns({f"{RECORDS}_sum": RECORDS})


def _worth(kernel: TimeLimit, tables: Tables) -> pa.Table:
    return kernel.worth(tables[ENTRIES]).append_column(BATCH, tables[ENTRIES][BATCH])


def _waiting(kernel: BatchedSink, clock: Clock, tables: Tables) -> pa.Table:
    rows = still_open(tables[WAITING], clock, kernel.topics, kernel.limits)
    return rows.select([*kernel.by])


def _entries(kernel: Processors, store: str, clock: Clock, tables: Tables) -> pa.Table:
    return shown_entries(kernel.shape, store, tables[store_table(store)], clock)


def _orphans(left: str, right: str, key: Sequence[str], on: Sequence[str], tables: Tables) -> pa.Table:
    return orphans_among(tables[left], tables[right], key, on)

"""Raw updates, conflated per micro-batch: what each row was worth after each micro-batch that touched it.

Law: each identity's row with the highest BATCH, nulls last, is what the node's results and open windows hold. The rows in
between depend on the cuts: they show what people saw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.state_layout import StateLayout
from headrace.fold.changes.collect import RESULTS
from headrace.fold.contract import BATCH, DELETED
from headrace.fold.keys import key_of_row
from headrace.nodes.rows import state_views
from headrace.nodes.rows.state_frames import StateTables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.nodes.rows.stored_rows import StoredRows

LEFT_LAST = ("__sequence", "__offset", "__sub", "__opened_ms")


def updates_of(stored: StoredRows) -> pa.Table:
    """The node's columns, and BATCH (null: the last word)."""
    node = stored.of.operator.node
    parts = [_narrow(part, node.columns) for part in _parts(stored)]
    return pa.concat_tables(parts, promote_options="default").select([*node.columns, BATCH])


def _parts(stored: StoredRows) -> list[pa.Table]:
    node, is_open = stored.of.operator.node, stored.of.operator.kernel.open_state
    if node.day_column is None:
        return _revised(stored)
    if node.update_source is not node:
        return _entries(stored)
    if is_open is None or is_open.updates is None:
        return [_with_batch(stored.results, None)]
    if is_open.moves:
        return _sessions(stored)
    running = state_views.running_windows(stored.of, StateTables(stored.state), stored.progress.clock)
    return [_with_batch(stored.results, None), running]


def _revised(stored: StoredRows) -> list[pa.Table]:
    kept = StateLayout({RESULTS: stored.of.operator.kept[RESULTS]})
    since = StateTables(stored.state).made(kept, lambda tables: tables[RESULTS], merged=False)
    return [_with_batch(stored.results, 0), since.filter(pc.greater(since[BATCH], stored.folded))]


def _entries(stored: StoredRows) -> list[pa.Table]:
    """The values of each entry after each micro-batch that touched it. For a forgotten entry: the row that left last."""
    rows, last = stored.results, dict[bytes, tuple[tuple[Any, ...], int]]()
    places = zip(*(rows[name].to_pylist() for name in LEFT_LAST), strict=True)
    keys = key_of_row(rows, stored.of.operator.node.key)[0].to_pylist()
    for number, (key, (sequence, offset, *rest)) in enumerate(zip(keys, places, strict=True)):
        left = (sequence, offset is None, offset or 0, *rest)
        last[key] = max(last.get(key, (left, number)), (left, number))
    before = rows.take(pa.array([number for _, number in last.values()], pa.int64()))
    return [_with_batch(before, 0), state_views.worth(stored.of, StateTables(stored.state))]


def _sessions(stored: StoredRows) -> list[pa.Table]:
    """Open sessions after each micro-batch that touched them; one that is gone under its bounds has a row of nulls."""
    of, state, names = stored.of, StateTables(stored.state), stored.of.operator.node.key
    running = state_views.running_windows(of, state, stored.progress.clock)
    running = running.filter(pc.invert(running[DELETED]))
    still_open = state_views.open_windows(of, state, stored.progress.clock)
    assert still_open is not None
    known = pa.chunked_array([key_of_row(rows, names)[0] for rows in (stored.results, still_open)])
    keys = key_of_row(running, names)[0]
    first = {key: number for number, key in reversed([*enumerate(keys.to_pylist())])}
    gone = running.select([*names]).take(pa.array([*first.values()], pa.int64()))
    is_known = pc.is_in(pa.array([*first], pa.binary()), known)
    return [_with_batch(stored.results, None), running, _with_batch(gone.filter(pc.invert(is_known)), None)]


def _with_batch(rows: pa.Table, batch: int | None) -> pa.Table:
    return rows.append_column(BATCH, pa.array([batch] * rows.num_rows, pa.int64()))


def _narrow(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Those of the columns that rows have, and BATCH."""
    own = rows.select([name for name in rows.column_names if name in (*columns, BATCH)])
    return own.set_column(own.schema.get_field_index(BATCH), BATCH, own[BATCH].cast(pa.int64()))

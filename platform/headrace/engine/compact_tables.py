"""Compaction of a node's state, and of results of which a later row of a key replaces the earlier one.

Law: state that any later fold reads, and the current rows of a result, stay the same. Rows that are expired, or deleted,
leave only where all files of their table are merged: elsewhere they may stand for older rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.engine.bucket_tasks import write_marked
from headrace.engine.compact_runs import FILE_ROWS, RUNS_MAX, Files, Rewriting, compact_runs
from headrace.engine.state_files import Bounds, StateSource, read_state, write_merged
from headrace.engine.state_layout import StateLayout
from headrace.engine.state_parquet import FOOTERS, read_groups
from headrace.fold.columns import int64
from headrace.fold.contract import BATCH, DELETED, HASH, KEY, Clock, Needs
from headrace.fold.keys import group
from headrace.lake import LakeTable, NewFile, TableWriter, carried


def compact_state(
    table: LakeTable,
    writer: TableWriter,
    layout: StateLayout,
    clock: Clock,
    carries: Sequence[str],
    *,
    runs_max: int = RUNS_MAX,
    file_rows: int = FILE_ROWS,
) -> int:
    """Compact each state table that has too many runs; it may run beside the node.

    In:  writer   a maintainer of the table
         clock    where the node stands
         carries  the writers whose newest records each commit repeats
    Out: how many state tables were compacted
    """
    done = 0
    for name in layout.tables:
        files = StateSource(table.uri, table.snapshot().files).of(name).files
        rewriting = Rewriting(
            partial(_merged_state, table.uri, layout, name, clock),
            partial(write_merged, table.uri, layout, name),
        )
        record = partial(_record, "state upkeep", table, carries)
        done += compact_runs(table, writer, files, rewriting, record, runs_max=runs_max, file_rows=file_rows)
    return done


def compact_current(
    table: LakeTable,
    writer: TableWriter,
    carries: Sequence[str],
    *,
    runs_max: int = RUNS_MAX,
    file_rows: int = FILE_ROWS,
) -> bool:
    """Compact results with KEY, HASH, BATCH and DELETED. In, Out: as `compact_state`."""
    rewriting = Rewriting(partial(_merged_results, table.uri), partial(_write_results, table.uri))
    record = partial(_record, "results upkeep", table, carries)
    files = table.snapshot().files
    return compact_runs(table, writer, files, rewriting, record, runs_max=runs_max, file_rows=file_rows)


def current_rows(table: LakeTable) -> pa.Table:
    """The current rows of a result, one for each key, with all columns."""
    empty = table.columns.empty_table()
    files = table.snapshot().files
    return empty if not files else _merged_results(table.uri, files, None, True)


def newest_of_keys(rows: pa.Table) -> pa.Table:
    """Of the rows of each KEY the one with the highest BATCH."""
    if not rows.num_rows:
        return rows
    rows = rows.combine_chunks()
    codes = group(rows[KEY]).codes
    order = np.lexsort((int64(rows[BATCH]), codes))
    last = np.append(codes[order][1:] != codes[order][:-1], True)
    return rows.take(pa.array(order[last]))


def _record(writer: str, table: LakeTable, carries: Sequence[str]) -> Mapping[str, Any]:
    return {"writer": writer, **carried(table, carries)}


def _merged_state(
    uri: str, layout: StateLayout, name: str, clock: Clock, files: Files, hashes: Bounds, whole: bool
) -> pa.Table:
    rows = read_state(StateSource(uri, files), layout, name, Needs(), hashes).rows
    expired = layout.tables[name].expired
    return rows.filter(pc.invert(expired(rows, clock))) if whole and expired is not None else rows


def _merged_results(uri: str, files: Files, hashes: Bounds | None, whole: bool) -> pa.Table:
    rows = newest_of_keys(
        pa.concat_tables([_within(f"{uri}/{name}", file.size, hashes) for name, file in files.items()])
    )
    return rows.filter(pc.invert(rows[DELETED])) if whole else rows


def _within(uri: str, size: int, hashes: Bounds | None) -> pa.Table:
    """The rows of a file whose hash is within bounds; other groups of rows are not read, where statistics tell."""
    footer, _ = FOOTERS.of(uri, size)
    groups = [
        number
        for number in range(footer.num_row_groups)
        if hashes is None or _may_have(footer.row_group(number), hashes)
    ]
    if not groups:
        return footer.schema.to_arrow_schema().empty_table()
    rows, _ = read_groups(uri, size, footer, groups)
    if hashes is None:
        return rows
    found = rows[HASH].to_numpy()
    return rows.filter(pa.array((found >= hashes[0]) & (found <= hashes[1])))


def _may_have(group: pq.RowGroupMetaData, hashes: Bounds) -> bool:
    places = (at for at in range(group.num_columns) if group.column(at).path_in_schema == HASH)
    bounds = group.column(next(places)).statistics
    return bounds is None or not (bounds.max < hashes[0] or bounds.min > hashes[1])


def _write_results(uri: str, rows: pa.Table, batch: int) -> NewFile | None:
    return write_marked(uri, rows.sort_by(HASH), batch) if rows.num_rows else None

"""Compaction of a node's state.

Law: what a merged read gives stays the same, but for rows that no later fold reads. These leave only where all files of
their table are merged: elsewhere they may stand for older rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.compact_runs import FILE_ROWS, RUNS_MAX, Files, Rewriting, compact_runs
from headrace.engine.state_files import Bounds, StateSource, read_state, write_merged
from headrace.engine.state_layout import TABLE, StateLayout
from headrace.fold.contract import BATCH, Clock, Needs
from headrace.lake import LakeTable, TableWriter, carried


def compact_state(
    table: LakeTable,
    writer: TableWriter,
    layout: StateLayout,
    clock: Clock,
    carries: Sequence[str],
    *,
    runs_max: int = RUNS_MAX,
    file_rows: int = FILE_ROWS,
    whole: bool = False,
) -> int:
    """Compact each state table that has too many runs; it may run beside the node.

    In:  writer   a maintainer of the table
         clock    where the node stands
         carries  the writers whose newest records each commit repeats
         whole    compact all of each table, so that what nothing reads any more leaves
    Out: how many state tables were compacted
    """
    done = 0
    for name in layout.tables:
        source = StateSource.committed(table)
        files = source.only(name).files
        # A row that is expired may hide older rows of its key. Where files that are mixed may hold these, it stays.
        until = clock if len(files) == len(source.of(name).files) else None
        rewriting = Rewriting(
            partial(_merged_state, table.uri, layout, name, until),
            partial(write_merged, table.uri, layout, name),
        )
        record = partial(_record, "state upkeep", table, carries)
        gains = len(files) > 1 or layout.tables[name].expired is not None
        done += compact_runs(
            table,
            writer,
            files,
            rewriting,
            record,
            runs_max=runs_max,
            file_rows=file_rows,
            whole=whole and gains,
        )
    return done


def part_mixed_files(
    table: LakeTable, writer: TableWriter, layout: StateLayout, carries: Sequence[str]
) -> int:
    """Part files that hold rows of several state tables, as another writer's compaction leaves them.

    In:  layout  with all state tables
    Out: how many files were parted
    """
    mixed = {
        name: file
        for name, file in table.snapshot().files.items()
        if file.lowest.get(TABLE) is None or file.lowest.get(TABLE) != file.highest.get(TABLE)
    }
    for name, file in mixed.items():
        alone = StateSource(table.uri, {name: file})
        found = {of: read_state(alone, layout, of, Needs(), remember=False).rows for of in layout.tables}
        added = [
            part
            for of, rows in found.items()
            if (part := write_merged(table.uri, layout, of, rows, pc.max(rows[BATCH]).as_py())) is not None
        ]
        writer.replace({name: file}, added, _record("state upkeep", table, carries), changes_data=False)
    return len(mixed)


def _record(writer: str, table: LakeTable, carries: Sequence[str]) -> Mapping[str, Any]:
    return {"writer": writer, **carried(table, carries)}


def _merged_state(
    uri: str, layout: StateLayout, name: str, clock: Clock | None, files: Files, hashes: Bounds, whole: bool
) -> pa.Table:
    rows = read_state(StateSource(uri, files), layout, name, Needs(), hashes, remember=False).rows
    expired = layout.tables[name].expired
    if not whole or expired is None or clock is None:
        return rows
    return rows.filter(pc.invert(expired(rows, clock)))

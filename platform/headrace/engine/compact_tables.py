"""Compaction of a node's state.

Law: what a merged read gives stays the same, but for rows that no later fold reads. These leave only where all files of
their table are merged: elsewhere they may stand for older rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.compact_runs import OFTEN, Files, Packing, Rewriting, compact_runs
from headrace.engine.state_files import StatePlace, StateSource, write_merged
from headrace.engine.state_layout import TABLE, StateLayout
from headrace.engine.state_needs import Bounds
from headrace.engine.state_reads import read_state
from headrace.fold.contract import BATCH, Clock, Needs
from headrace.lake import LakeTable, TableWriter, carried


def compact_state(
    table: LakeTable,
    writer: TableWriter,
    layout: StateLayout,
    clock: Clock,
    carries: Sequence[str],
    packing: Packing = OFTEN,
) -> int:
    """Compact each state table that has too many runs; it may run beside the node.

    In:  writer   a maintainer of the table
         clock    where the node stands
         carries  the writers whose newest records each commit repeats
    Out: how many state tables were compacted
    """
    done = 0
    for name in layout.tables:
        source, place = StateSource.committed(table), StatePlace(table.uri, layout, name)
        files = source.only(name).files
        # A row that is expired may hide older rows of its key. Where files that are mixed may hold these, it stays.
        until = clock if len(files) == len(source.of(name).files) else None
        rewriting = Rewriting(
            partial(_merged_state, place, until),
            partial(write_merged, place),
        )
        record = partial(_record, "state upkeep", table, carries)
        gains = len(files) > 1 or layout.tables[name].expired is not None
        wanted = replace(packing, whole=packing.whole and gains)
        done += compact_runs(table, writer, files, rewriting, record, wanted)
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
            if (part := write_merged(StatePlace(table.uri, layout, of), rows, pc.max(rows[BATCH]).as_py()))
            is not None
        ]
        writer.replace({name: file}, added, _record("state upkeep", table, carries), changes_data=False)
    return len(mixed)


def _record(writer: str, table: LakeTable, carries: Sequence[str]) -> Mapping[str, Any]:
    return {"writer": writer, **carried(table, carries)}


def _merged_state(
    place: StatePlace, clock: Clock | None, files: Files, hashes: Bounds, whole: bool
) -> pa.Table:
    source = StateSource(place.uri, files)
    rows = read_state(source, place.layout, place.table, Needs(), hashes, remember=False).rows
    expired = place.layout.tables[place.table].expired
    if not whole or expired is None or clock is None:
        return rows
    return rows.filter(pc.invert(expired(rows, clock)))

"""The step of a vectorised processor: the records of a bucket, and the entries of their groups, as tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description.batch_processor import GROUP, RECORD
from headrace.fold.contract import (
    CAUSE,
    CLOCK,
    DELETED,
    EVENT,
    HASH,
    INGESTED,
    KEY,
    OFFSET,
    PARTITION,
    STREAM,
    TOPIC,
    Folded,
    Times,
)
from headrace.fold.fates import sum_tallies, tally_of
from headrace.fold.group_order import order_by_group
from headrace.fold.keys import canonical, group
from headrace.fold.positions import order_of, position_columns
from headrace.fold.segments import LOWEST
from headrace.fold.values.columns import int64, moments
from headrace.operators.processors.fold.forwarded import (
    DUE,
    GROUP_HASH,
    NUMBER,
    PHASE,
    POSITION_TYPES,
    RECORDS,
    RELEASED_AT,
    SEQUENCE,
    TIMESTAMP,
)
from headrace.operators.processors.fold.process_records import (
    REFUSED,
    ProcessRecords,
    other_fates,
    refused_records,
)
from headrace.operators.processors.fold.release import clocks_of
from headrace.operators.processors.fold.run_batches import BatchRunner
from headrace.operators.processors.fold.shape import StoreShape
from headrace.operators.processors.fold.state_tables import entry_columns, named, store_table


@dataclass(frozen=True)
class ProcessBatches(ProcessRecords):
    """Call a vectorised processor for the groups of a bucket; In and Out as of `ProcessRecords`.

    Law: L34, if the processor keeps its own law (see `BatchProcessor`). A batch is all records of an increment in a bucket.
    """

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """See the class."""
        rows = self.decided(rows)
        kept = self._kept(rows).combine_chunks()
        same = group(kept[KEY])
        order = order_by_group(same.codes, order_of(position_columns(kept)))
        own = kept.take(pa.array(same.first))
        kept = kept.take(pa.array(order))
        runner = BatchRunner(self.shape)
        for store in self.shape.stores:
            held = state.get(store_table(store.name))
            if held is not None:
                runner.context.store(store.name).hold(self._store_entries(store, held, own[KEY]))
        runner.run(kept, same.codes[order])
        outputs = {"results": self._results(runner.rows(), kept, times)}
        tally = tally_of(rows)
        if self.shape.sets_apart:
            outputs[REFUSED] = refused_records(kept, runner.refused)
            tally = sum_tallies([tally, *other_fates(outputs[REFUSED])])
        changes = {store_table(store.name): self._changes(store, runner, own) for store in self.shape.stores}
        return Folded(outputs=outputs, changes=changes, tally=tally)

    def _store_entries(self, store: StoreShape, rows: pa.Table, keys: pa.ChunkedArray) -> pa.Table:
        """The entries of the groups that have records. In: KEY of each group."""
        number = pc.index_in(rows[KEY], value_set=keys.combine_chunks()).cast(pa.int64())
        which = pc.and_(number.is_valid(), pc.invert(rows[DELETED]))
        names = [field.name for field in (*store.key, *store.value)]
        columns = dict(zip(names, (rows[name] for name in entry_columns(store)), strict=True))
        return pa.table({GROUP: number, **columns, DELETED: rows[DELETED]}).filter(which)

    def _results(self, forwarded: pa.Table, kept: pa.Table, times: Times) -> pa.Table:
        """Rows as `Forwarded.table` gives them."""
        commits = np.array([ms for ms, _ in times.commits], np.int64)
        which = int64(forwarded[RECORD])
        order = np.argsort(which, kind="stable")
        first = np.searchsorted(which[order], which[order])
        number = np.empty(len(which), np.int64)
        number[order] = np.arange(len(which)) - first
        names = [TOPIC, PARTITION, OFFSET, HASH, EVENT, STREAM, INGESTED]
        names += [CAUSE] if self.shape.causes else []
        causes = kept.select(names).take(pa.array(which))
        commit, clock = clocks_of(causes, times, self.shape)
        at_ms = commits[commit]
        more = {
            PHASE: pa.array(np.full(len(which), RECORDS, np.int32)),
            DUE: pa.nulls(len(which), pa.int64()),
            GROUP_HASH: causes[HASH],
            CLOCK: pa.array(clock, mask=clock == LOWEST),
            NUMBER: pa.array(number),
            RELEASED_AT: moments(at_ms),
            TIMESTAMP: causes[EVENT],
            SEQUENCE: pa.array(at_ms),
        }
        place = {name: causes[name].cast(of) for name, of in POSITION_TYPES.items() if name in names}
        return pa.table(
            {name: forwarded[name] for name in forwarded.column_names if name != RECORD} | place | more
        )

    def _changes(self, store: StoreShape, runner: BatchRunner, own: pa.Table) -> pa.Table:
        """The rows that a store's table gains. In: a row of each group."""
        changed = runner.context.store(store.name)
        rows = changed.newest([changed.schema.empty_table(), *changed.changed])
        of_group = own.take(pa.array(int64(rows[GROUP])))
        columns = {KEY: of_group[KEY], HASH: of_group[HASH], DELETED: rows[DELETED]}
        for field, name in zip(self.shape.group, self.shape.by, strict=True):
            columns[named("by", field).name] = pa.chunked_array(
                [canonical(chunk) for chunk in of_group[name].chunks], field.type
            )
        names = [field.name for field in (*store.key, *store.value)]
        columns |= dict(zip(entry_columns(store), (rows[name] for name in names), strict=True))
        schema = self.state[store_table(store.name)].schema
        return pa.table([columns[name] for name in schema.names], schema=schema)

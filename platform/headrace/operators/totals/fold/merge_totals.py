"""Partials of groups: what the records of a micro-batch add, and how such partials merge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.fold.aggregates import Aggregates
from headrace.fold.aggregates.kind import add_by, highest_by, row_with, whole
from headrace.fold.contract import BATCH, EVENT, HASH, INGESTED, KEY, ROW_COLUMNS
from headrace.fold.keys import Groups, group, group_columns, groups_of
from headrace.fold.positions import POSITION, order_of, position_columns
from headrace.fold.values.columns import int64

RECORDS = "__records"  # of a partial: the number of its records


@dataclass(frozen=True)
class MergeTotals:
    """Partials of groups. It is the merge of the state: called with rows of it, it gives one row per group.

    by          the group columns, with their types
    aggregates  of the node
    """

    by: pa.Schema
    aggregates: Aggregates

    @property
    def schema(self) -> pa.Schema:
        """Columns of a partial: group, KEY, HASH, aggregates, RECORDS, highest event time, position of the last record."""
        return pa.schema(
            [
                *self.by,
                (KEY, pa.binary()),
                (HASH, pa.int64()),
                *self.aggregates.fields,
                (RECORDS, pa.int64()),
                (EVENT, pa.int64()),
                *(ROW_COLUMNS.field(name) for name in POSITION),
            ]
        )

    def of_rows(self, kept: pa.Table, *, per_commit: bool = False) -> pa.Table:
        """The partials of some records.

        In:  kept        records with KEY and HASH
             per_commit  whether each log commit of a group has a partial of its own
        Out: as `schema`; one row per group, or per group and log commit
        """
        if not kept.num_rows:
            return self.schema.empty_table()
        groups = groups_of(kept, int64(kept[INGESTED])) if per_commit else group(kept[KEY])
        columns = group_columns(kept, self.by.names, groups.first)
        columns |= self.aggregates.partials(kept, groups.codes, len(groups))
        columns[RECORDS] = pa.array(np.bincount(groups.codes, minlength=len(groups)).astype(np.int64))
        return self._placed(kept, groups, columns)

    def merged(self, partials: pa.Table) -> pa.Table:
        """Merge partials. Out: one row per group."""
        return self._merged(partials, group(partials[KEY])) if partials.num_rows else partials

    def __call__(self, rows: pa.Table) -> pa.Table:
        """Merge rows of the state: partials with BATCH, of which the highest stays. Out: one row per group."""
        if not rows.num_rows:
            return rows
        groups = group(rows[KEY])
        batch = highest_by(groups.codes, len(groups), int64(rows[BATCH]))
        return self._merged(rows, groups).append_column(BATCH, pa.array(batch, pa.int64()).cast(pa.int32()))

    def _merged(self, partials: pa.Table, groups: Groups) -> pa.Table:
        first = pa.array(groups.first)
        columns = {name: whole(partials[name]).take(first) for name in self.by.names}
        columns |= self.aggregates.merge(partials, groups.codes, len(groups))
        columns[RECORDS] = pa.array(add_by(groups.codes, len(groups), int64(partials[RECORDS])))
        return self._placed(partials, groups, columns)

    def _placed(self, rows: pa.Table, groups: Groups, columns: dict[str, pa.Array]) -> pa.Table:
        """Partials, made of their other columns, with key, highest event time and position of the last record."""
        columns |= {name: whole(rows[name]).take(pa.array(groups.first)) for name in (KEY, HASH)}
        columns[EVENT] = pa.array(highest_by(groups.codes, len(groups), int64(rows[EVENT])))
        order = order_of(position_columns(rows))
        highest = highest_by(groups.codes, len(groups), order)
        last = row_with(highest, groups.codes, order, np.arange(len(order)))
        columns |= {name: whole(rows[name]).take(last) for name in POSITION}
        return pa.table([columns[name] for name in self.schema.names], schema=self.schema)

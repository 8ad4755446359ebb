"""Partials of groups: what the records of a micro-batch add, and how such partials are merged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.fold.aggregates import Aggregates
from headrace.fold.aggregates.kind import add_by, highest_by, row_with, whole
from headrace.fold.contract import BATCH, EVENT, HASH, INGESTED, KEY, ROW_COLUMNS
from headrace.fold.keys import group, group_columns, groups_of
from headrace.fold.positions import POSITION, order_of, position_columns
from headrace.fold.values.columns import int64

RECORDS = "__records"


@dataclass(frozen=True)
class MergeTotals:
    """Partials of groups, which add up.

    by          the group columns, with their types
    aggregates  of the node
    """

    by: pa.Schema
    aggregates: Aggregates

    @property
    def schema(self) -> pa.Schema:
        """One row per group: its partials, how many records, the highest event time, the place of the last record."""
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
        """The totals of some records alone.

        In:  kept        rows with KEY and HASH
        Out: one row per group; per group and log commit if `per_commit`
        """
        if not kept.num_rows:
            return self.schema.empty_table()
        groups = groups_of(kept, int64(kept[INGESTED])) if per_commit else group(kept[KEY])
        columns = group_columns(kept, self.by.names, groups.first)
        columns |= self.aggregates.partials(kept, groups.codes, len(groups))
        columns[RECORDS] = pa.array(np.bincount(groups.codes, minlength=len(groups)).astype(np.int64))
        return self._placed(kept, groups.codes, groups.first, columns)

    def __call__(self, rows: pa.Table) -> pa.Table:
        """Merge rows of the state, with BATCH."""
        if not rows.num_rows:
            return rows
        groups = group(rows[KEY])
        first = pa.array(groups.first)
        columns = {name: whole(rows[name]).take(first) for name in self.by.names}
        columns |= self.aggregates.merge(rows, groups.codes, len(groups))
        columns[RECORDS] = pa.array(add_by(groups.codes, len(groups), int64(rows[RECORDS])))
        merged = self._placed(rows, groups.codes, groups.first, columns)
        batch = highest_by(groups.codes, len(groups), int64(rows[BATCH]))
        return merged.append_column(BATCH, pa.array(batch, pa.int64()).cast(pa.int32()))

    def _placed(
        self, rows: pa.Table, codes: np.ndarray, first: np.ndarray, columns: dict[str, pa.Array]
    ) -> pa.Table:
        """Add key, highest event time and last place to the columns of groups."""
        columns |= {name: whole(rows[name]).take(pa.array(first)) for name in (KEY, HASH)}
        columns[EVENT] = pa.array(highest_by(codes, len(first), int64(rows[EVENT])))
        order = order_of(position_columns(rows))
        last = row_with(highest_by(codes, len(first), order), codes, order, np.arange(len(order)))
        columns |= {name: whole(rows[name]).take(last) for name in POSITION}
        return pa.table([columns[name] for name in self.schema.names], schema=self.schema)

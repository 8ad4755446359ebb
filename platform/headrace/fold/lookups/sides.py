"""Records of the stream and records of the table in one table of rows, so that both can be brought together by key.

A row of the log that both the stream and the table read is there twice, once for each side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description import Lookup
from headrace.description.lookup import EVENT as AS_OF_EVENT
from headrace.description.table import TIMESTAMP
from headrace.fold.contract import CAUSE, DELETED, EVENT, FATE, ROW_COLUMNS, STREAM
from headrace.fold.fates import FILTERED, KEPT, LATE, is_kept, with_column
from headrace.fold.tables.decide_records import decide_records
from headrace.fold.values.columns import table_of

SIDE, ABSENT = "__side", "__absent"
RECORD, VERSION = 0, 1


@dataclass(frozen=True)
class Sides:
    """The two sides of a lookup.

    on           columns of the stream that hold the key; `key`: columns of the table, in the same order
    record       the stream's columns
    values       the table's columns that are not in its key
    rows         columns of the rows that `decide` gives: SIDE, `keys`, `record`, `values`, ABSENT and ROW_COLUMNS, and CAUSE
                 if records have it; a version that is ABSENT deletes its key
    is_prior     whether the table stands for a stream (see `Prior`)
    by_timestamp  whether event times order the versions of a key
    """

    on: tuple[str, ...]
    key: tuple[str, ...]
    record: tuple[str, ...]
    values: tuple[str, ...]
    rows: pa.Schema
    history_ms: int | None
    is_prior: bool = False
    by_timestamp: bool = False

    @classmethod
    def of(cls, node: Lookup, records: pa.Schema, versions: pa.Schema) -> Sides:
        """The sides of a node. In: the schemas of the stream's and of the table's rows."""
        assert node.stream.columns is not None
        table = node.right
        fields = [pa.field(SIDE, pa.int8())]
        fields += [
            records.field(name).with_name(key) for name, key in zip(node.on, names(node.on), strict=True)
        ]
        fields += [records.field(name) for name in node.stream.columns]
        fields += [versions.field(name) for name in table.values]
        fields += [pa.field(ABSENT, pa.bool_()), *ROW_COLUMNS]
        ordered = (records, versions) if node.as_of == AS_OF_EVENT else (records,)
        caused = [side.field(CAUSE) for side in ordered if CAUSE in side.names]
        fields += caused[:1]
        schema = pa.schema([field.with_nullable(True) for field in fields])
        is_prior = node.prior is not None
        by_timestamp = node.as_of == AS_OF_EVENT or table.order_by == TIMESTAMP
        own = (node.on, table.key, node.stream.columns, table.values)
        return cls(*own, schema, node.history_ms, is_prior, by_timestamp)

    @property
    def keys(self) -> tuple[str, ...]:
        """The key, of either side."""
        return names(self.on)

    def decide(self, records: pa.Table, versions: pa.Table) -> pa.Table:
        """Both sides in one table, with FATE and REASON completed.

        In:  records   rows of the stream's topics after its steps
             versions  rows of the table's topics after its steps; PASSES if the table has conditions
        Law: row by row; no row is dropped.
        """
        records = self._decide_records(records)
        versions = (
            _decide_partners(versions, self.key)
            if self.is_prior
            else decide_records(versions, self.key, by_timestamp=self.by_timestamp)
        )
        asked = {name: records[name] for name in (*self.record, *ROW_COLUMNS.names)}
        asked |= {CAUSE: records[CAUSE]} if CAUSE in records.column_names else {}
        asked |= {key: records[name] for name, key in zip(self.on, self.keys, strict=True)}
        told = {name: versions[name] for name in (*self.values, *ROW_COLUMNS.names)}
        told |= {key: versions[name] for name, key in zip(self.key, self.keys, strict=True)}
        told[ABSENT] = versions[DELETED]
        told |= {CAUSE: versions[CAUSE]} if CAUSE in versions.column_names else {}
        both = ((RECORD, asked, records.num_rows), (VERSION, told, versions.num_rows))
        return pa.concat_tables([self._table(*side) for side in both])

    def _decide_records(self, records: pa.Table) -> pa.Table:
        undecided = records[FATE].is_null()
        fates = pc.if_else(undecided, KEPT, records[FATE])
        if self.history_ms is not None:
            behind = pc.less(pc.add(records[EVENT], self.history_ms), records[STREAM])
            late = pc.and_(undecided, pc.fill_null(behind, False))
            fates = pc.if_else(late, LATE, fates)
        return with_column(records, FATE, fates)

    def _table(self, side: int, columns: dict[str, pa.ChunkedArray], rows: int) -> pa.Table:
        return rows_of_side(self.rows, side, columns, rows)


def rows_of_side(schema: pa.Schema, side: int, columns: Mapping[str, pa.ChunkedArray], rows: int) -> pa.Table:
    """Rows of one side in the columns of all: SIDE says which one, and the columns of the others are null."""
    return table_of(schema, {**columns, SIDE: pa.array(np.full(rows, side, np.int8))}, rows)


def _decide_partners(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Records of a stream that others may find: all but those without a key, and none deletes anything."""
    undecided = rows[FATE].is_null()
    has_key = reduce(pc.and_, (rows[name].is_valid() for name in key))
    fates = pc.if_else(undecided, pc.if_else(has_key, KEPT, FILTERED), rows[FATE])
    return with_column(with_column(rows, FATE, fates), DELETED, pa.array(np.zeros(rows.num_rows, bool)))


def causes_of(rows: pa.Schema) -> list[str]:
    """CAUSE, if rows have it."""
    return [CAUSE] if CAUSE in rows.names else []


def names(on: Sequence[str]) -> tuple[str, ...]:
    """The names of the key's columns while both sides are in one table."""
    return tuple(f"__on_{number}" for number in range(len(on)))


def kept_of(rows: pa.Table, side: int, columns: Sequence[str]) -> pa.Table:
    """Some columns of the rows of one side that are kept."""
    which = is_kept(rows) & (rows[SIDE].to_numpy() == side)
    return rows.select(list(columns)).filter(pa.array(which))

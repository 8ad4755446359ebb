"""How the state tables of a node lie in one Delta table.

Law: one commit changes all state tables of a node together, so no reader sees one of them a micro-batch ahead of another.
Each state table has a STRUCT column of its own name; a row fills one of them. Statistics of TABLE, HASH, TIME and BATCH
tell readers which files to leave out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.errors import TerminalError
from headrace.fold.contract import BATCH, HASH, StateTable, Step

TABLE, TIME = "__table", "__time"  # whose row it is; the value of the table's time column
NO_TIME = np.iinfo(np.int64).min  # as TIME: the time column is null
SHARED = pa.schema([(TABLE, pa.string()), (HASH, pa.int64()), (TIME, pa.int64()), (BATCH, pa.int32())])


@dataclass(frozen=True)
class StateLayout:
    """The state tables of a node by name. It goes to tasks."""

    tables: Mapping[str, StateTable]

    @classmethod
    def of(cls, steps: Sequence[Step]) -> StateLayout:
        """The state tables of some steps.

        Raises: TerminalError if two steps have a table of the same name
        """
        tables: dict[str, StateTable] = {}
        for step in steps:
            for name, table in step.state.items():
                if name in tables:
                    raise TerminalError(f"State table '{name}' belongs to two steps of one operator.")
                tables[name] = table
        return cls(tables)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the Delta table; all of them may be null."""
        return pa.schema([*SHARED, *(pa.field(name, self._struct(name)) for name in self.tables)])

    def file_schema(self, name: str) -> pa.Schema:
        """The columns of a file: it holds rows of one state table, and no column of another one."""
        return pa.schema([*SHARED, pa.field(name, self._struct(name))])

    def packed(self, name: str, rows: pa.Table) -> pa.Table:
        """Rows of a state table, with BATCH, as its files hold them."""
        count, table = rows.num_rows, self.tables[name]
        time = None if table.time_column is None else rows[table.time_column].cast(pa.int64())
        own = self._struct(name)
        columns = [_whole(rows[field.name].cast(field.type), field.type) for field in own]
        values = [
            pa.array([name], pa.string()).take(pa.array(np.zeros(count, np.int64))),
            rows[HASH],
            pa.nulls(count, pa.int64()) if time is None else time.fill_null(NO_TIME),
            rows[BATCH].cast(pa.int32()),
            pa.StructArray.from_arrays(columns, fields=list(own)),
        ]
        return pa.Table.from_arrays(values, schema=self.file_schema(name))

    def unpacked(self, name: str, rows: pa.Table) -> pa.Table:
        """The inverse of `packed`."""
        table = self.tables[name]
        own = self._struct(name)
        parts = _whole(rows[name], rows.schema.field(name).type).flatten()
        found = {field.name: part.cast(field.type) for field, part in zip(own, parts, strict=True)}
        found[HASH] = rows[HASH]
        if table.time_column is not None:
            times = _whole(rows[TIME], pa.int64())
            missing = times.to_numpy() == NO_TIME
            times = pa.array(times.to_numpy(), mask=missing) if missing.any() else times
            found[table.time_column] = times.cast(table.schema.field(table.time_column).type)
        columns = [*(found[field.name] for field in table.schema), rows[BATCH]]
        return pa.Table.from_arrays(columns, schema=table.empty().schema)

    def _struct(self, name: str) -> pa.DataType:
        """The columns that are not shared."""
        table = self.tables[name]
        shared = (HASH, table.time_column)
        return pa.struct([field.with_nullable(True) for field in table.schema if field.name not in shared])


def _whole(values: pa.ChunkedArray, of: pa.DataType) -> pa.Array:
    if values.num_chunks == 1:
        return values.chunk(0)  # to combine one chunk copies it
    found = values.combine_chunks()
    if isinstance(found, pa.ChunkedArray):
        return pa.concat_arrays(found.chunks) if found.num_chunks else pa.nulls(0, of)
    return found

"""Global tables: their rows beside the records of a processor, and how they are kept.

Each version of a table's row travels in the rows of the first step, under columns of its table. The state holds each table
once, by the hash of its keys. The step that keeps it gives the whole of it to every bucket of the step that calls the
processor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from headrace.description import GlobalTable, Processed
from headrace.description.feeds import RESULT, table_feed
from headrace.description.table import TIMESTAMP
from headrace.errors import DescriptionError
from headrace.fold.contract import CAUSE, DELETED, EVENT, HASH, KEY, ROW_COLUMNS
from headrace.fold.fates import decide_inputs
from headrace.fold.keys import key_of_row
from headrace.fold.lookups.sides import ABSENT, RECORD, SIDE, rows_of_side
from headrace.fold.positions import POSITION
from headrace.fold.tables.decide_records import decide_records

OWN = (
    "__own"  # the bytes of a row's key: of a record those of its group, of a version those of the table's key
)


@dataclass(frozen=True)
class TableShape:
    """One global table.

    side          its number among the rows, from 1
    key, value    the columns of its key and of its rows' other columns
    by_timestamp  whether the version with the highest event time counts; else the one furthest on in the log
    """

    name: str
    side: int
    key: tuple[pa.Field, ...]
    value: tuple[pa.Field, ...]
    by_timestamp: bool

    @classmethod
    def of(cls, table: GlobalTable, side: int, inputs: pa.Schema) -> TableShape:
        """The shape of a table. In: inputs  the schema of its feed.

        Raises: DescriptionError when the key has no plain order, which SQL alone may tell
        """
        of = table.table
        key, value = (
            tuple(inputs.field(name).with_nullable(True) for name in names) for names in (of.key, of.values)
        )
        for field in key:
            if pa.types.is_floating(field.type) or pa.types.is_nested(field.type):
                raise DescriptionError(
                    f"global table '{table.name}': key column '{field.name}' is {field.type}, which has no plain order.",
                    hint="Let the key be a text, a whole number, a decimal, a date or a time.",
                )
        return cls(table.name, side, key, value, of.order_by == TIMESTAMP)

    @property
    def feed(self) -> str:
        """The name of its feed."""
        return table_feed(self.name)

    @property
    def state(self) -> str:
        """The name of its state table."""
        return f"global_{self.name}"

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        """All its columns."""
        return (*self.key, *self.value)

    @property
    def versions(self) -> pa.Schema:
        """The columns of its versions, for themselves: ABSENT ones delete their key, and have no values."""
        own = [*self.fields, *(ROW_COLUMNS.field(name) for name in (EVENT, *POSITION))]
        return pa.schema([*own, pa.field(ABSENT, pa.bool_())])

    @property
    def kept(self) -> pa.Schema:
        """The columns of its state table."""
        keys = [pa.field(KEY, pa.binary()), pa.field(HASH, pa.int64())]
        return pa.schema([*keys, *[*self.versions][:-1], pa.field(DELETED, pa.bool_())])

    def among(self, name: str) -> str:
        """The name of one of its columns among the rows; those of all rows keep theirs."""
        return name if name in (EVENT, *POSITION, ABSENT) else f"__{self.side}:{name}"

    def read(self, rows: pa.Table) -> pa.Table:
        """Its versions. In: rows of its side."""
        columns = [rows[self.among(name)] for name in self.versions.names]
        return pa.Table.from_arrays(columns, schema=self.versions)


@dataclass(frozen=True)
class Packing:
    """How records and versions make one table of rows.

    by         columns of the rows that make a group
    after_commit       topics whose versions stand after all records of their log commit
    is_shared  whether two of them read the same topic
    rows       columns: SIDE, OWN, those of the stream, those of each table, ABSENT and ROW_COLUMNS; CAUSE if records
               have it
    """

    tables: tuple[TableShape, ...]
    by: tuple[str, ...]
    after_commit: tuple[str, ...]
    is_shared: bool
    rows: pa.Schema

    @classmethod
    def of(cls, node: Processed, by: tuple[str, ...], inputs: Mapping[str, pa.Schema]) -> Packing | None:
        """The packing of a node; None: it reads no tables. In: inputs  the schema of each feed."""
        if not node.tables:
            return None
        tables = tuple(
            TableShape.of(each, side, inputs[table_feed(each.name)])
            for side, each in enumerate(node.tables, RECORD + 1)
        )
        fields = [pa.field(SIDE, pa.int8()), pa.field(OWN, pa.binary())]
        fields += [inputs[RESULT].field(name) for name in node.stream.columns or ()]
        fields += [field.with_name(each.among(field.name)) for each in tables for field in each.fields]
        fields += [pa.field(ABSENT, pa.bool_()), *ROW_COLUMNS]
        fields += [inputs[RESULT].field(CAUSE)] if CAUSE in inputs[RESULT].names else []
        schema = pa.schema([field.with_nullable(True) for field in fields])
        told = tuple(dict.fromkeys(topic for each in node.tables for topic in each.revised_at_commit_end))
        return cls(tables, by, told, node.shares_topics, schema)

    def packed(self, feeds: Mapping[str, pa.Table]) -> pa.Table:
        """All rows in one table, with FATE and REASON completed. Row by row; no row is dropped."""
        records = decide_inputs(feeds[RESULT])
        found = [self._side(RECORD, records, records.column_names, self.by)]
        for each in self.tables:
            key = [field.name for field in each.key]
            versions = decide_records(feeds[each.feed], key, by_timestamp=each.by_timestamp)
            versions = versions.rename_columns(
                [ABSENT if name == DELETED else name for name in versions.column_names]
            )
            names = {
                name: each.among(name) if name in [f.name for f in each.fields] else name
                for name in versions.column_names
            }
            found.append(self._side(each.side, versions, names.values(), key))
        return pa.concat_tables(found)

    def versions(self, of: TableShape, versions: pa.Table) -> pa.Table:
        """Versions of a table as rows. In: as `TableShape.versions`."""
        names = [of.among(name) for name in versions.column_names]
        return self.table(of.side, dict(zip(names, versions.columns, strict=True)), versions.num_rows)

    def table(self, side: int, columns: Mapping[str, pa.ChunkedArray], rows: int) -> pa.Table:
        """Rows of one side, with nulls where a column is missing."""
        return rows_of_side(self.rows, side, columns, rows)

    def _side(self, side: int, rows: pa.Table, names: Iterable[str], key: Iterable[str]) -> pa.Table:
        """In: names  of the columns among the rows; key: the columns of OWN."""
        own = key_of_row(rows, [*key])[0]
        columns = dict(zip(names, rows.columns, strict=True)) | {OWN: own}
        return self.table(side, columns, rows.num_rows)

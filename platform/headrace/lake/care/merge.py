"""Put changed rows into a table by their identity, in one commit, with an exact change feed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.lake import small_files
from headrace.lake.commits.commit_file import no_hooks, properties

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.table import TableMerger

    from headrace.lake.commits.writer import TableWriter
    from headrace.lake.files.data_file import NewFile

DELETED, INSERT = "__deleted", "__insert"
FOLDER = "_changes"  # below the table; Delta leaves alone what begins with an underscore
GROUP_ROWS = 16_384  # of a group of rows in a file: the least that a reader of one row decodes


def upsert(
    writer: TableWriter, changes: Changes | FewChanges, identity: Sequence[str], record: Mapping[str, Any]
) -> int:
    """Update, insert or delete rows.

    In:  changes  the table's columns and DELETED; one row for each identity
         record   of the commit; it is written although nothing changes
    Out: the version that holds the commit
    """
    columns = [name for name in changes.schema.names if name != DELETED]
    values = {quoted(name): f"change.{quoted(name)}" for name in columns}

    def merge(whole: Mapping[str, Any], table: DeltaTable) -> None:
        merger = _merger(table, changes, _same(identity), whole)
        merger = merger.when_matched_delete(predicate=f"change.{quoted(DELETED)}")
        merger = merger.when_matched_update(updates=values)
        merger.when_not_matched_insert(predicate=f"NOT change.{quoted(DELETED)}", updates=values).execute()

    return _always(writer, merge, record)


def exchange(
    writer: TableWriter, changes: Changes, identity: Sequence[str], record: Mapping[str, Any]
) -> int:
    """Delete every copy of some identities, and insert rows in their place.

    In:  changes  the table's columns and INSERT: true for a row that comes, false for an identity that goes
    Out: the version that holds the commit
    """
    columns = [name for name in changes.schema.names if name != INSERT]
    values = {quoted(name): f"change.{quoted(name)}" for name in columns}
    gone = f"NOT change.{quoted(INSERT)} AND {_same(identity)}"

    def merge(whole: Mapping[str, Any], table: DeltaTable) -> None:
        merger = _merger(table, changes, gone, whole).when_matched_delete()
        merger.when_not_matched_insert(predicate=f"change.{quoted(INSERT)}", updates=values).execute()

    return _always(writer, merge, record)


class Changes:
    """Rows that lie in files of a folder of their own, read one group of rows at a time, as often as they are asked for."""

    def __init__(self, folder: str, files: Sequence[NewFile], schema: pa.Schema) -> None:
        """In: folder  URI where the files lie; it is deleted by `remove`."""
        self.schema = schema
        self._folder, self._files = folder, files

    def reader(self) -> pa.RecordBatchReader:
        """The rows."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def remove(self) -> None:
        """Delete the files."""
        small_files.delete(self._folder)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for file in self._files:
            content = small_files.read_bytes(f"{self._folder}/{file.path}")
            for batch in pq.ParquetFile(BytesIO(content or b"")).iter_batches():
                yield from (
                    pa.Table.from_batches([batch]).select(self.schema.names).cast(self.schema).to_batches()
                )


class FewChanges:
    """Changed rows that this process has in memory."""

    def __init__(self, rows: pa.Table) -> None:
        """In: rows  as `Changes` has them."""
        self.schema, self._rows = rows.schema, rows

    def reader(self) -> pa.RecordBatchReader:
        """The rows."""
        return self._rows.to_reader()


def _merger(
    table: DeltaTable, changes: Changes | FewChanges, predicate: str, record: Mapping[str, Any]
) -> TableMerger:
    from deltalake import WriterProperties

    return table.merge(
        changes.reader(),
        predicate=predicate,
        source_alias="change",
        target_alias="row",
        commit_properties=properties(record),
        post_commithook_properties=no_hooks(),
        writer_properties=WriterProperties(max_row_group_size=GROUP_ROWS),
    )


def _always(
    writer: TableWriter, merge: Callable[[Mapping[str, Any], Any], None], record: Mapping[str, Any]
) -> int:
    version = writer.commit_by(merge, record)
    return writer.append([], record) if version is None else version


def _same(identity: Sequence[str]) -> str:
    """Null is the same as null."""
    pairs = (f"(row.{quoted(name)} IS NOT DISTINCT FROM change.{quoted(name)})" for name in identity)
    return " AND ".join(pairs)


def quoted(name: str) -> str:
    """A column's name as DataFusion's SQL takes it."""
    return '"' + name.replace('"', '""') + '"'

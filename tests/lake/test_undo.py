"""What other clients did to the rows of a table is undone by one commit, as long as the files are there."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headrace.lake import (
    APPENDER,
    ForeignCommitError,
    LakeTable,
    NewFile,
    TableWriter,
    create,
    forget,
    kinds,
    last_commit,
    open_table,
    small_files,
)
from headrace.lake.commits.undo import FilesGoneError, undo_foreign
from headrace.lake.files.data_file import DataFileWriter, Encoding
from headrace.lake.storage import delta_uri

pytestmark = pytest.mark.fast
SCHEMA = pa.schema([("n", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
RECORD = {"writer": "repair/node"}


def append(writer: TableWriter, number: int) -> None:
    """One row, and the record that says so."""
    file = DataFileWriter(writer.uri, SCHEMA, Encoding())
    columns = {
        "n": pa.array([number], pa.int64()),
        "at": pa.array([number * 1_000_000], SCHEMA.field("at").type),
    }
    file.write(columns, 1)
    file.bound_numbers(columns)
    written = file.close()
    assert written is not None
    writer.append([NewFile(**written)], {"writer": "node", "batch": number})


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    """Three commits of a row each."""
    made = create(f"file:{tmp_path}/table", SCHEMA, kinds.RESULTS)
    writer = TableWriter(made, APPENDER)
    for number in range(3):
        append(writer, number)
    return made


def theirs(table: LakeTable) -> DeltaTable:
    return DeltaTable(delta_uri(table.uri))


def rows(table: LakeTable) -> list[int]:
    return sorted(theirs(table).to_pyarrow_table()["n"].to_pylist())


def refused(table: LakeTable) -> None:
    forget()
    with pytest.raises(ForeignCommitError, match="headrace repair"):
        TableWriter(open_table(table.uri), APPENDER, carries=["node"])


def goes_on(table: LakeTable) -> None:
    """A new writer opens the table, finds its progress, and appends."""
    forget()
    writer = TableWriter(open_table(table.uri), APPENDER, carries=["node"])
    known = last_commit(open_table(table.uri), "node")
    assert known is not None
    assert known.record["batch"] == 2
    append(writer, 3)
    assert rows(table) == [0, 1, 2, 3]


def test_a_restore_is_undone_with_the_files_and_the_bounds_of_before(table: LakeTable) -> None:
    before = table.snapshot().files
    theirs(table).restore(2)
    assert rows(table) == [0]
    refused(table)
    assert undo_foreign(open_table(table.uri), RECORD, ["node"]) == [f"RESTORE (version {table.version - 2})"]
    assert open_table(table.uri).snapshot().files == before
    assert undo_foreign(open_table(table.uri), RECORD, ["node"]) == []
    goes_on(table)


def test_rows_that_were_deleted_updated_and_added_are_undone_together(table: LakeTable) -> None:
    theirs(table).delete("n = 1")
    theirs(table).update({"n": "n + 10"}, predicate="n = 2")
    forget()
    theirs(table).optimize.compact()
    assert rows(table) == [0, 12]
    refused(table)
    assert len(undo_foreign(open_table(table.uri), RECORD, ["node"])) == 2
    assert rows(table) == [0, 1, 2]
    goes_on(table)


def test_nothing_is_done_where_files_are_deleted(table: LakeTable) -> None:
    theirs(table).restore(2)
    forget()
    version = open_table(table.uri).version
    left = {uri.rpartition("/")[2] for uri in theirs(table).file_uris()}
    for name in small_files.names(table.uri):
        if name.endswith(".parquet") and name not in left:
            small_files.delete(f"{table.uri}/{name}")
    with pytest.raises(FilesGoneError, match="2 of the files that somebody took out of it are deleted"):
        undo_foreign(open_table(table.uri), RECORD, ["node"])
    assert open_table(table.uri).version == version


def test_what_was_restored_forward_and_what_changed_no_row_is_left_alone(table: LakeTable) -> None:
    newest = table.version
    theirs(table).restore(2)
    theirs(table).restore(newest)
    theirs(table).optimize.compact()
    version = theirs(table).version()
    forget()
    assert undo_foreign(open_table(table.uri), RECORD, ["node"]) == []
    assert theirs(table).version() == version
    goes_on(table)

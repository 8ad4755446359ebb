"""Rows that somebody else has changed: every writer refuses the table, until a backfill or its like has put them right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headrace import lake as lakes
from headrace.lake import DataFileWriter, Encoding, LakeTable, NewFile
from headrace.lake.storage import delta_uri

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.fast
SCHEMA = pa.schema([("n", pa.int64())])


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    return lakes.create(f"file:{tmp_path}/table", SCHEMA)


def file_of(table: LakeTable, *numbers: int) -> NewFile:
    file = DataFileWriter(table.uri, SCHEMA, Encoding())
    file.write({"n": pa.array(numbers, pa.int64())}, len(numbers))
    made = file.close()
    assert made is not None
    return NewFile(**made)


def numbers(table: LakeTable) -> list[int]:
    rows = DeltaTable(delta_uri(table.uri)).to_pyarrow_table()
    return sorted(rows["n"].to_pylist())


def damage(table: LakeTable) -> None:
    """Somebody deletes a row by a client of their own."""
    from deltalake import DeltaTable

    DeltaTable(table.uri.replace("file:", "file://")).delete("n = 2")


def test_a_writer_that_runs_and_one_that_begins_both_refuse(table: LakeTable) -> None:
    running = lakes.TableWriter(table, lakes.APPENDER)
    running.append([file_of(table, 1, 2)], {"writer": "w"})
    damage(table)
    for attempt in (
        lambda: running.append([file_of(table, 3)], {"writer": "w"}),
        lambda: lakes.TableWriter(table, lakes.APPENDER),
        lambda: lakes.TableWriter(table, lakes.MAINTAINER),
    ):
        with pytest.raises(lakes.ForeignCommitError, match="Headrace did not write it"):
            attempt()
    assert numbers(table) == [1], "nothing was added"


def test_after_it_is_mended_both_go_on(table: LakeTable) -> None:
    running = lakes.TableWriter(table, lakes.APPENDER)
    running.append([file_of(table, 1, 2)], {"writer": "w"})
    damage(table)
    mender = lakes.TableWriter(table, lakes.MAINTAINER, mends=True)
    with pytest.raises(lakes.ForeignCommitError):
        lakes.TableWriter(
            table, lakes.APPENDER
        )  # the mender has only begun, and may end before it has mended
    mender.replace(table.snapshot().files, [file_of(table, 1, 2)], {"writer": "backfill"}, changes_data=True)
    running.append([file_of(table, 3)], {"writer": "w"})
    lakes.TableWriter(table, lakes.APPENDER).append([file_of(table, 4)], {"writer": "w"})
    assert numbers(table) == [1, 2, 3, 4]
    damage(table)
    with pytest.raises(lakes.ForeignCommitError):
        lakes.TableWriter(table, lakes.APPENDER)


def test_what_changes_no_row_is_passed(table: LakeTable) -> None:
    from deltalake import DeltaTable

    running = lakes.TableWriter(table, lakes.APPENDER)
    for number in range(3):
        running.append([file_of(table, number)], {"writer": "w"})
    DeltaTable(table.uri.replace("file:", "file://")).optimize.compact()
    running.append([file_of(table, 3)], {"writer": "w"})
    assert numbers(table) == [0, 1, 2, 3]
    assert len(table.snapshot().files) == 2

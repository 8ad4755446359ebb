"""Statistics of files: what another engine leaves out by them must not be there."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from headrace import lake as lakes
from headrace.lake import DataFileWriter, Encoding, NewFile
from headrace.lake.care.swap import replace_table

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.lake import LakeTable

pytestmark = pytest.mark.fast
SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("plain", pa.timestamp("us")), ("text", pa.string())])
LOOKS_LIKE_A_TIME = "2024-01-01 05:00:00"


def moment(us: int) -> dt.datetime:
    return dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=us)


def file_of(table: LakeTable, *chunks: list[dt.datetime]) -> NewFile:
    file = DataFileWriter(table.uri, SCHEMA, Encoding())
    for times in chunks:
        columns = {
            "at": pa.array(times, SCHEMA.field("at").type),
            "plain": pa.array([time.replace(tzinfo=None) for time in times], SCHEMA.field("plain").type),
            "text": pa.array([LOOKS_LIKE_A_TIME] * len(times)),
        }
        file.write(columns, len(times))
        file.bound_numbers(columns)
        file.bound_by("text", LOOKS_LIKE_A_TIME, LOOKS_LIKE_A_TIME)
    made = file.close()
    assert made is not None
    return NewFile(**made)


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    return lakes.create(f"file:{tmp_path}/table", SCHEMA)


def test_bounds_of_times_over_several_chunks_are_those_of_the_numbers(table: LakeTable) -> None:
    stats = json.loads(file_of(table, [moment(123_000)], [moment(123_456)]).stats)
    assert stats["minValues"]["at"] == "2024-01-01T00:00:00.123Z"
    assert stats["maxValues"]["at"] == "2024-01-01T00:00:00.123456Z"
    assert stats["maxValues"]["plain"] == "2024-01-01T00:00:00.123456", "a type without a zone"


def test_times_that_have_no_text_have_no_bounds(table: LakeTable) -> None:
    file = DataFileWriter(table.uri, SCHEMA, Encoding())
    columns = {"at": pa.array([0, 2**62], pa.int64()).cast(SCHEMA.field("at").type)}
    file.write(columns, 2)
    file.bound_numbers(columns)
    made = file.close()
    assert made is not None
    assert "at" not in json.loads(made["stats"])["maxValues"]


@pytest.mark.parametrize("loaded", [False, True], ids=["kept up with", "loaded"])
def test_a_text_that_looks_like_a_time_stays_a_text_also_through_a_swap(
    table: LakeTable, tmp_path: Path, *, loaded: bool
) -> None:
    table.snapshot()
    lakes.TableWriter(table, lakes.APPENDER).append([file_of(table, [moment(1)])], {"writer": "w"})
    if loaded:
        lakes.forget()
        table = lakes.open_table(table.uri)
    (file,) = table.snapshot().files.values()
    assert file.highest["text"] == LOOKS_LIKE_A_TIME
    assert file.highest["at"] == 1_704_067_200_000_001
    other = lakes.create(f"file:{tmp_path}/other", SCHEMA)
    replace_table(lakes.TableWriter(other, lakes.APPENDER), table, {"writer": "swap"})
    (copied,) = other.snapshot().files.values()
    assert (copied.highest["text"], copied.highest["at"]) == (file.highest["text"], file.highest["at"])


def test_a_file_that_does_not_say_how_many_rows_it_has_is_never_dropped_whole(table: LakeTable) -> None:
    made = file_of(table, [moment(1)])
    lakes.TableWriter(table, lakes.APPENDER).append([NewFile(made.path, made.size, "{}")], {"writer": "w"})
    (file,) = table.snapshot().files.values()
    assert file.rows is None

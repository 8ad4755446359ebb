"""How far an increment goes, and the slices of a log that tasks read. Without Spark."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import headrace as hr
from headrace import lake as lakes
from headrace.engine.slices import log_slices
from headrace.engine.slices.increments import reach
from headrace.engine.slices.log_slices import LogSlice, Origin, first_commit_ms
from headrace.fold.values.columns import moments
from headrace.lake import NewFile, TableWriter, kinds
from headrace.lake.files.data_file import DataFileWriter, Encoding
from headrace.lake.paths import Lake
from headrace.sequence import log_rows
from headrace.sequence.formats import RecordFormat
from headrace.sequence.log_columns import SKIPPING

pytestmark = pytest.mark.fast

TOPIC = hr.Topic("texts", key="id STRING", value="id STRING, text STRING")
SCHEMA = log_rows.log_schema(RecordFormat.of(TOPIC))
OFFSETS = {"offset": Origin(("offset",), pa.int64()), "text": Origin(("value", "text"), pa.string())}
AT_MS = 1_000_000


class Log:
    """A log of which each commit has so many rows with one text each."""

    def __init__(self, root: Path) -> None:
        self.lake = Lake(f"file:{root}")
        table = lakes.create(self.lake.log("texts"), SCHEMA, kinds.log(SKIPPING))
        self.writer = TableWriter(table, lakes.APPENDER)
        self.offset = 0

    def commit(self, first_ms: int, commits: int, rows: int, text: str) -> None:
        """Add a file that holds whole commits, one each millisecond."""
        count = commits * rows
        offsets = np.arange(self.offset, self.offset + count)
        self.offset += count
        values = [pa.array([text] * count), pa.array([text] * count)]
        columns = {
            "ingested_at": moments(first_ms + np.arange(count) // rows),
            "kind": pa.array(["record"] * count),
            "topic": pa.array(["texts"] * count),
            "partition": pa.array(np.zeros(count, np.int32)),
            "offset": pa.array(offsets),
            "timestamp": moments(np.full(count, 5)),
            "stream_time": moments(np.full(count, 5)),
            "value": pa.StructArray.from_arrays(values, fields=list(SCHEMA.field("value").type)),
            "size_bytes": pa.array(np.full(count, len(text), np.int32)),
        }
        file = DataFileWriter(self.writer.uri, SCHEMA, Encoding(statistics=SKIPPING))
        for at in range(0, count, max(rows, 500)):  # a group of rows has whole commits
            part = {name: column.slice(at, max(rows, 500)) for name, column in columns.items()}
            file.write(part, len(part["offset"]))
            file.bound_numbers({name: part[name] for name in SKIPPING if name in part})
        self.writer.append([NewFile(**file.close() or {})], {"writer": "log/texts"})

    def slice(self, after_ms: int, through_ms: int) -> LogSlice:
        return LogSlice.of(self.lake.log("texts"), after_ms, through_ms)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def reached(log: Log, through_ms: int, **most: int) -> int:
    return reach(log.lake, {"texts": AT_MS - 1}, {"texts": through_ms}, **most) - AT_MS


def test_values_that_compress_well_are_counted_as_they_are_decoded(log: Log) -> None:
    for at in range(100):
        log.commit(AT_MS + at, commits=1, rows=4_000, text=f"{at} " * 300)  # 3 MB in a file of some KB
    assert log.slice(0, AT_MS + 99).bytes < 16 << 20
    assert reached(log, AT_MS + 99, decoded_max=1 << 40) == 99
    assert 70 < reached(log, AT_MS + 99) < 90


def test_a_commit_is_taken_whole_and_one_at_least(log: Log) -> None:
    rng = np.random.default_rng(1)
    for at in range(3):
        log.commit(AT_MS + at, commits=1, rows=60_000, text=rng.bytes(20).hex())
    assert reached(log, AT_MS + 2, bytes_max=1) == 0
    assert reached(log, AT_MS + 2) == 2


def test_a_slice_gives_the_rows_of_its_commits_however_files_are_packed(log: Log) -> None:
    log.commit(AT_MS, commits=50, rows=20, text="a")
    log.commit(AT_MS + 50, commits=50, rows=20, text="b")
    for after, through in ((-1, 99), (9, 30), (40, 59), (59, 60), (98, 99)):
        rows = log.slice(AT_MS + after, AT_MS + through).read(OFFSETS)
        assert sorted(rows["offset"].to_pylist()) == [*range((after + 1) * 20, (through + 1) * 20)]
        texts = {"a"} if through < 50 else {"b"} if after >= 49 else {"a", "b"}
        assert {*pc.unique(rows["text"]).to_pylist()} == texts
    assert log.slice(AT_MS + 99, AT_MS + 500).files == {}


def test_the_first_commit_after_another_is_told_by_the_bounds_of_files(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.commit(AT_MS, commits=50, rows=2, text="a")
    log.commit(AT_MS + 60, commits=5, rows=2, text="b")
    uri = log.lake.log("texts")
    assert [first_commit_ms(uri, AT_MS + after, AT_MS + 99) - AT_MS for after in (-1, 9, 48, 61)] == [
        0,
        10,
        49,
        62,
    ]
    monkeypatch.setattr(log_slices, "open_parquet", None)
    assert first_commit_ms(uri, AT_MS + 49, AT_MS + 99) == AT_MS + 60, "no file of it is read"
    assert first_commit_ms(uri, AT_MS + 64, AT_MS + 99) == AT_MS + 99, "there is none"


def test_a_column_that_a_file_lacks_is_null(log: Log) -> None:
    log.commit(AT_MS, commits=1, rows=2, text="a")
    wanted = {"new": Origin(("value", "new"), pa.int64()), "other": Origin(("other",), pa.string())}
    rows = log.slice(0, AT_MS).read(wanted)
    assert rows.to_pylist() == [{"new": None, "other": None}] * 2

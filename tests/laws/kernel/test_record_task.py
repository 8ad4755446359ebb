"""A log commit by tasks, each of which works chunk by chunk: rows, state and guard as when it is sequenced at once (L2, L13)."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.log import record_task
from headrace.log.record_task import RecordTask, merge_guards
from headrace.sequence.formats import RecordFormat
from headrace.sequence.log_state import LastRow, LogState
from headrace.sequence.readers import gunzip
from headrace.sequence.replays.guards import Guard, new_guard
from headrace.sequence.sequence_records import Sequencer
from headrace.spark import workers
from tests.laws.kernel.records import GUARDS, NOW_MS, PARTITIONS, Record, some_records, table_of

pytestmark = pytest.mark.fast

EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "6"))
ORDER = [("partition", "ascending"), ("offset", "ascending")]


@pytest.mark.parametrize("mode", GUARDS)
@given(random=st.integers(0, 2**32).map(Random), rows_max=st.sampled_from([1, 3, 1 << 16]))
@settings(max_examples=EXAMPLES, deadline=None)
def test_tasks_and_chunks_change_no_row(
    tmp_path_factory: pytest.TempPathFactory, mode: str, random: Random, rows_max: int
) -> None:
    topic = hr.Topic("screws", key="id STRING", value="n INT", replay_guard=GUARDS[mode])
    of, records = RecordFormat.of(topic), some_records(random)
    half = random.randrange(len(records))
    sequencer = Sequencer(of)
    first = sequencer.sequence(table_of(records[:half]), LogState(), new_guard(topic.replay_guard), NOW_MS)
    whole = sequencer.sequence(table_of(records), first.state, first.guard, NOW_MS + 9)  # half of them again
    folder = tmp_path_factory.mktemp("log")
    partitions = list(range(PARTITIONS))
    random.shuffle(partitions)
    parts = [partitions] if mode == "exact" else [partitions[:1], partitions[1:]]
    task = RecordTask(of, first.state, first.guard, NOW_MS + 9, sequencer.schema, f"file:{folder}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_task, "ROWS_MAX", rows_max)
        patch.setattr(workers, "settle", lambda: None)
        reports = [
            report_of(task, table_of([r for r in records if r.partition in part], apart=True))
            for part in parts
        ]
    rows = rows_in(folder, reports, sequencer.schema)
    assert rows.sort_by(ORDER).to_pylist() == whole.rows.to_pylist()
    ends = [LastRow(*end) for each in reports for end in each["ends"]]
    assert first.state.after(NOW_MS + 9, ends) == whole.state
    assert told(merge_guards(first.guard, [each["guard"] for each in reports])) == told(whole.guard)
    assert [sum(each[name] for each in reports) for name in ("records", "dead_letters", "replays")] == [
        whole.records,
        whole.dead_letters,
        whole.replays,
    ]
    for each in reports:
        assert each["file"] is None or json.loads(each["file"]["stats"])["numRecords"] == each["records"]


def test_compressed_values_are_read_in_pieces_that_are_bounded_without_compression(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = RecordFormat.of(hr.Topic("screws", value="n INT", format=hr.Json(gzip=True)))
    large = b'{"n": 1' + b" " * 2_000 + b"}"
    values = [
        b'{"n": 0}',
        gzip.compress(large),
        gzip.compress(large) + gzip.compress(b""),  # its end says that it is empty
        gzip.compress(large)[:-9],
        None,
        gzip.compress(large),
        b'{"n": 2}',
    ]
    records = [Record(0, at, value, NOW_MS, None, dead=False) for at, value in enumerate(values)]
    monkeypatch.setattr(gunzip, "BYTES_MAX", 2_500)
    monkeypatch.setattr(record_task, "UNPACKED_BYTES_MAX", 2_100)
    monkeypatch.setattr(workers, "settle", lambda: None)
    table = table_of(records, apart=True)
    assert gunzip.unpacked_sizes(table["value"]).tolist()[:3] == [8, len(large), len(large)]
    pieces = [piece.num_rows for piece in gunzip.in_pieces(table, of.compressed, 2_100)]
    assert (sum(pieces), pieces[0], len(pieces) > 2) == (len(values), 2, True)
    assert [piece.num_rows for piece in gunzip.in_pieces(table, (), 1)] == [len(values)]
    sequencer = Sequencer(of)
    task = RecordTask(of, LogState(), None, NOW_MS, sequencer.schema, f"file:{tmp_path}")
    report = report_of(task, table)
    whole = sequencer.sequence(table_of(records), LogState(), None, NOW_MS)
    assert rows_in(tmp_path, [report], sequencer.schema).sort_by(ORDER).to_pylist() == whole.rows.to_pylist()
    assert (report["records"], report["dead_letters"]) == (len(values), 1)


def test_records_that_come_out_of_order_are_not_lost_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = RecordFormat.of(hr.Topic("screws", key="id STRING", value="n INT"))
    task = RecordTask(of, LogState(), None, NOW_MS, Sequencer(of).schema, f"file:{tmp_path}")
    monkeypatch.setattr(workers, "settle", lambda: None)
    monkeypatch.setattr(record_task, "ROWS_MAX", 1)
    records = [Record(0, offset, b"{}", NOW_MS, None, dead=False) for offset in (5, 6, 3)]
    with pytest.raises(ValueError, match="did not come in the order of offsets"):
        list(task(table_of(records, apart=True).to_batches(max_chunksize=1)))
    assert list(tmp_path.iterdir()) == []


def test_a_task_that_fails_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of = RecordFormat.of(hr.Topic("screws", key="id STRING", value="n INT"))
    task = RecordTask(of, LogState(), None, NOW_MS, Sequencer(of).schema, f"file:{tmp_path}")
    monkeypatch.setattr(workers, "settle", lambda: None)
    monkeypatch.setattr(record_task, "ROWS_MAX", 1)
    batches = table_of(some_records(Random(1)), apart=True).to_batches(max_chunksize=1)

    def broken() -> Any:
        yield from batches[:3]
        raise ConnectionError("Kafka is gone")

    with pytest.raises(ConnectionError):
        list(task(broken()))
    assert list(tmp_path.iterdir()) == []


def told(guard: Guard | None) -> Any:
    """A guard's state; roots in any order are the same state."""
    document: dict[str, Any] = {} if guard is None else guard.to_json()
    return document | {"roots": sorted(document.get("roots", []))}


def report_of(task: RecordTask, records: pa.Table) -> dict[str, Any]:
    """The task's report. With the exact guard the task gets the records by partition and offset."""
    if task.of.guard is not None and task.of.guard.mode == "exact":
        records = records.sort_by(ORDER)
    (batch,) = task(records.to_batches(max_chunksize=2))
    report: dict[str, Any] = json.loads(batch.column("report")[0].as_py())
    return report


def rows_in(folder: Path, reports: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    files = [folder / each["file"]["path"] for each in reports if each["file"] is not None]
    tables = [pq.read_table(file, partitioning=None).cast(schema) for file in files]
    return pa.concat_tables([schema.empty_table(), *tables])

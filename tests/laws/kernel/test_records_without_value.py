"""Records without a value, where a topic reads event times from values: they take the stream time, and move none."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.fold.contract import BATCH, ROW_COLUMNS, Clock, Times
from headrace.fold.keys import with_keys
from headrace.operators.tables.fold import ROWS, Tables
from headrace.sequence.formats import RecordFormat
from headrace.sequence.log_state import LogState
from headrace.sequence.sequence_records import Sequencer
from tests.laws.kernel.records import NOW_MS, Record, table_of

pytestmark = pytest.mark.fast

DATED = hr.Topic("orders", key="id STRING", value="at BIGINT", timestamp="at")
CAPTURED = hr.Topic("captured", value="n INT", format=hr.Debezium(changed_at="at"), timestamp="at")
CAPTURED_TABLE = hr.Topic("captured", key="id STRING", value="n INT").table("timestamp")
HOUR_MS = 3_600_000


def rows_of(topic: hr.Topic, commits: list[list[Record]]) -> list[dict[str, Any]]:
    """The log of some commits, row by row."""
    sequencer, state, rows = Sequencer(RecordFormat.of(topic)), LogState(), list[dict[str, Any]]()
    for number, records in enumerate(commits):
        done = sequencer.sequence(table_of(records), state, None, NOW_MS + number)
        rows, state = [*rows, *done.rows.to_pylist()], done.state
    return rows


def ms(moment: Any) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)


def change(op: str, at: int | None, after: dict[str, int] | None = None) -> bytes:
    source = {} if at is None else {"ts_ms": at}
    return json.dumps({"op": op, "before": None, "after": after, "source": source}).encode()


@given(random=st.integers(0, 2**32).map(Random))
@settings(max_examples=40, deadline=None)
def test_no_other_row_depends_on_a_record_without_a_value(random: Random) -> None:
    def value() -> bytes | None:
        at = NOW_MS - random.randrange(10) * HOUR_MS
        return None if random.random() < 0.4 else json.dumps({"at": at}).encode()

    records = [
        Record(partition, offset, value(), NOW_MS - random.randrange(HOUR_MS), None, False)
        for partition in (0, 1)
        for offset in range(random.randrange(1, 8))
    ]
    commits: list[list[Record]] = [[], [], []]
    for record in records:
        commits[min(record.offset // 3, 2)].append(record)
    rows = rows_of(DATED, commits)
    assert {row["kind"] for row in rows} == {"record"}
    for row in rows:
        if row["tombstone"]:
            assert row["timestamp"] == row["stream_time"]
    valued = rows_of(DATED, [[r for r in commit if r.value is not None] for commit in commits])
    others = [row for row in rows if not row["tombstone"]]
    names = ("partition", "offset", "timestamp", "stream_time")
    assert [[row[n] for n in names] for row in others] == [[row[n] for n in names] for row in valued]


def test_a_tombstone_before_any_event_time_has_none_and_is_no_dead_letter() -> None:
    values = (None, b'{"at": 5}', None)
    commits = [[Record(0, offset, value, NOW_MS, None, False)] for offset, value in enumerate(values)]
    first, second, third = rows_of(DATED, commits)
    assert (first["kind"], first["timestamp"], first["stream_time"]) == ("record", None, None)
    assert [ms(second["timestamp"]), ms(third["timestamp"]), ms(third["stream_time"])] == [5, 5, 5]


def test_without_timestamp_kafkas_time_stays_the_event_time() -> None:
    plain = hr.Topic("plain", key="id STRING", value="n INT")
    (row,) = rows_of(plain, [[Record(0, 0, None, 7_000, None, False)]])
    assert (ms(row["timestamp"]), ms(row["stream_time"])) == (7_000, 7_000)


def test_a_deletion_of_debezium_has_its_own_time_and_the_tombstone_after_it_none() -> None:
    values = [
        change("c", 1_000, {"n": 1}),
        change("d", 2_000),
        None,
        change("d", None),
        change("c", 1_500, {"n": 2}),
    ]
    rows = rows_of(CAPTURED, [[Record(0, at, value, NOW_MS, None, False) for at, value in enumerate(values)]])
    assert [ms(row["timestamp"]) for row in rows] == [1_000, 2_000, 2_000, 2_000, 1_500]
    assert [ms(row["stream_time"]) for row in rows] == [1_000, 2_000, 2_000, 2_000, 2_000]
    assert [row["reason"] for row in rows] == [None, None, "bare tombstone", None, None]
    assert {row["kind"] for row in rows} == {"record"}


SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int32()), *ROW_COLUMNS])


def changed(*changes: tuple[str, int | None, int | None, int | None, str | None]) -> pa.Table:
    """In: of each record key, n (None: a tombstone), event time, stream time, and the reason in its log."""
    rows = [
        (key, n, at, "captured", 0, at, event, stream, 1, "tombstone" if n is None else None, reason)
        for at, (key, n, event, stream, reason) in enumerate(changes, 1)
    ]
    arrays = [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
    return with_keys(pa.Table.from_arrays(arrays, schema=SCHEMA), ["id"])


@pytest.mark.parametrize("cut", range(1, 5))
def test_a_row_that_is_created_again_outlives_the_tombstone_of_its_deletion(cut: int) -> None:
    """Other keys have moved the stream time to 9 when the tombstone comes; the row of 3 is older than that."""
    rows = changed(
        ("a", 1, 1, 1, None),
        ("b", 1, 9, 9, None),
        ("a", None, 2, 9, None),
        ("a", None, 9, 9, "bare tombstone"),
        ("a", 2, 3, 9, None),
    )
    (step,) = Tables.of(CAPTURED_TABLE, SCHEMA).steps
    results, state = dict[str, Any](), step.state[ROWS].empty()
    for part in (rows.slice(0, cut), rows.slice(cut)):
        folded = step.fold(part, {ROWS: state}, Times(Clock(), Clock()))
        results |= {row["id"]: row["n"] for row in folded.outputs["results"].to_pylist()}
        gained = folded.changes[ROWS].append_column(
            BATCH, pa.array([0] * folded.changes[ROWS].num_rows, pa.int32())
        )
        state = step.state[ROWS].merge(pa.concat_tables([state, gained], promote_options="default"))
    assert results == {"a": 2, "b": 1}


def test_a_tombstone_without_any_time_deletes_by_position_and_its_change_has_the_time_of_the_row() -> None:
    """The row came through another topic's partition, so a key may be there before its partition has a stream time."""
    rows = changed(("a", 1, 5, 5, None), ("a", None, None, None, None))
    (step,) = Tables.of(hr.Topic("captured", key="id STRING", value="n INT").table(), SCHEMA).steps
    folded = step.fold(rows, {ROWS: step.state[ROWS].empty()}, Times(Clock(), Clock()))
    changes = folded.outputs["changes"].to_pylist()
    assert [(row["__deleted"], row["__timestamp"]) for row in changes] == [(False, 5), (True, 5)]

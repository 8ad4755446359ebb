"""A table by timestamp forgets a delete once every record that the delete would beat is late by its own row."""

from __future__ import annotations

import pyarrow as pa
import pytest

import headrace as hr
from headrace.fold.contract import BATCH, ROW_COLUMNS, Clock, Times
from headrace.fold.keys import with_keys
from headrace.operators.tables.fold import ROWS, Tables

pytestmark = pytest.mark.fast

SECOND = 1_000
SCHEMA = pa.schema([("id", pa.string()), ("amount", pa.int32()), *ROW_COLUMNS])
TOPIC = hr.Topic("positions", key="id STRING", value="amount INT")
TABLE = TOPIC.table("timestamp", forget_deletes_after="10 seconds")


def rows(*records: tuple[str, int | None, int, int]) -> pa.Table:
    """In: of each record key, amount (None: a tombstone), event time and stream time in seconds."""
    columns = [
        (key, amount, at, "positions", 0, at, event * SECOND, stream * SECOND, 1, fate, None)
        for at, (key, amount, event, stream) in enumerate(records, 1)
        for fate in ["tombstone" if amount is None else None]
    ]
    arrays = [pa.array(c, f.type) for c, f in zip([*zip(*columns, strict=True)], SCHEMA, strict=True)]
    return with_keys(pa.Table.from_arrays(arrays, schema=SCHEMA), ["id"])


def clock(stream_ms: int) -> Clock:
    return Clock({"positions": 100}, {("positions", 0): stream_ms}, lowest_ms=stream_ms)


def test_a_record_as_old_as_a_forgotten_delete_is_late_and_a_newer_one_counts() -> None:
    kernel = Tables.of(TABLE, SCHEMA)
    (step,) = kernel.steps
    log = rows(
        ("a", 1, 1, 1),
        ("a", None, 5, 5),
        ("b", 2, 15, 15),
        ("a", 3, 5, 15),  # 10 seconds behind: late, whatever the table still remembers
        ("a", 4, 6, 15),
    )
    folded = step.fold(log, {}, Times(Clock(), clock(15 * SECOND)))
    assert folded.tally is not None
    assert {row["__fate"]: row["records"] for row in folded.tally.to_pylist()} == {"kept": 4, "late": 1}
    assert {row["id"]: row["amount"] for row in folded.outputs["results"].to_pylist()} == {"a": 4, "b": 2}
    late = kernel.late(log).to_pylist()
    assert [(row["offset"], row["late_by_ms"]) for row in late] == [(4, 0)]


@pytest.mark.parametrize(
    ("table", "remembered"),
    [(TABLE, [True, True, False]), (TOPIC.table("timestamp"), [True, True, True])],
    ids=["forgetful", "plain"],
)
def test_a_delete_leaves_the_state_when_closing_time_is_so_far_beyond_it(
    table: hr.description.Table, remembered: list[bool]
) -> None:
    (step,) = Tables.of(table, SCHEMA).steps
    gained = step.fold(
        rows(("a", 1, 1, 1), ("b", 2, 1, 1), ("a", None, 5, 5)), {}, Times(Clock(), clock(5 * SECOND))
    )
    state = step.state[ROWS]
    held = gained.changes[ROWS].append_column(BATCH, pa.array([0, 0], pa.int32()))
    assert state.expired is not None
    for after, there in zip((Clock(), clock(15 * SECOND - 1), clock(15 * SECOND)), remembered, strict=True):
        gone = dict(zip(held["id"].to_pylist(), state.expired(held, after).to_pylist(), strict=True))
        assert gone == {"a": not there, "b": False}

"""Whatever bytes come, each record is decided about, and as if it had come alone."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.sequence.formats import RecordFormat
from headrace.sequence.log_state import LogState
from headrace.sequence.replays.guards import new_guard
from headrace.sequence.replays.verdicts import AMBIGUOUS_REASON
from headrace.sequence.sequence_records import Sequencer

pytestmark = pytest.mark.fast

EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "6"))
RANDOMS = st.integers(0, 2**32).map(Random)
NOW_MS = 1_714_564_800_000
PAIRS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
ANY = hr.Topic(
    "any",
    key="id INT, s STRING NOT NULL",
    value="id INT, at TIMESTAMP, m MAP<STRING, DOUBLE>, x BINARY, a ARRAY<DECIMAL(6,2)> NOT NULL",
    timestamp="at",
    replay_guard=hr.ReplayGuard(mode="exact"),
)
PIECES = [
    b'{"id": 1, ',
    b'"at": "2024-05-01T12:00:00Z", ',
    b'"m": {"a": 1}, ',
    b'"x": "YQ==", ',
    b'"s": "k", ',
    b'"a": [1.255]}',
]


def by_itself(row: dict[str, Any]) -> dict[str, Any]:
    """A row without what follows from the rows before it, too."""
    before = ["stream_time", "replay"]
    if row["kind"] == "record" and row["tombstone"]:
        assert row["timestamp"] == row["stream_time"]
        before.append("timestamp")
    return {name: value for name, value in row.items() if name not in before}


@given(random=RANDOMS)
@settings(max_examples=EXAMPLES, deadline=None)
def test_any_bytes_are_decided_about_and_each_record_by_itself(random: Random) -> None:
    def some_bytes() -> bytes | None:
        pieces = [piece for piece in PIECES if random.random() < 0.9]
        if random.random() < 0.2:
            pieces.insert(random.randrange(len(pieces) + 1), random.randbytes(random.randrange(4)))
        return None if random.random() < 0.1 else b"".join(pieces)

    def some_header() -> bytes | None:
        text = b'[["a", 0, 12], ["b", 1, 2, 3]]'
        at = random.randrange(len(text))
        return random.choice([None, text, text[:at] + random.randbytes(1) + text[at + 1 :]])

    size = random.randrange(1, 40)
    absurd = [-1, 0, 2**63 - 1, -(2**63), 9_200_000_000_000_000_000, NOW_MS]
    table = pa.table(
        {
            "partition": pa.array([0] * size, pa.int32()),
            "offset": pa.array(range(size), pa.int64()),
            "key": pa.array([some_bytes() for _ in range(size)], pa.binary()),
            "value": pa.array([some_bytes() for _ in range(size)], pa.binary()),
            "timestamp": pa.array(random.choices([*absurd, None], k=size), pa.int64()),
            "headers": pa.array([[("source-chain", some_header())] for _ in range(size)], PAIRS),
        }
    )
    sequencer, guard = Sequencer(RecordFormat.of(ANY)), new_guard(ANY.replay_guard)
    together = sequencer.sequence(table, LogState(), guard, NOW_MS).rows.to_pylist()
    alone = [sequencer.sequence(table.slice(row, 1), LogState(), guard, NOW_MS).rows for row in range(size)]
    confused = {row["offset"] for row in together if row["reason"] == AMBIGUOUS_REASON}
    apart = pa.concat_tables(alone).to_pylist()
    assert all(row["kind"] == "record" for row in apart if row["offset"] in confused)
    decided = (
        [by_itself(row) for row in rows if row["offset"] not in confused] for rows in (apart, together)
    )
    assert next(decided) == next(decided)

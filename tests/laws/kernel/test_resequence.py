"""A log made anew from bytes of its own, or from Kafka, is the one that the other description would have written."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.fold.values.columns import table_of
from headrace.log.commit_row import CommitRow
from headrace.log.decisions.resets import control_entry
from headrace.log.history import resequence
from headrace.log.history.raw_records import keeping_raw, kept_by
from headrace.log.history.resequence import Resequencer
from headrace.sequence.formats import RecordFormat
from headrace.sequence.log_state import LastRow, LogState
from headrace.sequence.replays.guards import Guard, new_guard
from headrace.sequence.sequence_records import RECORDS, Sequencer
from tests.laws.kernel.records import NOW_MS
from tests.laws.kernel.test_record_task import told

pytestmark = pytest.mark.fast

EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "4"))
GUARD = hr.ReplayGuard()
FIRST = hr.Topic("t", key="id STRING", value="n INT, at BIGINT", keep_raw=True, replay_guard=GUARD)
OTHERS = {
    "the same": FIRST,
    "other event time": replace(FIRST, timestamp="at"),
    "a wider column": replace(FIRST, value="n BIGINT, at BIGINT"),
    "a new column": replace(FIRST, value="n INT, at BIGINT, more STRING"),
    "a column less": replace(FIRST, value="at BIGINT"),
    "another key": replace(FIRST, key="id BIGINT"),
    "a column that is needed": replace(FIRST, value="n INT, at BIGINT NOT NULL"),
    "no guard": replace(FIRST, replay_guard=None),
    "compressed": replace(FIRST, timestamp="at", format=hr.Json(gzip=True)),
    "compressed, with a bounded guard": replace(
        FIRST, format=hr.Json(gzip=True), replay_guard=hr.ReplayGuard(mode="exact", max_gaps=2)
    ),
}
Decide = Callable[[LogState, Guard | None, int], tuple[pa.Table, LogState, Guard | None]]
VALUES = [
    '{"n": 1, "at": %d}',
    '{"n": 3000000000, "at": %d}',
    '{"n": "x", "at": %d}',
    '{"more": "m"}',
    "?",
    None,
]


class Log:
    """A sequencer as a process runs it, in memory."""

    def __init__(self, topic: hr.Topic) -> None:
        self._sequencer = Sequencer(RecordFormat.of(topic))
        self.guard = new_guard(topic.replay_guard)
        self.state, self.commits = keeping_raw(LogState(), topic), list[pa.Table]()
        self.delivered = list[pa.Table]()  # to each commit
        self.schema = self._sequencer.schema

    def append(self, raw: pa.Table, at_ms: int) -> None:
        made = self._sequencer.sequence(raw, self.state, self.guard, at_ms)
        self._commit([made.rows], made.state, at_ms, made.records, raw)
        self.guard = made.guard

    def decide(self, kind: str, rows: Sequence[tuple[int, int | None, str | None]], at_ms: int) -> None:
        """Ticks or control rows: partition, stream time, JSON."""
        ends = [LastRow(p, None, ms) for p, ms, _ in rows]
        self._commit([self._rows(kind, rows, at_ms)], self.state.after(at_ms, ends), at_ms, 0)

    def _rows(self, kind: str, rows: Sequence[tuple[int, int | None, str | None]], at_ms: int) -> pa.Table:
        number = len(rows)
        columns = {
            "ingested_at": pa.array([at_ms * 1000] * number),
            "kind": pa.array([kind] * number),
            "topic": pa.array(["t"] * number),
            "partition": pa.array([p for p, *_ in rows]),
            "stream_time": pa.array([None if ms is None else ms * 1000 for _, ms, _ in rows], pa.int64()),
            "replay": pa.array([False] * number),
            "control": pa.array([text for *_, text in rows], pa.string()),
        }
        return table_of(self.schema, columns, number)

    def _commit(
        self,
        found: list[pa.Table],
        after: LogState,
        at_ms: int,
        records: int,
        raw: pa.Table | None = None,
    ) -> None:
        said = CommitRow(after, self.state.next_offsets, records)
        at = min(after.partitions, default=0)
        stream_ms = after.partitions[at].stream_ms if after.partitions else None
        row = self._rows("control", [(at, stream_ms, said.to_json())], at_ms)
        self.commits.append(pa.concat_tables([*found, row]))
        self.delivered.append(RECORDS.empty_table() if raw is None else raw)
        self.state = after


def raw_records(random: Random, next_offsets: dict[int, int], *, compressed: bool) -> pa.Table:
    rows: list[Any] = []
    for partition in random.sample([0, 1, 2], random.randrange(1, 4)):
        for _ in range(random.randrange(4)):
            offset = next_offsets.get(partition, 0)
            next_offsets[partition] = offset + 1
            ms = NOW_MS - 50_000 + random.randrange(40_000)
            text = random.choice(VALUES)
            value = (
                None
                if text is None
                else (text % (ms + random.randrange(-9_000, 9_000)) if "%" in text else text)
            )
            chain = json.dumps([["root", 0, random.randrange(8)]]).encode()
            headers = (["source-chain"], [chain]) if random.random() < 0.4 else ([], [])
            key = random.choice([b"a", b"7"])
            raw = None if value is None else value.encode()
            if raw is not None and compressed and random.random() < 0.7:
                raw = gzip.compress(raw)
            rows.append((partition, offset, key, raw, ms, *headers))
    rows.sort(key=lambda row: row[:2])
    return pa.table([*zip(*rows, strict=True)] or [()] * len(RECORDS), schema=RECORDS)


def lived(random: Random, topic: hr.Topic, other: hr.Topic) -> tuple[Log, Log]:
    """The log that a topic's sequencer writes, and the one of another description at the same commit times."""
    logs, offsets = (Log(topic), Log(other)), dict[int, int]()
    for number in range(random.randrange(1, 7)):
        at_ms, what = NOW_MS + number, random.random()
        if what < 0.7 or not logs[0].state.partitions:
            raw = raw_records(random, offsets, compressed=other.format != "json")
            if raw.num_rows:
                for log in logs:
                    log.append(raw, at_ms)
        elif what < 0.85:
            for log in logs:
                if log.guard is not None:
                    log.guard = log.guard.without({root for root in log.guard.roots() if root[0] == "root"})
                at = min(log.state.partitions)
                log.decide(
                    "control", [(at, log.state.partitions[at].stream_ms, control_entry("root", None))], at_ms
                )
        else:
            tick(logs, at_ms)
    return logs


def tick(logs: tuple[Log, Log], at_ms: int) -> None:
    """Move the slowest partition to the lowest stream time of the others, or one that is alone by a second."""
    times = [
        {p: s.stream_ms for p, s in log.state.partitions.items() if s.stream_ms is not None} for log in logs
    ]
    if not times[0]:
        return
    slowest = min(times[0], key=lambda p: (times[0][p], p))
    lowest = min((ms for p, ms in times[0].items() if p != slowest), default=times[0][slowest] + 1_000)
    passed_ms = lowest - times[0][slowest]
    for log, mine in zip(logs, times, strict=True) if passed_ms else ():
        others = [ms for p, ms in mine.items() if p != slowest]
        to = None
        if slowest in mine:
            to = max(mine[slowest], min(others)) if others else mine[slowest] + passed_ms
        log.decide("tick", [(slowest, to, None)], at_ms)


def in_order(rows: pa.Table) -> pa.Table:
    places = [(name, "ascending") for name in ("partition", "kind", "offset", "control")]
    return rows.sort_by(places).combine_chunks()


# Where the bytes were before, and where they are now. Each description meets both values of each; in `make test-long` all four.
PLACES: Sequence[tuple[bool | str, bool | str]] = [
    (True, True),
    (True, "kafka"),
    (False, "kafka"),
    (False, True),
]


@pytest.mark.parametrize(
    ("before", "now", "what"),
    [
        pytest.param(*places, what, marks=(pytest.mark.slow, pytest.mark.long) if (number + at) % 2 else ())
        for number, what in enumerate(OTHERS)
        for at, places in enumerate(PLACES)
    ],
)
@given(random=st.integers(0, 2**32).map(Random))
@settings(max_examples=2 * EXAMPLES, deadline=None)
def test_a_log_made_anew_is_the_one_that_the_other_description_would_have_written(
    what: str, before: bool | str, now: bool | str, random: Random
) -> None:
    topic = replace(OTHERS[what], keep_raw=now)
    log, wanted = lived(random, replace(FIRST, format=topic.format, keep_raw=before), topic)
    anew = Resequencer(RecordFormat.of(topic))
    for rows, raw, other in zip(log.commits, log.delivered, wanted.commits, strict=True):
        with pytest.MonkeyPatch.context() as patch:
            bytes_max = random.choice([1, 70, 1 << 20])
            patch.setattr(resequence, "UNPACKED_BYTES_MAX", bytes_max)
            parts = [*anew.take(rows, kept_by(topic), None if before else raw)]
        assert in_order(pa.concat_tables(parts)).to_pylist() == in_order(other).to_pylist()
        if topic.format != "json" and bytes_max == 1:
            filled = [value for value in raw["value"].to_pylist() if value is not None]
            assert len(parts) > len(filled)  # one record at a time, and the decisions
    assert not log.commits or anew.state == wanted.state
    assert told(anew.guard) == told(wanted.guard)


@pytest.mark.parametrize("path", ["chain", "other"])
def test_a_chain_that_stood_in_the_value_is_looked_for_anew(path: str) -> None:
    """The header by which the log tells it is none of the record's own."""
    first, other = (
        replace(FIRST, value="chain STRING, other STRING", replay_guard=hr.ReplayGuard(header=None, path=of))
        for of in ("chain", path)
    )
    values = [{"chain": json.dumps([["root", 0, 4]])}, {"other": json.dumps([["root", 1, 7]])}, {}]
    rows = [
        (0, offset, b"a", json.dumps(value).encode(), NOW_MS, ["mine"][:own], [b"1"][:own])
        for offset, value in enumerate(values)
        for own in (offset % 2,)
    ]
    raw, (log, wanted) = pa.table([*zip(*rows, strict=True)], schema=RECORDS), (Log(first), Log(other))
    for each in (log, wanted):
        each.append(raw, NOW_MS)
    for delivered in (None, raw):
        anew = Resequencer(RecordFormat.of(other))
        made = pa.concat_tables(anew.take(log.commits[0], kept_by(other), delivered))
        assert in_order(made).to_pylist() == in_order(wanted.commits[0]).to_pylist()


def test_a_log_is_not_appended_to_by_another_description_of_how_it_is_read() -> None:
    state = keeping_raw(LogState(), FIRST)
    assert keeping_raw(state, replace(FIRST, idle_timeout=None)) == state
    with pytest.raises(hr.TerminalError, match="written by another description"):
        keeping_raw(state, replace(FIRST, timestamp="at"))
    assert keeping_raw(state, replace(FIRST, keep_raw=False)).raw is None
    with pytest.raises(hr.TerminalError, match="written by another description"):
        keeping_raw(state, replace(FIRST, timestamp="at", keep_raw=False))
    begun = keeping_raw(LogState(batch=3), FIRST)
    assert begun.raw is not None
    assert begun.raw["batch"] == 3
    in_kafka = keeping_raw(replace(state, batch=4), replace(FIRST, keep_raw="kafka"))
    assert in_kafka.raw == {**(state.raw or {}), "batch": 4, "in": "kafka"}
    assert keeping_raw(replace(in_kafka, batch=5), replace(FIRST, keep_raw="kafka")).raw == in_kafka.raw
    again = keeping_raw(replace(in_kafka, batch=6), FIRST)
    assert again.raw == {**(state.raw or {}), "batch": 6}, "rows before have no bytes"

"""The sequencer over random records, cuts and chunk sizes: rows, stream times, verdicts and state as the oracles have them."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.sequence.formats import RecordFormat
from headrace.sequence.log_state import LogState
from headrace.sequence.parse import json_columns
from headrace.sequence.readers import json_reader
from headrace.sequence.replays.guards import Guard, new_guard, restored_guard
from headrace.sequence.replays.monotone import MonotoneGuard
from headrace.sequence.replays.verdicts import AMBIGUOUS
from headrace.sequence.sequence_records import Sequenced, Sequencer
from tests.laws.kernel.records import (
    GAPS_MAX,
    GUARDS,
    NOW_MS,
    Record,
    cut,
    some_records,
    table_of,
)
from tests.oracle import guard_oracle, log_oracle

pytestmark = pytest.mark.fast

EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "6"))
RANDOMS = st.integers(0, 2**32).map(Random)


def run(
    topic: hr.Topic, random: Random, commits: Sequence[Sequence[Record]]
) -> tuple[list[Sequenced], Guard | None]:
    """Every commit once or, after a crash, from the same state again; some records come a second time."""
    of = RecordFormat.of(topic)
    sequencer, state, guard = Sequencer(of), LogState(), new_guard(topic.replay_guard)
    done: list[Sequenced] = []
    before: Sequence[Record] = ()
    for number, records in enumerate(commits):
        table = table_of([*before, *records], apart=random.random() < 0.5)
        if random.random() < 0.3:
            table = table.take(pa.array(random.sample(range(table.num_rows), table.num_rows), pa.int64()))
        found = sequencer.sequence(table, state, guard, NOW_MS + number)
        again = sequencer.sequence(
            table, LogState.from_json(json.loads(json.dumps(state.to_json()))), guard, NOW_MS + number
        )
        assert again.rows.equals(found.rows)
        assert (again.state, again.guard) == (found.state, found.guard)
        state, guard = found.state, found.guard
        if guard is not None and random.random() < 0.5:
            restored = restored_guard(topic.replay_guard, json.loads(json.dumps(guard.to_json())))
            assert restored == guard
            guard = restored
        before = records if random.random() < 0.3 else ()
        done.append(found)
    return done, guard


@pytest.mark.parametrize("mode", GUARDS)
@given(random=RANDOMS, rows_max=st.sampled_from([1, 3, 1 << 16]), few=st.sampled_from([1, 48]))
@settings(max_examples=EXAMPLES, deadline=None)
def test_rows_stream_times_and_verdicts_are_those_of_the_oracles(
    mode: str, random: Random, rows_max: int, few: int
) -> None:
    topic = hr.Topic("screws", key="id STRING", value="n INT", replay_guard=GUARDS[mode])
    records = some_records(random)
    commits = cut(random, records)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_reader, "ROWS_MAX", rows_max)
        patch.setattr(json_columns, "FEW", few)
        found, _ = run(topic, random, commits)
    rows = {(row["partition"], row["offset"]): row for each in found for row in each.rows.to_pylist()}
    assert sorted(rows) == sorted((record.partition, record.offset) for record in records)
    refused = verdicts(mode, commits)
    chains = {each.place: each.chain for commit in delivered(mode, commits) for each in commit}
    replays = refused.replays
    assert {at for at, row in rows.items() if AMBIGUOUS in (row["reason"] or "")} == refused.ambiguous
    records = [replace(r, dead=r.dead or (r.partition, r.offset) in refused.ambiguous) for r in records]
    dead = {(record.partition, record.offset) for record in records if record.dead}
    assert {at for at, row in rows.items() if row["replay"]} == replays
    assert {at for at, row in rows.items() if row["kind"] == "dead_letter"} == dead
    assert [(each.records, each.dead_letters, each.replays) for each in found] == [
        (len(c), *(sum((r.partition, r.offset) in which for r in c) for which in (dead, replays)))
        for c in commits
    ]
    assert stream_times(rows, found, commits) == wanted_stream_times(commits, replays | dead)
    for record in records:
        row = rows[record.partition, record.offset]
        assert (row["raw_value"], row["raw_key"]) == ((record.value, b"k") if record.dead else (None, None))
        assert row["value"] == (None if record.dead or record.value is None else {"n": 1})
        assert row["key"] == (None if record.dead else {"id": "k"})
        assert row["tombstone"] == (record.value is None)
        assert row["size_bytes"] == 1 + len(record.value or b"")
        assert [(h["key"], h["value"]) for h in row["headers"] or []] == (record.headers or [])
        chain = [list(entry) for entry in chains[record.partition, record.offset] or []]
        assert place(row) == wanted_place(replace(record, chain=chain or None), mode)


def delivered(mode: str, commits: Sequence[Sequence[Record]]) -> list[list[guard_oracle.Delivery]]:
    sent = [
        [
            guard_oracle.Delivery(
                r.partition, r.offset, r.chain and [tuple(e) for e in r.chain], r.dead, (b"k", r.value)
            )
            for r in commit
        ]
        for commit in commits
    ]
    return guard_oracle.numbered("screws", sent) if mode == "ordered" else sent


def verdicts(mode: str, commits: Sequence[Sequence[Record]]) -> guard_oracle.Refused:
    sent = delivered(mode, commits)
    if mode in ("monotone", "ordered"):
        return guard_oracle.monotone("screws", sent)
    oracle = guard_oracle.ExactOracle("screws", GAPS_MAX)
    found = [oracle.take(commit) for commit in sent] if mode == "exact" else []
    return guard_oracle.Refused(
        {at for each in found for at in each.replays}, {at for each in found for at in each.ambiguous}
    )


def wanted_stream_times(
    commits: Sequence[Sequence[Record]], passive: set[tuple[int, int]]
) -> dict[tuple[int, int], int | None]:
    """To the oracle a replay is as a dead letter; it counts offsets from 0."""
    arrivals = [
        log_oracle.Commit(
            NOW_MS + number,
            [
                log_oracle.Arrival(
                    r.partition,
                    None,
                    r.ts,
                    kind="dead_letter" if (r.partition, r.offset) in passive else "record",
                )
                for r in commit
            ],
        )
        for number, commit in enumerate(commits)
    ]
    times = [stream for _, _, stream in log_oracle.sequence(arrivals, None, 0).rows]
    records = [record for commit in commits for record in commit]
    return {(r.partition, r.offset): ms for r, ms in zip(records, times, strict=True)}


def stream_times(
    rows: dict[tuple[int, int], dict[str, Any]],
    found: Sequence[Sequenced],
    commits: Sequence[Sequence[Record]],
) -> dict[tuple[int, int], int | None]:
    """Those of the rows; the state after the last commit says the same of each partition's last row."""
    times = {
        at: None if row["stream_time"] is None else round(row["stream_time"].timestamp() * 1000)
        for at, row in rows.items()
    }
    last: dict[int, int] = {}
    for partition, offset in times:
        last[partition] = max(offset, last.get(partition, offset))
    state = found[-1].state
    assert state.next_offsets == {p: at + 1 for p, at in last.items()}
    assert {p: s.stream_ms for p, s in state.partitions.items()} == {
        p: times[p, at] for p, at in last.items()
    }
    assert state.batch == len(commits)
    return times


def place(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("root_topic", "root_partition", "root_offset", "ordinals", "path"))


def wanted_place(record: Record, mode: str) -> tuple[Any, ...]:
    if record.dead or mode == "none":
        return (None,) * 5
    chain = record.chain or []
    root = chain[0][:3] if chain else ["screws", record.partition, record.offset]
    path = ">".join(f"{entry[0]}/{entry[1]}" for entry in [*chain, ["screws", record.partition]])
    return (*root, [entry[3] if len(entry) == 4 else -1 for entry in chain], path)


@given(random=RANDOMS)
@settings(max_examples=EXAMPLES, deadline=None)
@pytest.mark.parametrize("mode", ["monotone", "ordered"])
def test_partitions_may_be_sequenced_apart(mode: str, random: Random) -> None:
    topic = hr.Topic("screws", key="id STRING", value="n INT", replay_guard=GUARDS[mode])
    records = some_records(random)
    done, guard = run(topic, random, [records[: len(records) // 2]])
    assert isinstance(guard, MonotoneGuard)
    sequencer, state, rest = Sequencer(RecordFormat.of(topic)), done[-1].state, records[len(records) // 2 :]
    whole = sequencer.sequence(table_of(rest), state, guard, NOW_MS + 9)
    parts = [
        sequencer.sequence(
            table_of([r for r in rest if (r.partition == 1) == mine]), state, guard, NOW_MS + 9
        )
        for mine in (False, True)
    ]
    rows = pa.concat_tables([part.rows for part in parts])
    assert (
        rows.sort_by([("partition", "ascending"), ("offset", "ascending")]).to_pylist()
        == whole.rows.to_pylist()
    )
    assert sorted(end.partition for part in parts for end in part.ends) == [
        end.partition for end in whole.ends
    ]
    assert state.after(NOW_MS + 9, [end for part in parts for end in part.ends]) == whole.state
    one, two = (part.guard for part in parts)
    assert isinstance(one, MonotoneGuard)
    assert isinstance(two, MonotoneGuard)
    assert guard.joined(one.moved_since(guard)).joined(two.moved_since(guard)) == whole.guard


@pytest.mark.parametrize("mode", ["monotone", "ordered", "exact"])
@given(random=RANDOMS)
@settings(max_examples=EXAMPLES, deadline=None)
def test_a_root_that_was_reset_is_judged_as_if_nothing_of_it_had_been_seen(mode: str, random: Random) -> None:
    topic = hr.Topic("screws", value="n INT", replay_guard=GUARDS[mode])
    records = some_records(random)
    half = len(records) // 2
    done, guard = run(topic, random, [records[:half]])
    assert guard is not None
    roots = {root for root in guard.roots() if random.random() < 0.5}
    after = guard.without(roots)
    assert after.roots() == guard.roots() - roots
    assert restored_guard(topic.replay_guard, json.loads(json.dumps(after.to_json()))) == after
    found = Sequencer(RecordFormat.of(topic)).sequence(
        table_of(records[half:]), done[-1].state, after, NOW_MS + 9
    )
    of_others = [r for r in records[:half] if root_of(r) not in roots]
    of_rest = {(r.partition, r.offset) for r in records[half:]}
    wanted = verdicts(mode, [of_others, records[half:]]).replays & of_rest
    rows = found.rows.to_pylist()
    assert {(row["partition"], row["offset"]) for row in rows if row["replay"]} == wanted


def root_of(record: Record) -> tuple[str, int]:
    return (record.chain[0][0], record.chain[0][1]) if record.chain else ("screws", record.partition)

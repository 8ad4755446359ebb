"""Nodes of several topics: what holds time, what does not, and who is late. Minutes of one day; a commit at 12:05 has time 725."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace import oracle
from headrace.description import Node, NodeOutput, with_unnamed
from tests.laws.kernel.chained import ChainedReading, TopicLog, log_of
from tests.laws.kernel.harness import Outcome, run
from tests.laws.kernel.idle_logs import SCHEMA
from tests.laws.kernel.plans import ONE_GO, Plan
from tests.laws.kernel.verdict import PER_BUCKET, Verdict

pytestmark = pytest.mark.fast

MINUTE = 60_000
T, U, V = (hr.Topic(name, key="key STRING", value="value BIGINT") for name in "tuv")
EACH = Plan(sizes=(1,), buckets=(2,))
Row = tuple[int, str | None, int | None, int | None]  # commit, kind or key, event time, stream time


def hourly(stream: Any) -> Any:
    return windows(stream, 60)


def windows(stream: Any, size: int, grace: int = 0) -> Any:
    made = stream.group_by("key").window(hr.tumbling(size * MINUTE), grace=grace * MINUTE)
    return made.aggregate(n=hr.count()).suppress(hr.until_window_closes())


def at(hour: int, minute: int = 0) -> int:
    return hour * 60 + minute


def log(topic: str, rows: Sequence[Row], complete: int | None = None) -> TopicLog:
    """A log, all of partition 0; the value of a record is its number, from 1 on.

    In: rows  `tick`, `idle` and `complete`, or the key of a record; times in minutes
    """
    plain, clocks, stream, offset = (
        [],
        dict[int, dict[tuple[str, int], int]](),
        dict[tuple[str, int], int](),
        0,
    )
    for commit, kind, event, time in rows:
        decided = kind in ("tick", "idle", "complete")
        if time is not None:
            stream[topic, 0] = time * MINUTE
        clocks[commit * MINUTE] = dict(stream)
        plain.append(
            {
                "key": None if decided else kind,
                "value": None if decided else offset + 1,
                "__ingested_ms": commit * MINUTE,
                "__topic": topic,
                "__partition": 0,
                "__offset": None if decided else offset,
                "__event_ms": None if event is None else event * MINUTE,
                "__stream_ms": None if time is None else time * MINUTE,
                "__size_bytes": 8,
                "__fate": kind if decided else None,
            }
        )
        offset += not decided
    complete_ms = None if complete is None else complete * MINUTE
    return TopicLog(pa.Table.from_pylist(plain, SCHEMA), sorted(clocks.items()), complete_ms=complete_ms)


def folded(described: Any, logs: dict[str, TopicLog]) -> tuple[Outcome, oracle.Results]:
    """What the last node of a pipeline makes of logs: in one go, commit by commit, and by the oracle."""
    nodes: list[Node] = with_unnamed([described.named("last")])
    for node in nodes:
        reading = ChainedReading(node, logs)
        verdict, operator = Verdict(reading), reading.operator
        for plan in (EACH, ONE_GO):
            found = run(operator.steps, reading, plan, PER_BUCKET, revised=operator.revises)
            verdict.compare(operator, found)
        if node is not nodes[-1]:
            logs = {**logs, NodeOutput.of(node).name: log_of(operator, found, logs)}
    return found, verdict.wanted


def counts(described: Any, logs: dict[str, TopicLog]) -> dict[int, int]:
    """The final windows: their start in minutes, and how many records they have."""
    found, _ = folded(described, logs)
    return {round(row["window_start"].timestamp()) // 60: row["n"] for row in found.rows()}


def late(described: Any, logs: dict[str, TopicLog]) -> list[tuple[str, int]]:
    """The topic and offset of each late record."""
    _, wanted = folded(described, logs)
    return sorted(place[:3:2] for place, fate in wanted.fates.items() if fate == "late")


HOURLY_LOAD = log(
    "t",
    [
        (at(12, 5), "a", at(11, 59), at(11, 59)),
        (at(12, 7), "idle", None, at(11, 59)),
        (at(13, 5), "a", at(12, 30), at(12, 30)),
        (at(14, 5), "a", at(13, 30), at(13, 30)),
    ],
)
BUSY = log("u", [(at(12, 6), "a", at(12, 6), at(12, 6)), (at(13, 4), "a", at(13, 4), at(13, 4))])


def test_a_topic_that_loads_hourly_loses_nothing_because_another_node_merges_it_with_a_busy_one() -> None:
    assert counts(hourly(T), {"t": HOURLY_LOAD}) == {at(11): 1, at(12): 1}
    assert late(hourly(T), {"t": HOURLY_LOAD}) == []
    both = windows(T.merge(U), 10)
    assert late(both, {"t": HOURLY_LOAD, "u": BUSY}) == [("t", 1)], "12:30, and this node has been at 13:04"


def test_one_record_of_tomorrow_moves_a_node_no_further_than_the_wall_clock() -> None:
    tomorrow = log("u", [(at(12, 6), "a", at(36, 6), at(36, 6))])
    logs = {"t": HOURLY_LOAD, "u": tomorrow}
    reading = ChainedReading(hourly(T.merge(U)).named("both"), logs)
    assert reading.log.lowest[-1][1] <= at(14, 5) * MINUTE
    assert counts(hourly(T.merge(U)), logs) == {at(11): 1, at(12): 1}


def test_a_topic_without_records_holds_a_merge_until_it_is_idle() -> None:
    busy = [(at(12, minute), "a", at(12, minute), at(12, minute)) for minute in (1, 12, 14, 23)]
    silent: list[Row] = [(at(12), "complete", None, None)]
    node = windows(T.merge(U), 10)
    assert counts(node, {"t": log("t", busy), "u": log("u", silent)}) == {}
    silent.append((at(12, 13), "idle", None, None))
    assert counts(node, {"t": log("t", busy), "u": log("u", silent)}) == {at(12): 1, at(12, 10): 2}


def test_a_topic_without_records_does_not_hold_a_join_of_streams_once_it_is_idle() -> None:
    orders = log("t", [(at(12, 1), "a", at(12, 1), at(12, 1)), (at(12, 30), "b", at(12, 30), at(12, 30))])
    payments = log("u", [(at(12, 2), "idle", None, None)])
    joined = T.join(U.select("key", "value AS paid"), on="key", within=5 * MINUTE, grace=0, how="left")
    found, _ = folded(joined, {"t": orders, "u": payments})
    assert [(row["key"], row["paid"]) for row in found.rows()] == [("a", None)]


def test_a_table_as_of_the_log_holds_no_window_however_old_it_is() -> None:
    views = log("t", [(at(12, m), "a", at(12, m), at(12, m)) for m in (1, 2, 6, 11)])
    users = log("u", [(at(0, 1), "a", at(0, 1) - 500_000, at(0, 1) - 500_000)])
    seen = T.lookup(U.select("key", "value AS city").table(), on="key", complete_first=False)
    assert counts(windows(seen.as_stream(), 5), {"t": views, "u": users}) == {at(12): 2, at(12, 5): 1}


def test_records_that_wait_for_a_complete_table_are_not_late_downstream() -> None:
    orders = log(
        "t", [(1, "a", 1000, 1000), (2, "a", 2000, 2000), (6, "a", 2100, 2100), (7, "a", 2200, 2200)]
    )
    items = log("u", [(5, "a", 900, 900), (5, "complete", None, 900)], complete=5)
    filled = T.lookup(U.select("key", "value AS item").table(), on="key", complete_first=True)
    logs = {"t": orders, "u": items}
    assert late(windows(filled.as_stream(), 10), logs) == []
    assert counts(windows(filled.as_stream(), 10), logs) == {1000: 1, 2000: 1, 2100: 1}


def test_a_change_that_the_right_side_of_a_join_causes_is_not_late_downstream() -> None:
    left = log("t", [(1, "a", 100, 100), (3, "a", 101, 101)])
    right = log("u", [(2, "b", 50, 50), (4, "b", 51, 51), (5, "b", 90, 90)])
    other = U.select("key", "value AS other").table()
    node = windows(T.table().join(other, on="key", how="outer").changes().select("key", "other"), 10)
    logs = {"t": left, "u": right}
    assert late(node, logs) == []
    assert counts(node, logs) == {50: 2}


def test_deletes_of_a_merged_table_are_forgotten_at_the_same_commits_in_any_cuts() -> None:
    one = log("t", [(1, "a", 1, 1), (2, "idle", None, 1), (30, "a", 3, 3)])
    two = log("u", [(1, "b", 1, 1), (20, "b", 20, 20), (31, "b", 31, 31)])
    table = T.merge(U).table("timestamp", forget_deletes_after=10 * MINUTE)
    _, wanted = folded(table, {"t": one, "u": two})
    assert {row["key"]: row["value"] for row in wanted.rows} == {"a": 1, "b": 3}
    assert [place for place, fate in wanted.fates.items() if fate == "late"] == [("t", 0, 1)]

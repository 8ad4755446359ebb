"""The law of a reader's own time (L3, L4): logs whose topics fall silent, begin late, or have a wrong clock.

Each history is committed in three ways with the same rows and stream times, and each of these is folded in cuts and in one go.
`HEADRACE_IDLE_LOGS=10000` tries more histories.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

import headrace as hr
from headrace.description import Node, NodeOutput, with_unnamed
from headrace.engine.clocks import raised, times_of
from headrace.fold.contract import INGESTED, STREAM, Clock
from headrace.operators.registry import operator_for
from tests.laws.kernel.acts import acts
from tests.laws.kernel.chained import ChainedReading, TopicLog, log_of
from tests.laws.kernel.harness import run
from tests.laws.kernel.idle_logs import SECOND, features, history, logs_of, regrouped
from tests.laws.kernel.plans import ONE_GO, Plan
from tests.laws.kernel.reading import with_floor
from tests.laws.kernel.verdict import PER_BUCKET, Verdict

pytestmark = pytest.mark.fast

LOGS = int(os.environ.get("HEADRACE_IDLE_LOGS", "40"))
T, U, V = (hr.Topic(name, key="key STRING", value="value BIGINT") for name in "tuv")
CUT = Plan(sizes=(2, 1), buckets=(2, 1), crash=1)
Rows = Counter[str]


def windows(stream: Any, grace: int = 3) -> Any:
    made = stream.group_by("key").window(hr.hopping(10 * SECOND, 5 * SECOND), grace=grace * SECOND)
    return made.aggregate(value=hr.sum("value"), n=hr.count()).suppress(hr.until_window_closes())


def other(topic: Any) -> Any:
    return topic.select("key", "value AS other")


def timers(stream: Any, column: str, by: str = "key") -> Any:
    """A processor whose timers are seconds apart; those that repeat hours, since clocks may be a day ahead."""
    node = acts(stream.group_by(by), column, SECOND, 3600 * SECOND, order="time", grace=2 * SECOND)
    return replace(node, name=None)


MERGED = T.merge(U).merge(V)
NODES = {
    "windows of three topics": windows(MERGED),
    "windows without grace": windows(T.merge(U), grace=0),
    "sliding windows": T.merge(U)
    .group_by("key")
    .window(hr.sliding(3 * SECOND), grace=SECOND)
    .aggregate(n=hr.count())
    .suppress(hr.until_window_closes()),
    "a join of streams": T.join(other(U), on="key", within=4 * SECOND, grace=2 * SECOND, how="outer"),
    "a lookup as of the log": T.lookup(other(U).table(), on="key", complete_first=False),
    "a lookup as of event time": T.lookup(
        other(U).table(), on="key", as_of="event", history=9 * SECOND, complete_first=False
    ),
    "the earlier record": T.join_prior(other(U), on="key", grace=3 * SECOND),
    "windows after a lookup": windows(
        T.lookup(other(U).table(), on="key", complete_first=False).select("key", "value")
    ),
    "a join after windows": windows(T)
    .select("key", "value")
    .join(other(U), on="key", within=20 * SECOND, grace=SECOND, how="left"),
    "windows of a node and a topic": windows(
        T.lookup(other(V).table(), on="key", as_of="event", complete_first=False)
        .select("key", "value")
        .merge(U)
    ),
    "windows after windows": windows(windows(T.merge(U)).select("key", "value")),
    "timers of three topics": timers(MERGED, "value"),
    "timers after a lookup": timers(
        T.merge(U).lookup(other(V).table(), on="key", complete_first=False).select("key", "value"), "value"
    ),
    "timers after windows, and a topic": timers(windows(T).select("key", "value").merge(U), "value"),
    "two processors, regrouped": timers(
        timers(T.merge(U), "value").select("key", "kind", "what"), "what", by="kind"
    ),
    "deletes that are forgotten": T.merge(U).table("timestamp", forget_deletes_after=4 * SECOND),
}


@pytest.mark.parametrize("name", NODES)
def test_however_logs_are_committed_and_cut_values_and_event_times_are_the_same(name: str) -> None:
    *before, last = with_unnamed([NODES[name].named("last")])
    had: Counter[str] = Counter()
    for seed in range(LOGS // len(NODES) + 2):
        of = history(seed * len(NODES) + [*NODES].index(name), "tuv")
        had.update(feature for feature, there in features(of).items() if there)
        driving = operator_for((before or [last])[0]).driving
        ways = [of, *(regrouped(of, number, driving) for number in (1, 2))]
        had["fewer commits"] += any(len(way.commits) < len(of.commits) for way in ways)
        results = [made([*before, last], logs_of(way)) for way in ways]
        assert results[0] == results[1] == results[2], f"history {seed}"
    assert had["fewer commits"]
    assert LOGS < 1000 or len(had) == 5, had


def made(nodes: Sequence[Node], logs: dict[str, TopicLog]) -> Rows:
    """The rows of the last node, with their event times. Each node is held against its oracle, in cuts and in one go."""
    found: Rows = Counter()
    for node in nodes:
        reading = ChainedReading(node, logs)
        verdict, operator = Verdict(reading), reading.operator
        require_the_law(reading)
        outcomes = []
        for plan in (CUT, ONE_GO):
            outcome = run(operator.steps, reading, plan, PER_BUCKET, revised=operator.revises)
            verdict.compare(operator, outcome)
            outcomes.append(outcome)
        if operator.revises:
            names = [*node.columns, "__timestamp"]
            rows = outcomes[0].current(node.key).values()
            return Counter(repr([row[name] for name in names]) for row in rows)
        streamed, backfilled = (log_of(operator, each, logs) for each in outcomes)
        assert streamed.rows.to_pylist() == backfilled.rows.to_pylist()
        logs[NodeOutput.of(node).name] = streamed
        columns = [*node.columns, "__event_ms"]
        records = streamed.rows.filter(streamed.rows["__offset"].is_valid())
        found = Counter(map(repr, records.select(columns).to_pylist()))
    return found


def require_the_law(reading: ChainedReading) -> None:
    """The engine finds the oracle's time, also in two pieces; no record has a time below L before its commit."""
    feeds, upto = [*reading.feeds.values()], dict.fromkeys(reading.topics, 1 << 60)
    driving = operator_for(reading.node).driving
    whole = times_of(feeds, Clock(), upto, [], driving)
    wanted = [(at_ms, times.lowest_ms) for at_ms, times in reading.log.commits]
    assert [(at_ms, clock.lowest_ms) for at_ms, clock in whole.commits] == wanted
    lowest = [ms for _, ms in wanted if ms is not None]
    assert lowest == sorted(lowest), "L falls"
    for rows in feeds:
        seen = raised(rows, whole, driving)
        if len(driving) > 1 and set(driving) == set(reading.topics):
            assert seen[STREAM].to_pylist() == with_floor(rows, reading.log)[STREAM].to_pylist()
        dated = [
            (at, ms)
            for at, ms in zip(seen[INGESTED].to_pylist(), seen[STREAM].to_pylist(), strict=True)
            if ms is not None
        ]
        if set(driving) == set(reading.topics):
            assert all(
                ms >= max((low for at, low in wanted if at < when and low is not None), default=ms)
                for when, ms in dated
            ), "closed, and not late"
    if len(wanted) > 1:
        middle = wanted[len(wanted) // 2][0]
        first = times_of(
            [part(rows, 0, middle) for rows in feeds],
            Clock(),
            dict.fromkeys(reading.topics, middle),
            [],
            driving,
        )
        then = times_of([part(rows, middle, 1 << 60) for rows in feeds], first.after, upto, [], driving)
        assert then.after == whole.after


def part(rows: Any, after_ms: int, upto_ms: int) -> Any:
    """The rows of some commits."""
    at = rows[INGESTED].to_numpy()
    return rows.filter((at > after_ms) & (at <= upto_ms))

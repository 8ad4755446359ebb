"""The law of a reader's own time (L3, L4): logs whose topics fall silent, begin late, or have a wrong clock.

Each history is committed in three ways with the same rows and stream times, and each of these is folded in cuts and in one go.
The rows of nodes then have the same stream times and clocks, too. Only L before a row's commit may raise one in another way,
where a topic was left out; that node's results are not compared. `HEADRACE_IDLE_LOGS=10000` tries more histories, from
number `HEADRACE_IDLE_FIRST` on.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import headrace as hr
from headrace.description import Node, NodeOutput, is_of_kafka, with_unnamed
from headrace.engine.clocks import raised, times_of
from headrace.fold.contract import CAUSE, INGESTED, STREAM, Clock
from headrace.operators.registry import operator_for
from tests.laws.kernel.acts import acts
from tests.laws.kernel.chained import ChainedReading, TopicLog, log_of
from tests.laws.kernel.harness import run
from tests.laws.kernel.idle_logs import SECOND, features, history, logs_of, regrouped
from tests.laws.kernel.plans import ONE_GO, Plan
from tests.laws.kernel.reading import with_floor
from tests.laws.kernel.verdict import PER_BUCKET, Verdict

pytestmark = pytest.mark.fast

LOGS = int(os.environ.get("HEADRACE_IDLE_LOGS", "20"))
FIRST = int(os.environ.get("HEADRACE_IDLE_FIRST", "0"))
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
CALM = T.table().suppress(hr.until_time_limit(4 * SECOND))
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
    "sessions after a lookup": T.lookup(other(U).table(), on="key", complete_first=False)
    .select("key", "value")
    .group_by("key")
    .window(hr.session(3 * SECOND), grace=SECOND)
    .aggregate(n=hr.count())
    .suppress(hr.until_window_closes()),
    "sessions without grace after a lookup": T.lookup(other(U).table(), on="key", complete_first=False)
    .select("key", "value")
    .group_by("key")
    .window(hr.session(3 * SECOND), grace=0)
    .aggregate(n=hr.count())
    .suppress(hr.until_window_closes()),
    "windows after a lookup in time": windows(
        T.lookup(other(U).table(), on="key", as_of="event", complete_first=False).select("key", "value")
    ),
    "a join after windows": windows(T)
    .select("key", "value")
    .join(other(U), on="key", within=20 * SECOND, grace=SECOND, how="left"),
    "windows of a node and a topic": windows(
        T.lookup(other(V).table(), on="key", as_of="event", complete_first=False)
        .select("key", "value")
        .merge(U)
    ),
    "windows after a time limit": windows(CALM.select("key", "value")),
    "windows after a lookup after a time limit": windows(
        CALM.select("key", "value")
        .lookup(other(U).table(), on="key", complete_first=False)
        .select("key", "value")
    ),
    "windows after a time limit of windows": windows(
        T.group_by("key")
        .window(hr.hopping(10 * SECOND, 5 * SECOND), grace=SECOND)
        .aggregate(value=hr.sum("value"))
        .suppress(hr.until_time_limit(2 * SECOND))
        .select("key", "value")
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


# Another kind of windows, or three kinds in place of two. `tests/lives` draws such nodes, too.
ALIKE = (
    "sliding windows",
    "sessions without grace after a lookup",
    "windows after a lookup in time",
    "windows after a lookup after a time limit",
    "windows after a time limit of windows",
    "timers after a lookup",
)
LONG = (pytest.mark.slow, pytest.mark.long)


@pytest.mark.parametrize("name", [pytest.param(name, marks=LONG if name in ALIKE else ()) for name in NODES])
def test_however_logs_are_committed_and_cut_values_and_event_times_are_the_same(name: str) -> None:
    *before, last = with_unnamed([NODES[name].named("last")])
    had: Counter[str] = Counter()
    for seed in range(FIRST, FIRST + LOGS // len(NODES) + 2):
        of = history(seed * len(NODES) + [*NODES].index(name), "tuv")
        had.update(feature for feature, there in features(of).items() if there)
        driving = operator_for((before or [last])[0]).driving
        ways = [of, *(regrouped(of, number, driving) for number in (1, 2))]
        had["fewer commits"] += any(len(way.commits) < len(of.commits) for way in ways)
        made = [[*each_node([*before, last], logs_of(way))] for way in ways]
        had["compared to the end"] += sum(same(made[0], other, f"history {seed}") for other in made[1:])
    assert had["fewer commits"]
    assert had["compared to the end"] > LOGS // len(NODES)
    assert LOGS < 1000 or len(had) == 6, had


@dataclass(frozen=True)
class Made:
    """What one node of a pipeline reads and gives.

    read   its rows, with the stream times of their logs
    dated  with those that they have for the node, and L at the end
    rows   its results, with their event times; of a node that others read with stream times and clocks
    """

    read: Rows
    dated: Rows
    rows: Rows


def same(one: Sequence[Made], other: Sequence[Made], what: str) -> bool:
    """Whether all nodes have the same stream times, so that all results are the same."""
    for mine, theirs in zip(one, other, strict=True):
        assert mine.read == theirs.read, what
        if mine.dated != theirs.dated:
            return False
        assert mine.rows == theirs.rows, what
    return True


def each_node(nodes: Sequence[Node], logs: dict[str, TopicLog]) -> Iterator[Made]:
    """What each node gives. It is held against its oracle, in cuts and in one go."""
    for node in nodes:
        reading = ChainedReading(node, logs)
        verdict, operator = Verdict(reading), reading.operator
        read, dated = require_the_law(reading)
        outcomes = []
        for plan in (CUT, ONE_GO):
            outcome = run(operator.steps, reading, plan, PER_BUCKET, revised=operator.revises)
            verdict.compare(operator, outcome)
            outcomes.append(outcome)
        if operator.revises:
            names = [*node.columns, "__timestamp"]
            rows = outcomes[0].current(node.key).values()
            yield Made(read, dated, Counter(repr([row[name] for name in names]) for row in rows))
            return
        streamed, backfilled = (log_of(operator, each, logs) for each in outcomes)
        assert streamed.rows.to_pylist() == backfilled.rows.to_pylist()
        logs[NodeOutput.of(node).name] = streamed
        columns = [*decided_by_rows(node), "__event_ms", *(["__stream_ms"] if node is not nodes[-1] else [])]
        yield Made(read, dated, records_of(streamed.rows, columns) + records_of(streamed.by_clock, columns))


def decided_by_rows(node: Node) -> list[str]:
    """The columns of a node without those of a table as of the log, if it looks for rows of nodes: commits decide where
    these stand among the versions.
    """
    driving = {*operator_for(node).driving}
    waits = any(topic.name in driving and not is_of_kafka(topic) for topic in node.topics)
    return [
        name
        for name in node.columns
        if name != "other" or not waits or driving == {topic.name for topic in node.topics}
    ]


def records_of(rows: Any, columns: Sequence[str]) -> Rows:
    """The records among rows."""
    return Counter(map(repr, rows.filter(rows["__offset"].is_valid()).select(columns).to_pylist()))


def require_the_law(reading: ChainedReading) -> tuple[Rows, Rows]:
    """The engine finds the oracle's time, also in two pieces; no record has a time below L before its commit.

    Out: the records that the node reads, with the stream times of their logs; and with those for the node, and L at the end
    """
    read, dated_rows = Rows(), Rows()
    feeds, upto = [*reading.feeds.values()], dict.fromkeys(reading.topics, 1 << 60)
    driving = operator_for(reading.node).driving
    whole = times_of(feeds, Clock(), upto, [], driving)
    wanted = [(at_ms, times.lowest_ms) for at_ms, times in reading.log.commits]
    assert [(at_ms, clock.lowest_ms) for at_ms, clock in whole.commits] == wanted
    lowest = [ms for _, ms in wanted if ms is not None]
    assert lowest == sorted(lowest), "L falls"
    dated_rows[f"L {lowest[-1:]}"] += 1
    for rows in feeds:
        seen = raised(rows, whole, driving)
        columns = [name for name in rows.column_names if name not in (INGESTED, "__offset", CAUSE)]
        read += records_of(rows, columns)
        dated_rows += records_of(seen.filter(pc.is_in(seen["__topic"], pa.array(driving))), columns)
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
    return read, dated_rows


def part(rows: Any, after_ms: int, upto_ms: int) -> Any:
    """The rows of some commits."""
    at = rows[INGESTED].to_numpy()
    return rows.filter((at > after_ms) & (at <= upto_ms))

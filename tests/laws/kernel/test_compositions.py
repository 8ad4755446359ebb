"""The law of compositions: pipelines of up to six operators give the same tables and logs, however each of them is cut.

Each example is a random well-typed pipeline over random logs. Each node is folded in two ways: in random cuts, buckets and
pieces, with a crash, as a stream does, and in one go, as a backfill does. Both must lead to what the oracle finds, and to the
same log for those that read it; its readers go on from there. `HEADRACE_PIPELINES=2000` tries more.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.description import Node, NodeOutput, WindowedAggregate, is_of_kafka, with_unnamed
from headrace.engine.clocks import times_of
from headrace.fold.contract import Clock
from tests.laws.kernel.chained import ChainedReading, TopicLog, log_of, logs_of
from tests.laws.kernel.global_table_subjects import Finds
from tests.laws.kernel.harness import run
from tests.laws.kernel.logs import SECOND, World, worlds
from tests.laws.kernel.plans import ONE_GO, Plan, plans
from tests.laws.kernel.processor_subjects import Count, Sums
from tests.laws.kernel.subjects import T, U, small
from tests.laws.kernel.timelines import Records, timeline
from tests.laws.kernel.verdict import PER_BUCKET, Verdict

pytestmark = pytest.mark.fast

PIPELINES = int(os.environ.get("HEADRACE_PIPELINES", "30"))
OPERATORS_MAX = 6
Stream = Any
Step = Callable[[st.DrawFn, Stream, Stream], Any]


@dataclass(frozen=True)
class Pipeline:
    """Nodes, each after those that it reads, and for each how a stream folds it."""

    nodes: list[Node]
    plans: list[Plan]


def windows(draw: st.DrawFn, stream: Stream, other: Stream) -> Any:
    size, advance = draw(st.sampled_from([(10, 10), (6, 6), (10, 5), (7, 3)]))
    return closed(draw, stream, hr.hopping(size * SECOND, advance * SECOND))


def sessions(draw: st.DrawFn, stream: Stream, other: Stream) -> Any:
    return closed(draw, stream, draw(st.sampled_from([hr.session(2 * SECOND), hr.sliding(3 * SECOND)])))


def sessions_by_value(draw: st.DrawFn, stream: Stream, other: Stream) -> Any:
    """By another key, whose records lie in several partitions."""
    made = stream.key_by("value").group_by().window(hr.session(2 * SECOND), grace=3 * SECOND)
    totals = made.aggregate(key=hr.max("key"), n=hr.count())
    return totals.suppress(hr.until_window_closes())


def whole(draw: st.DrawFn, stream: Stream, other: Stream) -> Any:
    """Windows of the whole stream, which is one group."""
    window = draw(st.sampled_from([hr.tumbling(6 * SECOND), hr.hopping(10 * SECOND, 5 * SECOND)]))
    made = stream.window(window, grace=draw(st.sampled_from([0, 3 * SECOND])))
    return made.aggregate(key=hr.max("key"), n=hr.count()).suppress(hr.until_window_closes())


def whole_totals(draw: st.DrawFn, stream: Stream, other: Stream) -> Any:
    return stream.aggregate(n=hr.count(), newest=hr.last("value"))


def rekeyed_table(draw: st.DrawFn, stream: Stream, other: Stream) -> Any:
    return stream.key_by("value").table()


def closed(draw: st.DrawFn, stream: Stream, window: Any) -> Any:
    made = stream.group_by("key").window(window, grace=draw(st.sampled_from([0, 3 * SECOND])))
    return made.aggregate(n=hr.count(), total=hr.sum("value")).suppress(hr.until_window_closes())


def batches(draw: st.DrawFn, stream: Stream, other: Stream) -> Any:
    limits: list[dict[str, Any]] = [{"max_records": 2}, {"max_wait": "2 seconds"}, {"max_bytes": 20}]
    limits.append({"max_records": 3, "every": "2 seconds"})
    return stream.group_by("key").batch(collect=["value"], **draw(st.sampled_from(limits)))


def lookup(draw: st.DrawFn, stream: Stream, other: Stream) -> Any:
    found = other.select("key", "value AS other").table()
    as_of, first = draw(st.sampled_from(["log", "event"])), draw(st.booleans())
    first = first and all(map(is_of_kafka, found.topics))
    return stream.lookup(found, on="key", as_of=as_of, complete_first=first)


def waits(draw: st.DrawFn, stream: Stream, other: Stream) -> Any:
    totals = stream.group_by("key").aggregate(n=hr.count(), newest=hr.last("value"))
    return totals.suppress(hr.until_time_limit(draw(st.sampled_from([0, 4 * SECOND]))))


def joined(draw: st.DrawFn, stream: Stream, other: Stream) -> Any:
    how = draw(st.sampled_from(["inner", "left", "outer"]))
    second = other.select("key", "value AS other")
    return stream.join(second, on="key", within="4 seconds", grace="2 seconds", how=how)


def merged(draw: st.DrawFn, stream: Stream, other: Stream) -> Any:
    return stream.merge(other).group_by("key").batch(collect=["value"], max_records=3)


def branches(draw: st.DrawFn, stream: Stream, other: Stream) -> Any:
    """Two branches of one stream."""
    return stream.select("key", "value").merge(stream.select("key", "value"))


def distinct(draw: st.DrawFn, stream: Stream, other: Stream) -> Any:
    within, grace = draw(st.sampled_from([(3, None), (9, 1), (1, 6)]))
    return stream.distinct("key", within=within * SECOND, grace=None if grace is None else grace * SECOND)


def flattened(draw: st.DrawFn, stream: Stream, other: Stream) -> Any:
    made = stream.group_by("key").window(
        hr.tumbling(6 * SECOND), grace=draw(st.sampled_from([0, 3 * SECOND]))
    )
    values = made.aggregate(some=hr.collect("value", 3)).suppress(hr.until_window_closes())
    return values.as_stream().flat_map("some AS found", ordinal="place")


def processed(draw: st.DrawFn, stream: Stream, other: Stream) -> Any:
    grouped = stream.group_by("key") if draw(st.booleans()) else stream
    output, store = "key STRING, n BIGINT, value BIGINT", hr.value_store("count", "n BIGINT")
    return grouped.process(Count, output=output, stores=[store])


def with_previous(draw: st.DrawFn, stream: Stream, other: Stream) -> Any:
    order = draw(st.sampled_from([{}, {"order": "time"}, {"order": "time", "grace": "2 seconds"}]))
    grouped = stream.select("key", "value AS read").group_by("key")
    return grouped.with_previous(before="read", value=hr.increase("read"), **order)


def looked_up(draw: st.DrawFn, stream: Stream, other: Stream) -> Any:
    """Of the table, or of the changes of a table, that another stream makes."""
    is_grouped = draw(st.booleans())
    grouped = stream.group_by("key") if is_grouped else stream
    table = draw(
        st.sampled_from([other.table(), other.group_by("key").aggregate(value=hr.max("value"), n=hr.count())])
    )
    waits: dict[str, Any] = {"stream_wait": "3 seconds", "wall_wait": "2 seconds"}
    waits |= {"order": "log"} if is_grouped else {}
    return grouped.process(
        Finds, output="key STRING, n BIGINT, found BIGINT", stores=[hr.global_table("others", table)], **waits
    )


def summed(draw: st.DrawFn, stream: Stream, other: Stream) -> Any:
    clock, wait = draw(st.sampled_from([("stream", "stream_wait"), ("wall", "wall_wait")]))
    output, store = (
        "at TIMESTAMP, key BIGINT, value BIGINT, stream TIMESTAMP",
        hr.key_value_store("sums", "k BIGINT", "n BIGINT"),
    )
    order = draw(st.sampled_from(["log", "time"]))
    waits: dict[str, Any] = {wait: "3 seconds", "order": order}
    return stream.group_by("key").process(
        partial(Sums, "3 seconds", clock), output=output, stores=[store], **waits
    )


def totals(draw: st.DrawFn, stream: Stream, other: Stream) -> Any:
    return stream.group_by("key").aggregate(n=hr.count(), total=hr.sum("value"))


def tables(draw: st.DrawFn, stream: Stream, other: Stream) -> Any:
    how = draw(st.sampled_from(["inner", "left", "outer"]))
    return stream.table().join(other.select("key", "value AS other").table(), on="key", how=how)


def regrouped(draw: st.DrawFn, stream: Stream, other: Stream) -> Any:
    return stream.table().group_by("value").aggregate(n=hr.count())


GOING_ON: dict[str, tuple[Step, str]] = {  # each with what becomes the value of the stream that goes on
    "windows": (windows, "n"),
    "windows of totals": (windows, "total"),
    "sessions": (sessions, "n"),
    "sessions by another key": (sessions_by_value, "n"),
    "windows of a whole stream": (whole, "n"),
    "batches": (batches, "records"),
    "lookup": (lookup, "other"),
    "time limit": (waits, "newest"),
    "join of streams": (joined, "other"),
    "merged batches": (merged, "records"),
    "flat map": (flattened, "found"),
    "distinct": (distinct, "value"),
    "merged branches": (branches, "value"),
    "processor": (processed, "n"),
    "previous values": (with_previous, "before"),
    "increases": (with_previous, "value"),
    "processor of a table": (looked_up, "found"),
}
ENDS: dict[str, Step] = {
    "totals": totals,
    "processor with timers": summed,
    "join of tables": tables,
    "grouped table": regrouped,
    "table by another key": rekeyed_table,
    "totals of a whole stream": whole_totals,
}
ON_RECORD_KEYS = {
    "lookup",
    "processor of a table",
    "join of streams",
    "join of tables",
    "grouped table",
}  # of windows and batches it is another one


@st.composite
def pipelines(draw: st.DrawFn) -> Pipeline:
    """Each operator reads the one before, and some read an earlier stream beside it."""
    streams: list[Stream] = [U.stream, T.stream]
    keyed: list[Stream] = [*streams]  # by their column `key`
    nodes: list[Node] = []

    def extended(kind: str, step: Step) -> Any:
        read, others = (keyed[-1], keyed) if kind in ON_RECORD_KEYS else (streams[-1], streams)
        beside = [each for each in others if not {*each.topics} & {*read.topics}]
        return step(draw, read, draw(st.sampled_from(beside)))

    for number, kind in enumerate(
        draw(st.lists(st.sampled_from([*GOING_ON]), min_size=1, max_size=OPERATORS_MAX - 1))
    ):
        step, value = GOING_ON[kind]
        node = extended(kind, step).named(f"node_{number}")
        going_on = node.as_stream() if isinstance(node, WindowedAggregate) else node
        streams.append(going_on.select("key", f"{value} AS value"))
        if node.key == ("key",):
            keyed.append(streams[-1])
        nodes += with_unnamed([node])
    end = draw(st.sampled_from([*ENDS]))
    nodes.append(extended(end, ENDS[end]).named("end"))
    return Pipeline(nodes, [draw(plans()) for _ in nodes])


@settings(
    deadline=None,
    max_examples=PIPELINES,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(pipelines(), worlds(small, pa.int64(), ("t", "u"), controls=("drain", "complete", "control")))
def test_a_pipeline_gives_what_its_oracles_give_and_tells_the_same_to_its_readers(
    pipeline: Pipeline, world: World
) -> None:
    logs = logs_of(world)
    for node, plan in zip(pipeline.nodes, pipeline.plans, strict=True):
        streamed = check(node, plan, logs)
        if streamed is not None:
            event(f"rows through {type(node).__name__}: {min(streamed.rows.num_rows // 5 * 5, 20)}")
            logs[NodeOutput.of(node).name] = streamed


def test_clocks_are_those_that_the_engine_reads_also_where_rows_leave_between_two_commits() -> None:
    waits = T.group_by("key").aggregate(value=hr.max("value"))
    calm = waits.suppress(hr.until_time_limit("1500 ms", clock="wall"))
    told = (
        calm.as_stream()
        .group_by("key")
        .process(
            partial(Sums, "1 second", "wall"),
            output="at TIMESTAMP, key BIGINT, value BIGINT, stream TIMESTAMP",
            stores=[hr.key_value_store("sums", "k BIGINT", "n BIGINT")],
            wall_wait="1 second",
        )
    )
    came: dict[int, Records] = {1: [("a", 1, 0)], 2: [("b", 2, 0)], 4: [("a", 3, 0)], 9: [("a", 3, 0)]}
    logs = logs_of(timeline(pa.int64(), {"t": came}))
    *before, last = with_unnamed([told.named("sums")])
    for node in before:
        log = check(node, ONE_GO, logs)
        assert log is not None
        logs[NodeOutput.of(node).name] = log
    reading = ChainedReading(last, logs)
    upto = dict.fromkeys(reading.topics, 9_000)
    _, times = reading.increment({}, upto)
    read = times_of([*reading.feeds.values()], Clock(), upto, [], reading.topics)
    assert [at for at, _ in read.commits] == [1_000, 2_000, 2_500, 3_500, 4_000, 5_500, 9_000]
    assert [(at, dict(clock.stream_ms)) for at, clock in times.commits] == [
        (at, dict(clock.stream_ms)) for at, clock in read.commits
    ]
    check(last, Plan(sizes=(1,), buckets=(2,)), logs)


def check(node: Node, plan: Plan, logs: dict[str, TopicLog]) -> TopicLog | None:
    """Hold one node against its oracle, streamed and in one go. Out: its log; None: it is a table, which nobody reads."""
    reading = ChainedReading(node, logs)
    verdict = Verdict(reading)
    told = []
    for each in (plan, replace(ONE_GO, seed=plan.seed)):
        steps, revised = reading.operator.steps, reading.operator.revises
        found = run(steps, reading, each, PER_BUCKET, revised=revised)
        verdict.compare(reading.operator, found)
        if not revised:
            told.append(log_of(reading.operator, found, logs))
    if not told:
        return None
    streamed, backfilled = told
    assert streamed.clocks == backfilled.clocks
    assert streamed.rows.to_pylist() == backfilled.rows.to_pylist()
    return streamed

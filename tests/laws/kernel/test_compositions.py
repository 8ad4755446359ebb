"""The law of compositions: pipelines of up to six operators give the same tables and logs, however each of them is cut.

Each example is a random well-typed pipeline over random logs. Each node is folded in two ways: in random cuts, buckets and
pieces, with a crash, as a stream does, and in one go, as a backfill does. Both must lead to what the oracle finds, and to the
same log for those that read it; its readers go on from there. `HEADRACE_PIPELINES=2000` tries more.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, event, given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.description import Node, NodeOutput, with_unnamed
from headrace.engine.clocks import times_of
from headrace.fold.contract import Clock
from tests.laws.kernel.chained import ChainedReading, TopicLog, log_of, logs_of
from tests.laws.kernel.harness import run
from tests.laws.kernel.logs import World, worlds
from tests.laws.kernel.pipelines import ENDS, GOING_ON, Pipeline
from tests.laws.kernel.plans import ONE_GO, Plan, plans
from tests.laws.kernel.processor_subjects import Sums
from tests.laws.kernel.subjects import T, U, small
from tests.laws.kernel.timelines import Records, timeline
from tests.laws.kernel.verdict import PER_BUCKET, Verdict

pytestmark = pytest.mark.fast

PIPELINES = int(os.environ.get("HEADRACE_PIPELINES", "12"))
OPERATORS_MAX = 6


@dataclass(frozen=True)
class Drawn:
    """Nodes, each after those that it reads, and for each how a stream folds it."""

    nodes: list[Node]
    plans: list[Plan]


@st.composite
def pipelines(draw: st.DrawFn) -> Drawn:
    """Each operator reads the one before, and some read an earlier stream, too."""
    made = Pipeline(U.stream, T.stream)

    def choose(some: Sequence[Any]) -> Any:
        return draw(st.sampled_from(some))

    kinds = draw(st.lists(st.sampled_from([*GOING_ON]), min_size=1, max_size=OPERATORS_MAX - 1))
    for number, kind in enumerate(kinds):
        made.add(kind, choose, f"node_{number}")
    made.add(choose([*ENDS]), choose, "end")
    return Drawn(made.nodes, [draw(plans()) for _ in made.nodes])


@settings(
    deadline=None,
    max_examples=PIPELINES,
    phases=[Phase.explicit, Phase.generate],
)
@given(pipelines(), worlds(small, pa.int64(), ("t", "u"), controls=("drain", "complete", "control")))
def test_a_pipeline_gives_what_its_oracles_give_and_tells_the_same_to_its_readers(
    pipeline: Drawn, world: World
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

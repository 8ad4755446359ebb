"""Boundaries that random logs seldom meet, as timelines: seconds of event time, one log commit after another."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.fold.keys import with_keys
from headrace.operators.sessions.fold import Sessions
from headrace.operators.windows.sliding import SlidingWindows
from tests.laws.kernel.harness import Outcome, run
from tests.laws.kernel.logs import SECOND, Sequenced, World
from tests.laws.kernel.plans import Plan
from tests.oracle.log_oracle import Arrival, Commit, sequence

pytestmark = pytest.mark.fast

TOPIC = hr.Topic("t", key="key STRING", value="value BIGINT")
EACH, ALL = Plan(sizes=(1,), buckets=(2, 1, 5), seed=11), Plan(seed=11)
PLANS = pytest.mark.parametrize("plan", [EACH, ALL], ids=["commit by commit", "at once"])


def log(*commits: str) -> World:
    """Each commit as `key@second` of its records, all in one partition."""
    arrivals = [[record.split("@") for record in commit.split()] for commit in commits]
    made = [
        Commit(1_000_000 + number, [Arrival(0, key, int(float(at) * SECOND), 1) for key, at in records])
        for number, records in enumerate(arrivals)
    ]
    return World([Sequenced("t", sequence(made, None, 0))], pa.int64())


def sessions(world: World, plan: Plan, gap: int, grace: int) -> tuple[Sessions, Outcome]:
    windowed = TOPIC.group_by().window(hr.session(gap * SECOND), grace=grace * SECOND)
    operator = Sessions.of(windowed.aggregate(n=hr.count()), world.schema)
    return operator, run(operator.steps, world, plan)


def shown(rows: list[dict[str, Any]]) -> list[tuple[str, float, float, int]]:
    """Key, start and end in seconds, number of records."""
    return sorted(
        (row["key"], row["window_start"].timestamp(), row["window_end"].timestamp(), row["n"]) for row in rows
    )


@PLANS
def test_without_grace_two_events_exactly_one_gap_apart_are_one_session(plan: Plan) -> None:
    _, found = sessions(log("a@10", "a@12", "b@50"), plan, gap=2, grace=0)
    assert shown(found.rows()) == [("a", 10, 12, 2)]


@PLANS
def test_without_grace_another_key_that_raises_stream_time_first_closes_the_session(plan: Plan) -> None:
    world = log("a@10", "b@12 a@12", "b@50")
    _, found = sessions(world, plan, gap=2, grace=0)
    assert shown(found.rows()) == [("a", 10, 10, 1), ("a", 12, 12, 1), ("b", 12, 12, 1)]


@PLANS
def test_a_session_that_grows_leaves_nothing_under_its_old_bounds(plan: Plan) -> None:
    world = log("a@10", "a@11", "a@12", "b@13")
    operator, found = sessions(world, plan, gap=2, grace=5)
    (state,) = found.state[-1].values()
    expected = [("a", 10, 12, 3), ("b", 13, 13, 1)]
    assert shown(operator.open_windows(state, found.clock).to_pylist()) == expected
    _, found = sessions(log("a@10", "a@11", "a@12", "b@13", "c@50"), plan, gap=2, grace=5)
    assert shown(found.rows()) == expected


@PLANS
def test_a_record_between_two_open_sessions_makes_one_of_them(plan: Plan) -> None:
    _, found = sessions(log("a@10", "a@13", "a@11.5", "b@50"), plan, gap=2, grace=5)
    assert shown(found.rows()) == [("a", 10, 13, 3)]


@PLANS
def test_a_record_that_enters_no_sliding_window_is_late_once_none_can_come(plan: Plan) -> None:
    world = log("b@20", "a@18", "b@24")
    windowed = TOPIC.group_by().window(hr.sliding(5 * SECOND), grace=SECOND)
    operator = SlidingWindows.of(windowed.aggregate(n=hr.count()), world.schema)
    found = run(operator.steps, world, plan)
    assert found.fates == Counter({("t", 0, "kept"): 2, ("t", 0, "late"): 1})
    assert [row["key"] for row in found.rows()] == ["b"]


@PLANS
def test_a_record_whose_own_sliding_window_is_closed_enters_a_later_one(plan: Plan) -> None:
    world = log("b@20", "a@21 a@18", "b@40")
    windowed = TOPIC.group_by().window(hr.sliding(5 * SECOND), grace=SECOND)
    operator = SlidingWindows.of(windowed.aggregate(n=hr.count()), world.schema)
    found = run(operator.steps, world, plan)
    assert shown(found.rows()) == [("a", 16, 21, 2), ("a", 18.001, 23.001, 1), ("b", 15, 20, 1)]
    assert found.fates == Counter({("t", 0, "kept"): 4})


def test_updates_tell_each_sliding_window_as_it_was_after_each_micro_batch() -> None:
    world = log("a@10", "a@12 b@12", "a@11", "b@13 a@10", "a@16")
    windowed = TOPIC.group_by().window(hr.sliding(5 * SECOND), grace=100 * SECOND)
    operator = SlidingWindows.of(
        windowed.aggregate(n=hr.count(), some=hr.collect("value", max_items=9)), world.schema
    )
    (step,) = operator.steps
    states, upto, expected = [], dict[str, int](), {}
    for batch, at in enumerate(world.commits(), 1):
        rows, times = world.increment(upto, {"t": at})
        upto = {"t": at}
        gained = step.fold(with_keys(rows, ["key"]), {}, times).changes["points"]
        states.append(
            gained.append_column("__batch", pa.repeat(pa.scalar(batch, pa.int32()), gained.num_rows))
        )
        state = step.state["points"].merge(pa.concat_tables(states))
        expected[batch] = shown(operator.open_windows(state, times.after).to_pylist())
    told = operator.updates(pa.concat_tables(states), times.after).to_pylist()
    for batch, windows in expected.items():
        upto_now = sorted((row for row in told if row["__batch"] <= batch), key=lambda row: row["__batch"])
        last = {(row["key"], row["window_end"]): row for row in upto_now}
        assert shown([*last.values()]) == windows

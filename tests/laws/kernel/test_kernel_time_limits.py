"""What the law of every operator leaves out of time limits: when too much waits, and the stream has to stop."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace import oracle
from headrace.fold.contract import Clock, Times
from tests.laws.kernel.harness import run
from tests.laws.kernel.logs import World, worlds
from tests.laws.kernel.plans import Plan, plans
from tests.laws.kernel.reading import Reading
from tests.laws.kernel.subjects import TOTALS, T, whole
from tests.laws.kernel.timelines import made, timeline

pytestmark = pytest.mark.fast

FEW = settings(max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "6")), deadline=None)


@FEW
@given(world=worlds(whole, pa.int64(), controls=()), plan=plans(), most=st.integers(1, 4))
def test_a_stream_is_stopped_by_the_first_commit_after_which_too_much_waits(
    world: World, plan: Plan, most: int
) -> None:
    policy = hr.until_time_limit("20 seconds", max_records=most, when_full="shut_down")
    reading = Reading(T.group_by().aggregate(**TOTALS[0]).suppress(policy).named("stops"), world)
    waiting = oracle.results(reading.node, reading.log).waiting
    over = sorted((at, p, records) for (p, at), (records, _) in waiting.items() if records > most)
    found = run(reading.operator.steps, reading, plan)
    refusals = [
        reading.operator.kernel.judged({"waiting": [table]}, Times(Clock(), Clock()), {})[1]
        for table in found.outputs["waiting"]
    ]
    first = next((str(each) for each in refusals if each), None)
    assert (first is None) == (not over)
    if over:
        said = f"{over[0][2]} records of suppressed updates would wait in partition {over[0][1]}; "
        assert said in str(first)


def test_rows_of_one_key_and_commit_are_told_apart_if_the_wall_clock_limits_nothing() -> None:
    """Each record has a wait of its own. The three waits begin and end at one moment."""
    policy = hr.until_time_limit("0 s", clock="wall")
    node = T.group_by().aggregate(**TOTALS[1]).suppress(policy).named("at_once")
    log = timeline(pa.int64(), {"t": {1: [("a", 1, 0.0), ("a", 2, 9.0), ("a", 3, 9.0)], 2: [("b", 1, 10.0)]}})
    assert [row["known"] for row in made(node, log)] == [1, 2, 3, 1]

"""Updates of windows that records make fold to the windows that are open, whatever the cuts."""

from __future__ import annotations

import os
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import oracle
from tests.laws.kernel.harness import run
from tests.laws.kernel.logs import World, worlds
from tests.laws.kernel.plans import Plan, plans
from tests.laws.kernel.reading import Reading
from tests.laws.kernel.subjects import Subject, session_subjects, sliding_subjects, whole
from tests.laws.kernel.verdict import same_rows

pytestmark = pytest.mark.fast

EXAMPLES = settings(max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "12")), deadline=None)
WORLDS = worlds(whole, pa.int64())


@EXAMPLES
@given(st.sampled_from(sliding_subjects()), WORLDS, plans())
def test_the_last_update_of_an_open_sliding_window_is_the_window(
    subject: Subject, world: World, plan: Plan
) -> None:
    reading = Reading(subject.node, world)
    found, kernel = run(reading.operator.steps, reading, plan), cast("Any", reading.operator.kernel)
    told: list[Any] = kernel.updates(found.state[-1]["points"], found.clock).sort_by("__batch").to_pylist()
    last = {(row["key"], row["window_end"]): row for row in told}
    same_rows(last.values(), oracle.results(reading.node, reading.log).open)


@EXAMPLES
@given(st.sampled_from(session_subjects()), WORLDS, plans())
def test_the_updates_of_open_sessions_are_the_sessions(subject: Subject, world: World, plan: Plan) -> None:
    reading = Reading(subject.node, world)
    found, kernel = run(reading.operator.steps, reading, plan), cast("Any", reading.operator.kernel)
    told: list[Any] = kernel.updates(found.state[-1]["open_sessions"], found.clock).to_pylist()
    wait, times = reading.node.longest_wait_ms, found.clock.stream_ms
    still = [
        row
        for row in told
        if not row["__deleted"] and row["__timestamp"] + wait > times["t", row["__partition"]]
    ]
    same_rows(still, oracle.results(reading.node, reading.log).open)

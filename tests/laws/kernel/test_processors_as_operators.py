"""Processors that do by hand what an operator does: on any log both make the same."""

from __future__ import annotations

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

import headrace as hr
from headrace.description import Node
from tests.laws.kernel.harness import run
from tests.laws.kernel.logs import World, worlds
from tests.laws.kernel.plans import ONE_GO, Plan, plans
from tests.laws.kernel.processor_subjects import Batch, Count
from tests.laws.kernel.reading import Reading
from tests.laws.kernel.subjects import T, U, whole
from tests.laws.kernel.test_every_operator import SETTINGS

pytestmark = pytest.mark.fast

WORLDS = worlds(whole, pa.int64(), ("t", "u"), log_commits=(2, 4), controls=("drain",))
BOTH = T.merge(U).group_by("key")
EVENTS = hr.key_value_store("events", "n BIGINT", "event BIGINT")
COUNT = hr.value_store("count", "n BIGINT")
BATCHED = BOTH.process(
    Batch,
    output="key STRING, events ARRAY<BIGINT>, at TIMESTAMP",
    stores=[EVENTS, COUNT],
    wall_wait="2 seconds",
).named("by_hand")
COUNTED = BOTH.process(Count, output="key STRING, n BIGINT, value BIGINT", stores=[COUNT]).named("by_hand")


def rows(node: Node, world: World, plan: Plan = ONE_GO) -> list[dict[str, object]]:
    reading = Reading(node, world)
    return run(reading.operator.steps, reading, plan, revised=reading.operator.revises).rows()


@settings(SETTINGS, max_examples=40)
@given(WORLDS, plans())
def test_batches_by_hand_are_those_of_the_operator(world: World, plan: Plan) -> None:
    operator = BOTH.batch(collect=["value"], max_records=3, max_wait="2 seconds").named("batches")
    wanted = [
        repr(({"key": row["key"]}, [event["value"] or 0 for event in row["events"]]))  # type: ignore[attr-defined]
        for row in rows(operator, world)
    ]
    found = [f"({row['key']}, {row['events']})" for row in rows(BATCHED, world, plan)]
    assert sorted(found) == sorted(wanted)


@settings(SETTINGS, max_examples=40)
@given(st.data())
def test_counts_by_hand_are_those_of_the_aggregate(data: st.DataObject) -> None:
    world = data.draw(WORLDS)
    wanted = {row["key"]: row["n"] for row in rows(BOTH.aggregate(n=hr.count()).named("counts"), world)}
    found: dict[object, object] = {}
    for row in rows(COUNTED, world, data.draw(plans())):
        found[row["key"]] = max(int(str(row["n"])), int(str(found.get(row["key"], 0))))
    assert found == wanted

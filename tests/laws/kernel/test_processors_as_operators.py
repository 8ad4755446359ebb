"""Processors that do by hand what an operator does: on any log both make the same."""

from __future__ import annotations

import datetime as dt
import json

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


GAP, GRACE = 2, 3  # seconds


class Sessions(hr.Processor):
    """Session windows of a partition's keys; a timer for each end closes those that are over."""

    def init(self, context: hr.Context) -> None:
        self.context, self.open = context, context.session_store("open")

    def process(self, record: hr.Record) -> None:
        time, now = record.timestamp, record.stream_time
        key = json.dumps(record["key"])  # null is a group, but no key of a store
        if time is None or now is None:
            return
        gap, start, end, n = dt.timedelta(seconds=GAP), time, time, 1
        near = self.open.find(key, first=time - gap, last=time + gap)
        met = [each for each in near if not is_over(each[1], now)]
        for first, last, known in met:
            start, end, n = min(start, first), max(end, last), n + known
        if is_over(end, now):
            return
        for first, last, _ in met:
            self.open.delete(key, start=first, end=last)
        self.open.put(key, n, start=start, end=end)
        over = end + dt.timedelta(seconds=GAP + GRACE)
        self.context.schedule(over - now, self.end, name=f"{end}", once=True)

    def end(self, moment: dt.datetime) -> None:
        for key, start, end, n in self.open.all():
            if is_over(end, moment):
                self.context.forward(key=json.loads(key), window_start=start, window_end=end, n=n)
                self.open.delete(key, start=start, end=end)


def is_over(end: dt.datetime, now: dt.datetime) -> bool:
    return end + dt.timedelta(seconds=GAP + GRACE) <= now


def rows(node: Node, world: World, plan: Plan = ONE_GO) -> list[dict[str, object]]:
    reading = Reading(node, world)
    return run(reading.operator.steps, reading, plan, revised=reading.operator.revises).rows()


@settings(SETTINGS, max_examples=15)
@given(WORLDS, plans())
def test_batches_by_hand_are_those_of_the_operator(world: World, plan: Plan) -> None:
    operator = BOTH.batch(collect=["value"], max_records=3, max_wait="2 seconds").named("batches")
    wanted = [
        repr(({"key": row["key"]}, [event["value"] or 0 for event in row["events"]]))  # type: ignore[attr-defined]
        for row in rows(operator, world)
    ]
    found = [f"({row['key']}, {row['events']})" for row in rows(BATCHED, world, plan)]
    assert sorted(found) == sorted(wanted)


@settings(SETTINGS, max_examples=15)
@given(st.data())
def test_counts_by_hand_are_those_of_the_aggregate(data: st.DataObject) -> None:
    world = data.draw(WORLDS)
    wanted = {row["key"]: row["n"] for row in rows(BOTH.aggregate(n=hr.count()).named("counts"), world)}
    found: dict[object, object] = {}
    for row in rows(COUNTED, world, data.draw(plans())):
        found[row["key"]] = max(int(str(row["n"])), int(str(found.get(row["key"], 0))))
    assert found == wanted


@settings(SETTINGS, max_examples=20)
@given(worlds(whole, pa.int64(), log_commits=(3, 5), controls=()), plans())
def test_sessions_by_hand_are_those_of_the_operator(world: World, plan: Plan) -> None:
    lives = GAP + GRACE + 1  # until then the timer has to find a session
    by_hand = T.process(
        Sessions,
        output="key STRING, window_start TIMESTAMP, window_end TIMESTAMP, n BIGINT",
        stores=[hr.session_store("open", "key STRING", "n BIGINT", retention=f"{lives} seconds")],
        stream_wait="1 hour",
    ).named("by_hand")
    grouped = T.group_by().window(hr.session(f"{GAP} seconds"), grace=f"{GRACE} seconds")
    told = "key", "window_start", "window_end", "n", "__sequence"
    wanted, found = (
        sorted(repr([row[name] for name in told]) for row in each)
        for each in (
            rows(grouped.aggregate(n=hr.count()).named("sessions"), world),
            rows(by_hand, world, plan),
        )
    )
    assert found == wanted

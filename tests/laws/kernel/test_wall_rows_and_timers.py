"""Rows that leave by the wall clock, before timers by stream time: a year that is read again calls what the year called."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pyarrow as pa
import pytest

import headrace as hr
from headrace.description import NodeOutput
from tests.laws.kernel.chained import ChainedReading, log_of, logs_of
from tests.laws.kernel.harness import run
from tests.laws.kernel.test_timer_scenarios import DAY, HOUR, MINUTE, Unpaid
from tests.laws.kernel.timelines import timeline

pytestmark = pytest.mark.fast

ORDERS = hr.Topic("orders", key="key STRING", value="value STRING", idle_timeout=None)
READ_AT = 60 * MINUTE  # the first commit, after the records' own hour has begun


class Reminded(hr.Processor):
    """Passes each order on; ten seconds of the wall clock later it adds a reminder."""

    def init(self, context: hr.Context) -> None:
        self.context = context

    def process(self, record: hr.Record) -> None:
        self.context.forward(key=record["key"], status=record["value"])
        if record["value"] == "placed":
            self.context.schedule("10 seconds", self.remind, clock="wall", once=True)

    def remind(self, moment: dt.datetime) -> None:
        self.context.forward(key=self.context.key["key"], status="reminded")


class Patient(Unpaid):
    """Tells of each order that is not paid within an hour. A reminder counts for nothing."""

    def __init__(self) -> None:
        super().__init__("key")

    def process(self, record: hr.Record) -> None:
        if record["status"] != "reminded":
            super().process(record)


REMINDED = (
    ORDERS.group_by("key")
    .process(Reminded, output="key STRING, status STRING", wall_wait="10 seconds")
    .named("reminded")
)
PATIENT = (
    REMINDED.select("key", "status")
    .group_by("key")
    .process(
        Patient,
        output="order_id STRING, status STRING, at TIMESTAMP",
        stores=[hr.value_store("status", "status STRING")],
        stream_wait="1 hour",
        order="log",
    )
    .named("patient")
)


@pytest.mark.parametrize("later", [0.0, 365 * DAY])
def test_a_row_by_the_wall_clock_calls_no_stream_timers_however_much_later_the_log_is_read(
    later: float,
) -> None:
    """A reminder has the event time of its commit, a year beyond the records; its clock is the stream time before it.

    By the higher one of event time and stream time the reminder of `a` would call the timer of 1:00 before `a` is paid at 0:30.
    """
    start = later + READ_AT
    commits: dict[float, Sequence[tuple[str, str, float]]] = {
        start: [("a", "placed", 0.0), ("b", "placed", MINUTE)],
        start + MINUTE: [("c", "placed", 2 * MINUTE)],  # the reminders of the first two are due
        start + 2 * MINUTE: [("a", "paid", 30 * MINUTE), ("c", "paid", 61 * MINUTE)],
        start + 3 * MINUTE: [("d", "placed", 3 * HOUR)],
    }
    logs = logs_of(timeline(pa.string(), {"orders": {round(at): each for at, each in commits.items()}}))
    first = ChainedReading(REMINDED, logs)
    reminded = run(first.operator.steps, first)
    reminders = sorted(row["__timestamp"] for row in reminded.rows() if row["status"] == "reminded")
    assert reminders[:2] == [round((start + 10) * 1_000)] * 2
    logs[NodeOutput.of(REMINDED).name] = log_of(first.operator, reminded, logs)
    behind = ChainedReading(PATIENT, logs)
    rows = run(behind.operator.steps, behind).rows()
    hour = dt.datetime(1970, 1, 1, 1, 1, tzinfo=dt.UTC)
    assert [(row["order_id"], row["at"]) for row in rows] == [("b", hour)]

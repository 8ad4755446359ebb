"""Timers, entries that end, and the order of time, as timelines: each log committed in several ways gives the same rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.description import Node, NodeOutput
from tests.laws.kernel.chained import ChainedReading, log_of, logs_of
from tests.laws.kernel.harness import run
from tests.laws.kernel.logs import Sequenced, World
from tests.laws.kernel.timelines import Records, made, timeline
from tests.oracle.log_oracle import Arrival, Commit, sequence

pytestmark = pytest.mark.fast

ORDERS = hr.Topic("orders", key="order_id STRING", value="status STRING")
READINGS = hr.Topic("readings", key="sensor STRING", value="value BIGINT", idle_timeout=None)
MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0
Does = Callable[[Any, hr.Record], None]


class Unpaid(hr.Processor):
    """The guide's example: tells of each order that is not paid within an hour."""

    def __init__(self, key: str = "order_id") -> None:
        self.key = key

    def init(self, context: hr.Context) -> None:
        self.context, self.status = context, context.store("status")

    def process(self, record: hr.Record) -> None:
        self.status.put(record["status"])
        if record["status"] == "placed":
            self.context.schedule("1 hour", self.too_late, once=True)
        else:
            self.context.cancel("too_late")

    def too_late(self, moment: dt.datetime) -> None:
        self.context.forward(order_id=self.context.key[self.key], status=self.status.get(), at=moment)
        self.status.delete()


def unpaid_orders(stream: Any, key: str) -> Node:
    node: Node = (
        stream.group_by(key)
        .process(
            partial(Unpaid, key),
            output="order_id STRING, status STRING, at TIMESTAMP",
            stores=[hr.value_store("status", "status STRING")],
            stream_wait="1 hour",
        )
        .named("unpaid_orders")
    )
    return node


UNPAID = unpaid_orders(ORDERS, "order_id")
PLACED, NOTES = (hr.Topic(name, key="key STRING", value="value STRING") for name in ("orders", "notes"))
NOTED = PLACED.lookup(NOTES.select("key", "value AS note").table(), on="key", complete_first=False).named(
    "noted"
)


class Acts(hr.Processor):
    """Does with each record what a test says; timers say their names and their times."""

    does: Does

    def init(self, context: hr.Context) -> None:
        self.context, self.kept, self.seen = context, context.store("kept"), context.window_store("seen")

    def process(self, record: hr.Record) -> None:
        type(self).does(self, record)

    def beat(self, moment: dt.datetime) -> None:
        assert self.context.stream_time == moment
        self.say(f"beat {moment:%d %H:%M:%S}")

    def say(self, what: str) -> None:
        self.context.forward(what=what)


def acting(does: Does, stream: Any = READINGS, **options: Any) -> Node:
    Acts.does = staticmethod(does)
    stores = [hr.value_store("kept", "n BIGINT", ttl="20 seconds")]
    stores += [hr.window_store("seen", "", "n BIGINT", retention="20 seconds")]
    node: Node = (
        stream.group_by("sensor")
        .process(Acts, output="what STRING", stores=stores, stream_wait="365 days", **options)
        .named("acts")
    )
    return node


def said(node: Node, *commits: Records) -> list[str]:
    """What is forwarded. In: the records of each log commit."""
    log = timeline(pa.int64(), {"readings": {number + 1: each for number, each in enumerate(commits)}})
    return [row["what"] for row in made(node, log)]


def over_partitions(*commits: Sequence[tuple[int, str, int, float]]) -> World:
    """A log of commits. In: partition, key, value and event time of each record"""
    log = [
        Commit(
            (number + 1) * 1_000, [Arrival(p, key, round(at * 1_000), value) for p, key, value, at in each]
        )
        for number, each in enumerate(commits)
    ]
    return World([Sequenced("readings", sequence(log, None, 0))], pa.int64())


def test_an_order_that_is_paid_after_its_limit_is_told_however_the_log_is_committed() -> None:
    """Placed at 0:00, paid at 2:00; the limit is an hour. One commit for all never told of it."""
    placed, paid = ("a", "placed", 0.0), ("a", "paid", 2 * HOUR)
    ways: list[Mapping[int, Records]] = [{1: [placed, paid]}, {1: [placed], 2: [paid]}]
    for way in ways:
        (row,) = made(UNPAID, timeline(pa.string(), {"orders": way}))
        assert (row["order_id"], row["status"], row["at"]) == ("a", "placed", _time(HOUR))


@pytest.mark.slow
def test_a_backlog_of_a_year_gives_what_a_live_year_gave() -> None:
    """An order each third day: one is never paid, one is too late, one in time. A first start reads the year in one go.

    Behind a lookup it is the same.
    """
    records: list[tuple[str, str, float]] = []
    for number, day in enumerate(range(0, 365, 3)):
        records.append((f"order {number}", "placed", day * DAY))
        if number % 3:
            records.append((f"order {number}", "paid", day * DAY + (30 if number % 3 == 2 else 90) * MINUTE))
    live = {number + 1: [record] for number, record in enumerate(records)}
    told = [
        [(row["order_id"], row["at"]) for row in made(UNPAID, timeline(pa.string(), {"orders": commits}))]
        for commits in (live, {1: records})
    ]
    assert sorted(told[0]) == sorted(told[1])
    end = records[-1][2]
    unpaid = [
        (order, _time(at + HOUR))
        for order, status, at in records
        if status == "placed" and int(order.split()[1]) % 3 != 2 and at + HOUR <= end
    ]
    assert sorted(told[0]) == sorted(unpaid)
    for commits in (live, {1: records}):
        logs = logs_of(timeline(pa.string(), {"orders": commits, "notes": {}}))
        noted = ChainedReading(NOTED, logs)
        logs[NodeOutput.of(NOTED).name] = log_of(noted.operator, run(noted.operator.steps, noted), logs)
        behind = ChainedReading(unpaid_orders(NOTED.select("key", "value AS status"), "key"), logs)
        rows = run(behind.operator.steps, behind).rows()
        assert sorted((row["order_id"], row["at"]) for row in rows) == sorted(unpaid)


def test_a_timer_that_repeats_is_called_at_each_of_its_times_in_one_commit() -> None:
    def does(self: Acts, record: hr.Record) -> None:
        if record["value"]:
            self.context.schedule("1 day", self.beat)

    year = [("s", 1, 0.0), ("s", 0, 365 * DAY)]
    assert len(said(acting(does), year)) == 365
    assert said(acting(does), [("s", 1, 0.0), ("s", 0, 3 * DAY)]) == [
        f"beat 0{day} 00:00:00" for day in (2, 3, 4)
    ]


def test_a_timer_that_is_taken_back_or_set_by_another_one_counts_at_once() -> None:
    class Chains(Acts):
        def beat(self, moment: dt.datetime) -> None:
            super().beat(moment)
            self.context.cancel("other")
            if moment < _time(6):
                self.context.schedule("2 seconds", self.beat, once=True)

        def other(self, moment: dt.datetime) -> None:
            self.say("other")

    def does(self: Acts, record: hr.Record) -> None:
        if record["value"]:
            self.context.schedule("2 seconds", self.beat, once=True)
            self.context.schedule("3 seconds", self.other, name="other", once=True)  # type: ignore[attr-defined]

    Chains.does = staticmethod(does)
    node = (
        READINGS.group_by("sensor")
        .process(Chains, output="what STRING", stores=_STORES, stream_wait="1 minute")
        .named("chains")
    )
    whole = [("s", 1, 0.0), ("s", 0, 60.0)]
    wanted = ["beat 01 00:00:02", "beat 01 00:00:04", "beat 01 00:00:06"]
    assert said(node, whole) == wanted
    assert said(node, whole[:1], whole[1:]) == wanted


def test_too_many_calls_without_a_record_stop_the_node_with_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def does(self: Acts, record: hr.Record) -> None:
        self.context.schedule("1 second", self.beat)

    monkeypatch.setattr("headrace.operators.processors.fold.run_groups.CALLS_MAX", 3_599)
    with pytest.raises(
        hr.ProcessorError, match=r"timers of the group \{'sensor': 's'\} were called 3,599 times"
    ):
        said(acting(does), [("s", 1, 0.0), ("s", 1, 3_600.0)])


def test_timers_before_a_record_that_is_set_apart_stay_called() -> None:
    def does(self: Acts, record: hr.Record) -> None:
        if record["value"]:
            self.context.schedule("2 seconds", self.beat, once=True)
        else:
            self.say("undone")
            raise ValueError("set apart")

    whole = [("s", 1, 0.0), ("s", 0, 5.0)]
    for commits in ([whole], [whole[:1], whole[1:]]):
        assert said(acting(does, on_error="dead_letter"), *commits) == ["beat 01 00:00:02"]


def test_an_entry_is_there_until_the_clock_of_the_call_reaches_its_end() -> None:
    """Put at 0 for 20 s: in one commit, as in three, the record of 19 finds it and that of 20 does not."""

    def does(self: Acts, record: hr.Record) -> None:
        self.say(f"{self.kept.get()}")
        if record["value"]:
            self.kept.put(record["value"])

    whole = [("s", 1, 0.0), ("s", 0, 19.0), ("s", 0, 20.0)]
    assert said(acting(does), whole) == said(acting(does), *([one] for one in whole)) == ["None", "1", "None"]


def test_the_entries_of_a_partition_that_is_behind_are_kept_and_no_put_shortens_a_life() -> None:
    """Partition 0 is at 100, partition 1 at 5, in its own order: what 1 puts is there for 1, though 0 is far beyond."""

    def does(self: Acts, record: hr.Record) -> None:
        assert record.timestamp is not None
        seen = [n for _, n in self.seen.fetch(first=_time(0), last=_time(200))]
        self.say(f"{record['value']}: {seen} {self.kept.get()}")
        self.seen.put(record["value"], at=record.timestamp)
        self.kept.put(record["value"])

    log = over_partitions(
        [(0, "s", 1, 100), (1, "s", 2, 5)], [(1, "s", 3, 6)], [(0, "s", 4, 119)], [(0, "s", 5, 121)]
    )
    rows = [row["what"] for row in made(acting(does, order="log"), log)]
    assert rows == ["1: [] None", "2: [1] 1", "3: [2, 1] 2", "4: [1] 3", "5: [4] 4"]


def test_over_partitions_the_order_of_time_calls_timers_at_one_place_however_the_log_is_committed() -> None:
    """0/0 sets a timer of 10; 0/1 e=10; 1/0 and 1/1 e=5: today it fires before or after 1/1, as commits have it."""

    def does(self: Acts, record: hr.Record) -> None:
        self.say(f"{record.partition}/{record.offset}")
        if record["value"]:
            self.context.schedule("10 seconds", self.beat, once=True)

    first, second = [(0, "s", 1, 0.0), (1, "s", 0, 0.0)], (0, "s", 0, 10.0)
    third, last = (1, "s", 0, 5.0), [(0, "s", 0, 30.0), (1, "s", 0, 30.0)]
    ways = [
        [[*first, second, third, *last]],
        [first, [third], [second], last],
        [first, [second], [third], last],
    ]
    for way in ways:
        rows = [row["what"] for row in made(acting(does, order="time"), over_partitions(*way))]
        assert rows == ["0/0", "1/0", "1/1", "beat 01 00:00:10", "0/1"]


def test_a_record_out_of_order_is_late_or_in_its_place_by_the_grace_and_not_by_commits() -> None:
    """0/0 e=10, 0/1 e=5: one commit gave 5, 10, and two gave 10, then 5 late."""

    def does(self: Acts, record: hr.Record) -> None:
        assert record.timestamp is not None
        self.say(f"{record.timestamp:%S} late {record.late}")

    whole = [("s", 0, 10.0), ("s", 0, 5.0), ("s", 0, 60.0)]
    for commits in ([whole], [whole[:1], whole[1:]], [[one] for one in whole]):
        assert said(acting(does, order="time"), *commits) == ["10 late False", "05 late True"]
        in_place = said(acting(does, order="time", grace="5 seconds"), *commits)
        assert in_place == ["05 late False", "10 late False"]


_STORES = [
    hr.value_store("kept", "n BIGINT", ttl="20 seconds"),
    hr.window_store("seen", "", "n BIGINT", retention="20 seconds"),
]


def _time(seconds: float) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=seconds)

"""Timers of processors in one log commit: which come first, what takes them back, and what a record that is set apart leaves."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.description import Node
from tests.laws.kernel.timelines import Records, made, timeline

pytestmark = pytest.mark.fast

A, B = (hr.Topic(name, key="key STRING", value="value BIGINT") for name in "ab")
Does = Callable[[Any, hr.Record], None]


class Acts(hr.Processor):
    """Does with each record what a test says; timers say their names."""

    does: Does

    def init(self, context: hr.Context) -> None:
        self.context, self.held = context, context.store("held")

    def process(self, record: hr.Record) -> None:
        type(self).does(self, record)

    def say(self, what: str) -> None:
        self.context.forward(what=what)

    def one(self, moment: dt.datetime) -> None:
        self.say(f"one {moment:%S}")

    def two(self, moment: dt.datetime) -> None:
        self.say(f"two {moment:%S}")

    def takes_back(self, moment: dt.datetime) -> None:
        self.say("takes back")
        self.context.cancel("one")
        self.context.schedule("9 seconds", self.two, once=True)

    def by_wall(self, moment: dt.datetime) -> None:
        self.say(f"wall, stream {self.context.stream_time}")
        self.context.schedule("2 seconds", self.one)

    def close(self) -> None:
        self.say("close")


class Ticks(Acts):
    """It has a timer from its first record on."""

    def init(self, context: hr.Context) -> None:
        super().init(context)
        context.schedule("2 seconds", self.one)


def told(
    does: Does,
    *topics: Mapping[int, Records],
    of: type[Acts] = Acts,
    drains: tuple[float, ...] = (),
    **options: Any,
) -> list[str]:
    """What is forwarded. In: of each topic the records of each log commit; other options of `process`."""
    Acts.does = staticmethod(does)
    stream: Any = A if len(topics) == 1 else A.merge(B)
    options = {"order": "log", **options} if len(topics) > 1 else options
    waits = {} if options.get("order") == "time" else {"stream_wait": "9 seconds", "wall_wait": "9 seconds"}
    node: Node = (
        stream.group_by("key")
        .process(of, output="what STRING", stores=[hr.value_store("held", "n BIGINT")], **waits, **options)
        .named("acts")
    )
    logs = timeline(pa.int64(), dict(zip("ab", topics, strict=False)), drains=drains)
    return [row["what"] for row in made(node, logs)]


def counts_but_two(
    key: Any, records: Iterator[hr.Record], state: hr.KeyValueStore
) -> Iterator[dict[str, Any]]:
    for record in records:
        state.put((state.get() or 0) + 1)
        yield {"n": state.get()}
        if record["value"] == 2:
            raise ValueError("set apart")


def test_timers_that_are_due_in_one_commit_come_by_their_times_and_not_by_their_names() -> None:
    def does(self: Acts, record: hr.Record) -> None:
        if record["value"]:
            self.context.schedule("2 seconds", self.one, name="a", once=True)
            self.context.schedule("1 second", self.two, name="z", once=True)

    assert told(does, {1: [("k", 1, 0)], 2: [("k", 0, 5)]}) == ["two 01", "one 02"]


def test_a_timer_that_an_earlier_one_of_the_commit_takes_back_or_sets_anew_is_not_called() -> None:
    def does(self: Acts, record: hr.Record) -> None:
        if record["value"]:
            self.context.schedule("1 second", self.takes_back, once=True)
            self.context.schedule("2 seconds", self.one, once=True)
            self.context.schedule("2 seconds", self.two, once=True)

    commits = {1: [("k", 1, 0)], 2: [("k", 0, 5)], 3: [("k", 0, 13)], 4: [("k", 0, 14)]}
    assert told(does, commits) == ["takes back", "two 10"]


def test_a_group_that_holds_nothing_is_not_closed() -> None:
    def does(self: Acts, record: hr.Record) -> None:
        self.held.put(record["value"])
        if not record["value"]:
            self.held.delete()

    commits = {1: [("k", 1, 0), ("l", 1, 0)], 2: [("k", 0, 1)]}
    assert told(does, commits, drains=(3,)) == ["close"]
    assert told(does, {2: [*commits[1], *commits[2]]}, drains=(3,)) == ["close"]


def test_a_late_record_in_the_order_of_time_finds_the_clock_and_not_its_own_time() -> None:
    def does(self: Acts, record: hr.Record) -> None:
        self.say(f"{record['value']} at {self.context.stream_time:%S}")

    commits = {1: [("k", 1, 1), ("k", 2, 9)], 2: [("k", 3, 2)], 3: [("k", 4, 12)]}
    assert told(does, commits, order="time") == ["1 at 01", "2 at 09", "3 at 09"]


def test_a_record_that_is_set_apart_leaves_the_timers_as_they_were() -> None:
    def does(self: Acts, record: hr.Record) -> None:
        if record["value"] == 1:
            self.context.schedule("3 seconds", self.one, once=True)
        elif record["value"] == 2:
            self.context.cancel("one")
            raise ValueError("set apart")

    commits = {1: [("k", 1, 0), ("k", 2, 1)], 2: [("k", 2, 2)], 3: [("k", 0, 4)]}
    assert told(does, commits, on_error="dead_letter") == ["one 03"]


def test_a_record_that_is_set_apart_takes_back_nothing_that_records_before_it_have_done() -> None:
    def does(self: Acts, record: hr.Record) -> None:
        if record["value"] == 2:
            raise ValueError("set apart")
        self.context.schedule("3 seconds", self.one, once=True)
        self.held.put((self.held.get() or 0) + 1)
        self.say(f"{self.held.get()}")

    commits = {1: [("k", 1, 0), ("k", 2, 0), ("k", 1, 1), ("k", 2, 1)], 2: [("k", 2, 5)]}
    assert told(does, commits, on_error="dead_letter") == ["1", "2", "one 04"]


def test_a_timer_that_is_set_before_the_stream_clock_has_begun_is_due_once_it_begins() -> None:
    """The wall clock sets a timer before the record of 3, the first whose clock the group sees; b is at 11 all the while."""

    def does(self: Acts, record: hr.Record) -> None:
        if record["value"]:
            self.context.schedule("1 second", self.by_wall, clock="wall", once=True)

    records = {1: [("k", 1, 0)], 3: [("k", 0, 20)], 6: [("k", 0, 40)]}
    clock: dict[int, Records] = {
        4: [("l", 0, 7)],
        5: [("l", 0, 8.5)],
        7: [("l", 0, 9)],
        8: [("l", 0, 10)],
        9: [("l", 0, 11)],
    }
    assert told(does, records, clock) == [
        "wall, stream None",
        *(f"one {second}" for second in range(20, 41, 2)),
    ]


def test_a_timer_of_init_that_was_taken_back_stays_so() -> None:
    def does(self: Acts, record: hr.Record) -> None:
        if record["value"]:
            self.context.cancel("one")

    commits = {1: [("k", 0, 0)], 2: [("k", 0, 3)], 3: [("k", 1, 4)], 4: [("k", 0, 9)], 5: [("k", 0, 15)]}
    assert told(does, commits, of=Ticks) == ["one 02", "one 04"]


def test_a_function_that_raises_gives_the_rows_of_other_records_once() -> None:
    node = A.group_by("key").process(
        hr.processor(counts_but_two, state="n BIGINT"), output="n BIGINT", on_error="dead_letter"
    )
    commits = {1: [("k", 1, 0), ("k", 1, 0), ("k", 2, 0), ("k", 1, 0)], 2: [("k", 1, 0)]}
    rows = made(node.named("counts"), timeline(pa.int64(), {"a": commits}))
    assert [row["n"] for row in rows] == [1, 2, 3, 4]

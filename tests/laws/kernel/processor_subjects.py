"""Processors for the laws of the kernel: each uses stores, timers and groups in its own way."""

from __future__ import annotations

import datetime as dt
from functools import partial
from typing import Any

import headrace as hr
from headrace.description import Store
from headrace.description.processed import Makes
from tests.laws.kernel.batch_subjects_by_hand import (
    COUNT,
    SUMS,
    CountTables,
    RaisesForTables,
    SumsOfTables,
    count_by_function,
    raise_for_some,
)
from tests.laws.kernel.subjects import Subject, T, U

SECONDS = "1 second", "3 seconds", "9 seconds"


class Count(hr.Processor):
    """How many records a group has had."""

    def init(self, context: hr.Context) -> None:
        self.context, self.count = context, context.store("count")

    def process(self, record: hr.Record) -> None:
        n = (self.count.get() or 0) + 1
        self.count.put(n)
        self.context.forward(key=record.get("key"), n=n, value=record["value"])


class Sums(hr.Processor):
    """The example of KIP-28: adds to the value of a key in a store; a timer forwards every entry."""

    def __init__(self, interval: str, clock: str) -> None:
        self.interval, self.clock = interval, clock

    def init(self, context: hr.Context) -> None:
        self.context, self.sums = context, context.store("sums")
        context.schedule(self.interval, self.punctuate, clock=self.clock)

    def process(self, record: hr.Record) -> None:
        key = (record["value"] or 0) % 3
        self.sums.put(key, (self.sums.get(key) or 0) + 1)

    def punctuate(self, moment: dt.datetime) -> None:
        for key, value in self.sums.all():
            self.context.forward(at=moment, key=key, value=value, stream=self.context.stream_time)


class Batch(hr.Processor):
    """Gathers a group's records; forwards them when there are three, by a timer, and when the log is drained."""

    def init(self, context: hr.Context) -> None:
        self.context = context
        self.events, self.count = context.store("events"), context.store("count")

    def process(self, record: hr.Record) -> None:
        n = (self.count.get() or 0) + 1
        self.events.put(n, record["value"] or 0)
        self.count.put(n)
        if n == 1:
            self.context.schedule("2 seconds", self.flush, clock="wall", once=True)
        if n == 3:
            self.context.cancel("flush")
            self.flush(self.context.wall_time)

    def flush(self, moment: dt.datetime) -> None:
        entries = [*self.events.all()]
        self.context.forward(key=str(self.context.key), events=[value for _, value in entries], at=moment)
        for key, _ in entries:
            self.events.delete(key)
        self.count.delete()

    def close(self) -> None:
        if self.count.get():
            self.flush(self.context.wall_time)
        self.context.cancel("flush")


class Silence(hr.Processor):
    """Tells that a group was silent; each record puts it off, a negative one for good. Timers set one another."""

    def init(self, context: hr.Context) -> None:
        self.context, self.last = context, context.store("last")
        context.schedule("7 seconds", self.beat)

    def process(self, record: hr.Record) -> None:
        value = record["value"]
        self.last.put({"value": value, "place": [record.topic, str(record.offset)]})
        if value is not None and value < 0:
            self.context.cancel("silent")
            self.context.cancel("beat")
        else:
            self.context.schedule("4 seconds", self.silent, name="silent", once=True)

    def silent(self, moment: dt.datetime) -> None:
        last = self.last.get() or {}
        self.context.forward(what=f"silent after {last.get('value')} {last.get('place')}", at=moment)
        self.context.schedule("1 second", self.beat, name="again", clock="wall", once=True)

    def beat(self, moment: dt.datetime) -> None:
        self.context.forward(what=f"beat {self.context.stream_time}", at=moment)
        if self.last.get() is None:
            self.context.cancel("beat")
        self.last.delete()


class Raises(hr.Processor):
    """Does much with a record, and then raises for some."""

    def init(self, context: hr.Context) -> None:
        self.context, self.last, self.sums = context, context.store("last"), context.store("sums")
        context.schedule("5 seconds", self.beat)

    def process(self, record: hr.Record) -> None:
        value = record["value"] or 0
        self.context.forward(what=f"{value} after {self.last.get()}", at=record.timestamp)
        self.sums.put(value % 2, (self.sums.get(value % 2) or 0) + value % 3)
        self.last.put(value)
        self.context.cancel("beat")
        if value % 2:
            self.context.schedule("3 seconds", self.beat, name=f"of {value % 3}", once=True)
        if value % 4 == 0:
            self.sums.delete(1)
            self.last.delete()
        if value % 3 == 0:
            raise ValueError(f"{value} is divided by 3")
        self.context.schedule("5 seconds", self.beat)

    def beat(self, moment: dt.datetime) -> None:
        self.context.forward(what=f"{[*self.sums.all()]} after {self.last.get()}", at=moment)


class Between(hr.Processor):
    """Keeps values by two columns, and forwards those of a range."""

    def init(self, context: hr.Context) -> None:
        self.context, self.seen = context, context.store("seen")

    def process(self, record: hr.Record) -> None:
        value = record["value"] or 0
        place = f"{record.partition}", value % 5
        self.seen.put(place, {"n": record.offset, "mean": value / 7})
        low = [key for key, _ in self.seen.range(("0", 1), ("1", 2))]
        if len(low) > 2:
            self.seen.delete(low[0])
        self.context.forward(
            keys=[f"{name}{n}" for name, n in low], mean=(self.seen.get(place) or {}).get("mean")
        )


def processor_subjects() -> list[Subject]:
    count = hr.value_store("count", "n BIGINT")
    sums = hr.key_value_store("sums", "k BIGINT", "n BIGINT")
    counted, summed = (
        "key STRING, n BIGINT, value BIGINT",
        "at TIMESTAMP, key BIGINT, value BIGINT, stream TIMESTAMP",
    )
    batch = [hr.key_value_store("events", "n BIGINT", "event BIGINT"), hr.value_store("count", "n BIGINT")]
    last = hr.value_store("last", "value BIGINT, place ARRAY<STRING>")
    count_of_last = hr.value_store("last", "value BIGINT")
    seen = hr.key_value_store("seen", "name STRING, k INT", "n BIGINT, mean DOUBLE")
    by_stream, by_wall = (
        partial(Sums, every, clock) for every, clock in (("3 seconds", "stream"), ("2 seconds", "wall"))
    )
    both = T.merge(U)
    waits: dict[str, Any] = {"stream_wait": "9 seconds", "wall_wait": "9 seconds"}
    said = "what STRING, at TIMESTAMP"
    events = "key STRING, events ARRAY<BIGINT>, at TIMESTAMP"
    made = {
        "counts": made_by(both, Count, counted, count),
        "counts_of_partitions": made_by(both, Count, counted, count, grouped=False),
        "sums_by_stream": made_by(T, by_stream, summed, sums, **waits),
        "sums_by_stream_of_two": made_by(both, by_stream, summed, sums, **waits),
        "sums_by_wall": made_by(both, by_wall, summed, sums, **waits),
        "sums_of_partitions": made_by(both, by_stream, summed, sums, grouped=False, **waits),
        "batches": made_by(T, Batch, events, *batch, **waits),
        "batches_of_two": made_by(both, Batch, events, *batch, **waits),
        "batches_of_partitions": made_by(T, Batch, events, *batch, grouped=False, wall_wait="2 seconds"),
        "silence": made_by(T, Silence, said, last, **waits),
        "silence_of_two": made_by(both, Silence, said, last, **waits),
        "silence_of_partitions": made_by(both, Silence, said, last, grouped=False, **waits),
        "refusals": made_by(T, Raises, said, count_of_last, sums, on_error="dead_letter", **waits),
        "refusals_of_two": made_by(
            both, Raises, said, count_of_last, sums, on_error="dead_letter", attempts=2, **waits
        ),
        "refusals_of_partitions": made_by(
            T, Raises, said, count_of_last, sums, grouped=False, on_error="dead_letter", **waits
        ),
        "counts_of_tables": made_by(both, CountTables, counted, COUNT),
        "counts_of_tables_of_partitions": made_by(both, CountTables, counted, COUNT, grouped=False),
        "sums_of_tables": made_by(both, SumsOfTables, "n BIGINT, value BIGINT", SUMS),
        "refusals_of_tables": made_by(
            both, RaisesForTables, counted, COUNT, on_error="dead_letter", attempts=2
        ),
        "counts_by_function": made_by(both, hr.processor(count_by_function, state="n BIGINT"), counted),
        "counts_by_function_of_partitions": made_by(
            T, hr.processor(count_by_function, state="n BIGINT"), counted, grouped=False
        ),
        "refusals_by_function": made_by(
            both, hr.processor(raise_for_some, state="n BIGINT"), counted, on_error="dead_letter"
        ),
        "ranges": made_by(T, Between, "keys ARRAY<STRING>, mean DOUBLE", seen),
    }
    return [Subject(name, node) for name, node in made.items()]


def made_by(
    stream: Any, processor: Makes, output: str, *stores: Store, grouped: bool = True, **waits: Any
) -> Any:
    if not grouped:
        return stream.process(processor, output=output, stores=stores, **waits).named("processed")
    grouping = stream.group_by("key")
    return grouping.process(processor, output=output, stores=stores, order="log", **waits).named("processed")

"""Processors of several outputs, and of records in the order of time, for the laws of the kernel."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

import headrace as hr
from headrace.description import Node
from tests.laws.kernel.processor_subjects import Silence
from tests.laws.kernel.subjects import Subject, T, U

LAST = hr.value_store("last", "value BIGINT, place ARRAY<STRING>")
OUTPUTS = {"even": "value BIGINT, at TIMESTAMP", "odd": "what STRING, value BIGINT"}


class Sorts(hr.Processor):
    """Two outputs."""

    def init(self, context: hr.Context) -> None:
        self.context = context

    def process(self, record: hr.Record) -> None:
        value = record["value"] or 0
        if value % 2:
            self.context.forward(to="odd", what=f"{self.context.key}", value=value)
        if value % 3 == 0:
            self.context.forward(to="even", value=value, at=record.timestamp)


class SortsTables(hr.BatchProcessor):
    """The same of tables; the second output has no rows."""

    def process_batch(self, records: pa.Table) -> pa.Table:
        rows = records.num_rows
        return pa.table(
            {
                "output": ["even"] * rows,
                "value": records["value"],
                "at": pa.nulls(rows, pa.timestamp("us", "UTC")),
                "what": pa.nulls(rows, pa.string()),
            }
        )


class AsOf(hr.Processor):
    """Each record of one topic with the last of the other, by event time; late ones are marked."""

    def init(self, context: hr.Context) -> None:
        self.context, self.last = context, context.store("last")
        context.schedule("5 seconds", self.tell, clock="wall")
        context.schedule("5 seconds", self.tell, name="by_stream")

    def process(self, record: hr.Record) -> None:
        place = f"{record.topic} {record.partition} {record.offset}"
        if record.topic == "u" and not record.late:
            self.last.put({"value": record["value"], "place": [place]})
        before = self.last.get()
        times = (
            f"{record.stream_time} {record.ingested_at} {self.context.stream_time} {self.context.wall_time}"
        )
        self.context.forward(
            what=f"{record.late} {place} {record['value']} {before} {times}", at=record.timestamp
        )

    def tell(self, moment: dt.datetime) -> None:
        self.context.forward(what=f"{self.last.get()}", at=moment)

    def close(self) -> None:
        self.tell(self.context.wall_time)


def numbered(key: Mapping[str, Any], records: Iterator[hr.Record], state: hr.KeyValueStore) -> Any:
    """Records in the order of time."""
    n = state.get() or 0
    for record in records:
        n += 1
        yield {"what": f"{n} {record.topic} {record.partition} {record.offset}", "at": record.timestamp}
    state.put(n)


def ordered_subjects() -> list[Subject]:
    both, said = T.merge(U), "what STRING, at TIMESTAMP"
    waits: dict[str, Any] = {"stream_wait": "9 seconds", "wall_wait": "9 seconds"}
    made: dict[str, Any] = {
        "two_outputs": both.group_by("key").process(Sorts, output=OUTPUTS),
        "two_outputs_of_partitions": both.process(Sorts, output=OUTPUTS),
        "two_outputs_of_tables": both.group_by("key").process(SortsTables, output=OUTPUTS),
        "as_of_join": both.group_by("key").process(AsOf, output=said, stores=[LAST], order="time", **waits),
        "as_of_join_of_one": T.group_by("key").process(
            AsOf, output=said, stores=[LAST], order="time", **waits
        ),
        "silence_by_time": both.group_by("key").process(
            Silence, output=said, stores=[LAST], order="time", **waits
        ),
        "function_by_time": both.group_by("key").process(
            hr.processor(numbered, state="n BIGINT"), output=said, order="time"
        ),
    }
    return [Subject(name, _named(node)) for name, node in made.items()]


def _named(node: Any) -> Node:
    named: Node = node.named("processed")
    return named

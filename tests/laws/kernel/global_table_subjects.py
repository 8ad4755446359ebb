"""Processors that read global tables, for the laws of the kernel."""

from __future__ import annotations

import datetime as dt
from functools import partial
from typing import Any

import headrace as hr
from headrace.description import Node
from headrace.description.processed import Makes
from tests.laws.kernel.relation_subjects import KNOWN, PLACES, POSITIONS, TICKERS
from tests.laws.kernel.subjects import Subject

SAID = "what STRING, at TIMESTAMP"


class Reads(hr.Processor):
    """Tells at each call what a table holds: at records, timers of both clocks, and drains."""

    def init(self, context: hr.Context) -> None:
        self.context, self.known, self.count = context, context.global_table("known"), context.store("count")
        context.schedule("3 seconds", self.tell)
        context.schedule("2 seconds", self.tell, clock="wall", name="wall")

    def process(self, record: hr.Record) -> None:
        ref = record["ticker"]
        n = (self.count.get() or 0) + 1
        self.count.put(n)
        row = self.known.get(ref)
        near = [*self.known.range("a", "m")]
        self.context.forward(what=f"{record['id']} {n} {row} {near}", at=record.timestamp)

    def tell(self, moment: dt.datetime) -> None:
        self.context.forward(what=f"{self.count.get()} {[*self.known.all()]}", at=moment)

    def close(self) -> None:
        self.tell(self.context.wall_time)


class ReadsTwo(Reads):
    """Reads a second table; some records raise, and what they have done is undone."""

    def init(self, context: hr.Context) -> None:
        super().init(context)
        self.places = context.global_table("places")

    def process(self, record: hr.Record) -> None:
        super().process(record)
        row = self.known.get(record["ticker"])
        city = self.places.get(row["exchange"]) if row else None
        self.context.forward(what=f"{row} {city}", at=None)
        if city is not None and record["amount"] == 1:
            raise ValueError("one of a place")


class Finds(hr.Processor):
    """Tells for each record, and at timers of both clocks, how many rows a table has, and the value of one."""

    def init(self, context: hr.Context) -> None:
        self.context, self.others = context, context.global_table("others")
        context.schedule("3 seconds", self.by_stream)
        context.schedule("2 seconds", self.by_wall, clock="wall")

    def process(self, record: hr.Record) -> None:
        self.tell(record["key"])

    def by_stream(self, moment: dt.datetime) -> None:
        self.tell(self.context.key.get("key"))

    def by_wall(self, moment: dt.datetime) -> None:
        self.tell(self.context.key.get("key"))

    def tell(self, key: str | None) -> None:
        row = None if key is None else self.others.get(key)
        value = row["value"] if isinstance(row, dict) else row
        self.context.forward(key=key, n=len([*self.others.all()]), found=value)


def global_table_subjects(*, complete_first: bool = False) -> list[Subject]:
    made_of = partial(_node, complete_first=complete_first)
    earlier = POSITIONS.select("id", "ticker AS exchange", "amount AS founded").table("timestamp")
    by_time = TICKERS.table("timestamp").where("founded > 0")
    made = {
        "table": made_of(Reads, known=KNOWN),
        "table_of_partitions": made_of(Reads, grouped=False, known=KNOWN),
        "table_by_time": made_of(Reads, known=by_time),
        "table_of_itself": made_of(Reads, known=earlier),
        "two_tables": made_of(ReadsTwo, on_error="dead_letter", known=KNOWN, places=PLACES),
        "two_tables_of_one": made_of(ReadsTwo, known=by_time, places=TICKERS.table(), only=Reads),
    }
    return [Subject(name, node) for name, node in made.items()]


def _node(
    processor: Makes,
    *,
    complete_first: bool,
    grouped: bool = True,
    on_error: str = "stop",
    only: Any = None,
    **tables: Any,
) -> Node:
    of: Any = POSITIONS.group_by("ticker") if grouped else POSITIONS
    order = {"order": "log"} if grouped else {}
    stores = [hr.global_table(name, table, complete_first=complete_first) for name, table in tables.items()]
    node: Node = of.process(
        only or processor,
        output=SAID,
        stores=[hr.value_store("count", "n BIGINT"), *stores],
        stream_wait="3 seconds",
        wall_wait="2 seconds",
        on_error=on_error,
        **order,
    ).named("processed")
    return node

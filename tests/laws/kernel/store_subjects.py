"""Processors whose entries end by stream time, for the laws of the kernel."""

from __future__ import annotations

import datetime as dt
from typing import Any

import headrace as hr
from headrace.description import Node
from headrace.description.epoch_time import EPOCH
from headrace.description.processed import Makes
from tests.laws.kernel.subjects import Subject, T, U

SECOND = dt.timedelta(seconds=1)
SAID = "what STRING, at TIMESTAMP"


class TellsAll(hr.Processor):
    """Tells at each call what its stores hold: at records, timers of both clocks, and drains."""

    def told(self) -> list[Any]:
        raise NotImplementedError

    def tell(self, moment: dt.datetime | None) -> None:
        self.context.forward(what=f"{self.told()}", at=moment)

    def close(self) -> None:
        self.tell(self.context.wall_time)

    def init(self, context: hr.Context) -> None:
        self.context = context
        context.schedule("3 seconds", self.tell)
        context.schedule("2 seconds", self.tell, clock="wall", name="wall")


class Remembers(TellsAll):
    """Keeps values for a while, those of timers too; deletes some."""

    def init(self, context: hr.Context) -> None:
        super().init(context)
        self.last, self.seen = context.store("last"), context.store("seen")

    def told(self) -> list[Any]:
        return [self.last.get(), *self.seen.all(), *self.seen.range(-1, 1)]

    def process(self, record: hr.Record) -> None:
        value = record["value"] or 0
        self.tell(record.timestamp)
        self.seen.put(value % 4, {"n": value, "what": f"{record.topic}{record.offset}"})
        if value % 3:
            self.last.put(value)
        elif value % 5 == 0:
            self.seen.delete((value + 1) % 4)
        if value % 7 == 0:
            raise ValueError(f"{value} is divided by 7")

    def tell(self, moment: dt.datetime | None) -> None:
        super().tell(moment)
        self.seen.put(9, {"n": None, "what": f"{moment}"})


class Windows(TellsAll):
    """Counts by windows of three seconds, and tells those nearby; late windows cannot be put."""

    def init(self, context: hr.Context) -> None:
        super().init(context)
        self.counts, self.last = context.window_store("counts"), context.window_store("last")

    def told(self) -> list[Any]:
        return [f"{key} {at:%M:%S} {n}" for key, at, n in self.counts.all()] + [
            f"{key} {at:%M:%S.%f} {value}" for key, at, value in self.last.all()
        ]

    def process(self, record: hr.Record) -> None:
        time, name = record.timestamp or EPOCH, f"{(record['value'] or 0) % 2}"
        start = time - (time - EPOCH) % (3 * SECOND)
        n = (self.counts.get(name, at=start) or 0) + 1
        self.counts.put(name, n, at=start)
        near = [
            f"{at:%S} {n}"
            for at, n in self.counts.fetch(name, first=start - 6 * SECOND, last=start + 3 * SECOND)
        ]
        if n == 4:
            self.counts.delete(name, at=start)
        self.last.put({"value": record["value"], "n": n}, at=time)
        self.context.forward(what=f"{near} {self.counts.get(name, at=start)}", at=time)


class SessionsByHand(TellsAll):
    """Puts records two seconds apart into one session."""

    def init(self, context: hr.Context) -> None:
        super().init(context)
        self.counts = context.session_store("counts")

    def told(self) -> list[Any]:
        return [f"{key} {start:%M:%S.%f} {end:%M:%S.%f} {n}" for key, start, end, n in self.counts.all()]

    def process(self, record: hr.Record) -> None:
        time, kind = record.timestamp or EPOCH, (record["value"] or 0) % 2
        start, end, n = time, time, 1
        for first, last, known in self.counts.find(kind, first=time - 2 * SECOND, last=time + 2 * SECOND):
            start, end, n = min(start, first), max(end, last), n + known
            self.counts.delete(kind, start=first, end=last)
        self.counts.put(kind, n, start=start, end=end)
        self.context.forward(
            what=f"{start:%M:%S} {end:%M:%S} {self.counts.get(kind, start=start, end=end)}", at=time
        )


def store_subjects() -> list[Subject]:
    both = T.merge(U)
    last = hr.value_store("last", "value BIGINT", ttl="4 seconds")
    seen = hr.key_value_store("seen", "k BIGINT", "n BIGINT, what STRING", ttl="7 seconds")
    counts = hr.window_store("counts", "name STRING", "n BIGINT", retention="9 seconds")
    places = hr.window_store("last", "", "value BIGINT, n BIGINT", retention="2 seconds")
    sessions = hr.session_store("counts", "kind BIGINT", "n BIGINT", retention="8 seconds")
    made: dict[str, tuple[Makes, list[Any]]] = {
        "entries_that_end": (Remembers, [last, seen]),
        "entries_of_windows": (Windows, [counts, places]),
        "entries_of_sessions": (SessionsByHand, [sessions]),
    }
    found = []
    for name, (processor, stores) in made.items():
        streams = {"": T.group_by("key"), "_of_two": both.group_by("key"), "_of_partitions": both}
        for scope, stream in streams.items():
            order = {"order": "log"} if scope == "_of_two" else {}
            found.append(Subject(f"{name}{scope}", _node(stream, processor, stores, **order)))
    return found


def _node(stream: Any, processor: Makes, stores: list[Any], **order: str) -> Node:
    node: Node = stream.process(
        processor,
        output=SAID,
        stores=stores,
        stream_wait="3 seconds",
        wall_wait="2 seconds",
        on_error="dead_letter",
        **order,
    ).named("processed")
    return node

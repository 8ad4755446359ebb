"""A processor that does at each call what its tag and its stores say, so that a call more, or elsewhere, shows in all later ones."""

from __future__ import annotations

import datetime as dt
from functools import partial
from hashlib import md5
from typing import Any

import headrace as hr
from headrace.description import Processed

OUTPUT = "key STRING, kind STRING, who STRING, what STRING"


class Acts(hr.Processor):
    """Forwards, sets and cancels timers, puts and deletes entries.

    In: column     of a record, that its tag shows
        unit_ms    of its timers and stores
        repeat_ms  of timers that repeat
    """

    def __init__(self, column: str, unit_ms: int, repeat_ms: int) -> None:
        self.column, self.unit_ms, self.repeat_ms = column, unit_ms, repeat_ms

    def init(self, context: hr.Context) -> None:
        self.context, self.kept, self.seen = context, context.store("kept"), context.window_store("seen")
        context.schedule(self.time(7, self.repeat_ms), self.c)

    def process(self, record: hr.Record) -> None:
        self.act(f"{record[self.column]} {record.late}", is_record=True)

    def a(self, moment: dt.datetime) -> None:
        self.act(f"a {moment:%d %T.%f}")

    def b(self, moment: dt.datetime) -> None:
        self.act(f"b {moment:%d %T.%f}")

    def c(self, moment: dt.datetime) -> None:
        self.act(f"c {moment:%d %T.%f}")

    def act(self, tag: str, *, is_record: bool = False) -> None:
        now = self.context.stream_time
        assert now is not None
        view = [*self.kept.all()], [n for _, n in ((at, n) for at, n in self.seen.fetch(first=now, last=now))]
        who = "/".join(map(str, self.context.key.values()))
        self.context.forward(
            key=self.context.key.get("key"), kind="all", who=who, what=f"{tag} at {now:%d %T.%f} {view}"
        )
        number = _number(who, tag, view)
        for step in range(number % 3):
            self.do(_number(number, step), is_record=is_record)

    def do(self, number: int, *, is_record: bool) -> None:
        name, now = "abc"[number % 3], self.context.stream_time
        assert now is not None
        match (number >> 4) % 7:
            case 0 | 1:
                self.context.schedule(
                    self.time(1 + (number >> 8) % 12, self.unit_ms), getattr(self, name), once=True
                )
            case 2 if is_record:
                self.context.schedule(self.time(4 + (number >> 8) % 9, self.repeat_ms), getattr(self, name))
            case 3:
                self.context.cancel(name)
            case 4:
                self.kept.put(name, number % 100)
            case 5:
                self.seen.put(number % 100, at=now - dt.timedelta(milliseconds=number % 4 * self.unit_ms))
            case _:
                self.kept.delete(name)

    @staticmethod
    def time(units: int, unit_ms: int) -> str:
        return f"{units * unit_ms} ms"


def acts(
    stream: Any, column: str = "value", unit_ms: int = 1, repeat_ms: int = 1, **options: Any
) -> Processed:
    """The node that runs it over a stream."""
    stores = [
        hr.key_value_store("kept", "name STRING", "n BIGINT", ttl=f"{6 * unit_ms} ms"),
        hr.window_store("seen", "", "n BIGINT", retention=f"{5 * unit_ms} ms"),
    ]
    node: Processed = stream.process(
        partial(Acts, column, unit_ms, repeat_ms),
        output=OUTPUT,
        stores=stores,
        stream_wait=f"{12 * max(unit_ms, repeat_ms)} ms",
        **options,
    ).named("acts")
    return node


def _number(*of: Any) -> int:
    return int(md5(repr(of).encode()).hexdigest()[:8], 16)

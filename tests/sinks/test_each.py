"""A function as a sink: what is sent again after a crash, what is parked, how fast it is called. Without Spark."""

from __future__ import annotations

import datetime as dt
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.sinks import refusals
from headrace.sinks.each import EachSink, Refusal
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.fast

AT = dt.datetime(2026, 11, 28, tzinfo=dt.UTC)


def rows_of(*numbers: int, deleted: tuple[int, ...] = ()) -> pa.Table:
    """Rows of the log commits 100, 100, 101, 101, … in their order."""
    return pa.table(
        {
            "user": [f"u{n}" for n in numbers],
            "n": [None if n in deleted else n for n in numbers],
            "__deleted": [n in deleted for n in numbers],
            "__timestamp": pa.array([AT] * len(numbers), pa.timestamp("us", "UTC")),
            "__sequence": pa.array([100 + n // 2 for n in numbers], pa.int64()),
            "__place": pa.array([n.to_bytes(4, "big") for n in numbers], pa.binary()),
            "__ordinal": pa.array([n % 2 for n in numbers], pa.int32()),
        }
    )


@dataclass
class World:
    """A sink, its function's calls, and what it parks. `fails`: what the function raises for a number, each time once."""

    folder: Path
    options: dict[str, Any] = field(default_factory=dict)
    calls: list[int] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    parked: list[Refusal] = field(default_factory=list)
    fails: dict[int, list[Exception]] = field(default_factory=dict)

    def send(self, table: pa.Table) -> None:
        self.deliver(hr.each(self.called, wait="1 ms", **self.options), table)

    def deliver(self, sink: EachSink, table: pa.Table, node: str = "a_node", *, again: bool = False) -> None:
        refused = f"file:{self.folder}/{node}.refused"
        delivery = hr.Delivery(node, ("user",), ("user",), ("user", "n"), refused, again=again)
        with pytest.MonkeyPatch.context() as instead:
            instead.setattr(refusals, "record_refusals", self._park)
            sink.deliver_table(table, delivery)

    def _park(self, rows: pa.Table, delivery: hr.Delivery, refused: list[Refusal], store: str) -> None:
        self.parked.extend(refused)

    def called(self, row: hr.DeliveredRow) -> None:
        number = int(row["user"][1:])
        self.calls.append(number)
        if errors := self.fails.get(number):
            raise errors.pop(0)
        self.ids.append(row.id)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_rows_are_sent_in_order_and_a_repeated_delivery_sends_none(world: World) -> None:
    world.send(rows_of(1, 2, 3, 4))
    world.send(rows_of(1, 2, 3, 4))  # the micro-batch was not committed
    assert world.calls == [1, 2, 3, 4]
    assert len(set(world.ids)) == 4
    world.send(rows_of(5, 6))
    assert world.calls == [1, 2, 3, 4, 5, 6]
    world.send(rows_of(1, 2, 3, 4))  # somebody asks for them again
    assert world.calls[6:] == [1, 2, 3, 4]
    assert world.ids[6:] == world.ids[:4]


def test_rows_that_a_person_asks_for_are_sent_however_often(world: World) -> None:
    """They were taken for the repetition of a delivery that had ended."""
    sink = hr.each(world.called)
    world.deliver(sink, rows_of(1, 2, 3))
    world.deliver(sink, rows_of(1, 2, 3), again=True)
    world.deliver(sink, rows_of(1, 2, 3), again=True)
    world.deliver(sink, rows_of(1, 2, 3))  # the stream's micro-batch was not committed
    assert world.calls == [1, 2, 3] * 3


@pytest.mark.parametrize("error", [hr.TransientError("away"), KeyboardInterrupt()])
def test_what_was_sent_before_a_crash_is_not_sent_again(world: World, error: BaseException) -> None:
    world.fails = {3: [error]}  # type: ignore[list-item]
    with pytest.raises(type(error)):
        world.send(rows_of(1, 2, 3, 4))
    world.send(rows_of(1, 2, 3, 4, 5))  # it goes further now
    assert world.calls == [1, 2, 3, 3, 4, 5]
    assert not world.parked


def test_rows_called_for_together_with_one_that_waits_are_not_sent_again(world: World) -> None:
    """Before, each retry sent those behind it once more; and one of them that failed was tried again with each."""
    world.options = {"calls_at_a_time": 3}
    world.fails = {
        2: [hr.TransientError("away") for _ in range(4)],
        4: [ValueError(str(n)) for n in range(3)],
    }
    for _ in range(4):
        with pytest.raises(hr.TransientError):
            world.send(rows_of(1, 2, 3, 4, 5, 6))
    assert {n: world.calls.count(n) for n in world.calls} == {1: 1, 2: 4, 3: 1, 4: 3}, (
        "none goes further ahead"
    )
    world.send(rows_of(1, 2, 3, 4, 5, 6, 7))
    assert sorted(world.calls[-4:]) == [2, 5, 6, 7]
    assert world.parked == [(102, 0, "ValueError: 2")]


def test_a_row_that_python_does_not_have_is_parked(world: World) -> None:
    """Before, one time in the year 10000 stopped the node for good."""
    rows, at = rows_of(1, 2, 3), pa.array([0, 253_402_300_800_000_000, None], pa.int64())
    rows = rows.set_column(1, "n", at.cast(pa.timestamp("us", "UTC")))
    world.send(rows)
    assert world.calls == [1, 3]
    ((*place, reason),) = world.parked
    assert place == [101, 0]
    assert reason.startswith("Python does not have such a value: ")


def test_other_rows_are_another_delivery(world: World) -> None:
    world.fails = {3: [hr.TransientError("away")]}
    with pytest.raises(hr.TransientError):
        world.send(rows_of(1, 2, 3))
    world.send(rows_of(1, 7, 3))
    assert world.calls == [1, 2, 3, 1, 7, 3]


def test_a_row_that_raises_is_tried_again_and_then_parked_with_its_last_reason(world: World) -> None:
    world.fails = {2: [ValueError("first"), KeyError("second")], 3: [ValueError(str(n)) for n in range(3)]}
    world.send(rows_of(1, 2, 3, 4))
    assert world.calls == [1, 2, 2, 2, 3, 3, 3, 4]
    assert world.parked == [(101, 1, "ValueError: 2")]


def test_a_row_has_its_columns_and_says_whether_it_is_gone(world: World) -> None:
    told = list[hr.DeliveredRow]()
    world.deliver(hr.each(told.append, name="kept"), rows_of(1, 2, deleted=(2,)))
    assert [dict(row) for row in told] == [{"user": "u1", "n": 1}, {"user": "u2", "n": None}]
    assert [(row.deleted, row.timestamp, row.node) for row in told] == [
        (False, AT, "a_node"),
        (True, AT, "a_node"),
    ]


def test_calls_a_second_and_at_a_time_are_bounded(world: World) -> None:
    world.options = {"rows_per_second": 50}
    began = time.monotonic()
    world.send(rows_of(*range(11)))
    assert time.monotonic() - began > 10 / 50
    running, most, lock, three = [0], [0], threading.Lock(), threading.Event()

    def slow(row: hr.DeliveredRow) -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
            if running[0] == 3:
                three.set()
        assert three.wait(PATIENCE_S)
        time.sleep(0.05)
        with lock:
            running[0] -= 1
        raise ValueError("each")

    world.deliver(hr.each(slow, calls_at_a_time=3, attempts=1), rows_of(*range(10)), "other")
    assert most[0] == 3
    assert [row[:2] for row in world.parked] == [(100 + n // 2, n % 2) for n in range(10)]


def test_a_sink_that_cannot_be_is_refused() -> None:
    for options, says in (
        ({"name": "a b"}, "'a b' is no name of a sink"),
        ({"calls_at_a_time": 0}, "calls_at_a_time 0 (int) is not a whole number above 0"),
        ({"attempts": True}, "attempts True (bool)"),
        ({"rows_per_second": 0}, "rows_per_second 0 (int) is not above 0"),
        ({"wait": "soon"}, "each: wait"),
    ):
        with pytest.raises(hr.DescriptionError) as refused:
            hr.each(print, **options)
        assert says in str(refused.value)
    with pytest.raises(hr.DescriptionError, match="is no function"):
        hr.each("mail")  # type: ignore[arg-type]
    with pytest.raises(hr.DescriptionError, match="is no name of a sink"):
        hr.each(lambda row: None)
    assert hr.each(print).name == "each-print"

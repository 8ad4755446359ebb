"""Batches, one fact each. The driver's clock starts at 0 seconds and moves when told."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.engine.slices.increments import reach
from headrace.nodes.standing import next_increment
from tests.conftest import Drive
from tests.laws import tables
from tests.rows import state_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.description import Batches
    from headrace.testing import TestDriver

pytestmark = pytest.mark.fast

VISITS, CALLS = (
    hr.Topic(name, key="customer STRING", value="visitor STRING, action STRING")
    for name in ("visits", "calls")
)
DAY_MS = 86_400_000


def batches(name: str = "visit_batches", by: tuple[str, ...] = (), **limits: Any) -> Batches:
    return VISITS.group_by(*by).batch(collect=["visitor", "action"], **limits).named(name)


def merged(**limits: Any) -> Batches:
    return (
        VISITS.merge(CALLS).group_by().batch(collect=["visitor", "action"], **limits).named("visit_batches")
    )


class Visits:
    """A driver with the moment at which it started."""

    def __init__(self, driver: TestDriver) -> None:
        self.driver, self.began_ms = driver, driver.now_ms

    def visit(self, *customers: str, visitor: str = "v", partition: int = 0) -> None:
        """One record each, and a cut."""
        for customer in customers:
            self.pipe("visits", customer, visitor, partition)
        self.driver.cut()

    def pipe(self, topic: str, customer: str, visitor: str = "v", partition: int = 0) -> None:
        """One record."""
        value = {"visitor": visitor, "action": "look"}
        self.driver.pipe(topic, key=customer, value=value, timestamp_ms=1_000, partition=partition)

    def wait(self, duration: str) -> None:
        """Let the wall clock run, and cut."""
        self.driver.advance_wall_clock(duration)
        self.driver.cut()

    def wait_until_beat(self, every_ms: int) -> None:
        """Let the wall clock run to a multiple of an interval."""
        self.driver.advance_wall_clock(f"{every_ms - self.driver.now_ms % every_ms} ms")

    def shown(self, node: str = "visit_batches") -> list[str]:
        """`a 2 by count 0-4`: group, records, what closed it, seconds since the start at which it opened and closed."""
        rows = self.driver.rows(node)
        rows.sort(key=lambda row: (row["closed_at"], row["opened_at"], row["batch_id"]))
        at = [
            [(tables.ms(row[name]) - self.began_ms) / 1000 for name in ("opened_at", "closed_at")]
            for row in rows
        ]
        return [
            f"{next(iter(row.values()))} {row['records']} by {row['closed_by']} {opened:g}-{closed:g}"
            for row, (opened, closed) in zip(rows, at, strict=True)
        ]


def test_a_drain_closes_what_is_open_and_a_crash_closes_nothing(drive: Drive) -> None:
    visits = Visits(drive(batches(max_records=3, max_wait="1 hour")))
    visits.visit("a", "b", "b")
    for step in ("before outputs", "after outputs", "after state"):
        visits.driver.crash(step)
        visits.visit("a" if step == "after state" else "c")
    assert visits.shown() == []
    visits.driver.advance_wall_clock("2 seconds")
    visits.driver.drain()
    assert [line.rsplit("-", 1)[0] for line in visits.shown()] == [
        "a 2 by drain 0",
        "b 2 by drain 0",
        "c 2 by drain 0.001",
    ]
    visits.visit("a")
    visits.driver.drain()
    visits.driver.drain()
    assert len(visits.shown()) == 4, "a drain of nothing closes nothing"
    visits.driver.check("visit_batches")


def test_on_a_beat_the_batches_of_all_groups_close_together_and_a_full_one_closes_at_once(
    drive: Drive,
) -> None:
    """By hand: beats at 10 and 20 seconds. b is full at 6; its fourth record is open at the beat, as are those of a."""
    visits = Visits(drive(batches(max_records=3, every="10 seconds")))
    visits.wait_until_beat(10_000)
    visits.visit("a", "b")
    visits.wait("6 seconds")
    visits.visit("b", "b", "b", "a")
    visits.wait("4 seconds")  # nothing arrives; a tick records the beat
    closed = [line.split(" ")[:4] for line in visits.shown()]
    assert closed == [["b", "3", "by", "count"], ["a", "2", "by", "beat"], ["b", "1", "by", "beat"]]
    beats = [row for row in visits.driver.rows("visit_batches") if row["closed_by"] == "beat"]
    assert {tables.ms(row["closed_at"]) % 10_000 for row in beats} == {0}
    visits.visit("a")
    visits.driver.crash("after outputs")
    visits.wait("10 seconds")
    assert visits.shown()[-1].startswith("a 1 by beat")
    visits.driver.check("visit_batches")


def test_a_whole_stream_is_batched_in_the_order_of_its_logs(drive: Drive) -> None:
    """By hand: commit 1 brings a and, in partition 1, b; commit 2 c of another topic, which fills a batch; d waits."""
    merged_calls = VISITS.merge(CALLS).batch(
        collect=["customer", "action"], max_records=3, max_wait="5 seconds"
    )
    visits = Visits(drive(merged_calls.named("visit_batches")))
    visits.pipe("visits", "b", partition=1)
    visits.pipe("visits", "a")
    visits.driver.cut()
    visits.pipe("calls", "c")
    visits.driver.cut()
    visits.driver.crash("after outputs")
    visits.visit("d")
    visits.wait("5 seconds")
    rows = sorted(visits.driver.rows("visit_batches"), key=lambda row: row["closed_at"])
    assert [
        (row["stream"], row["closed_by"], [event["customer"] for event in row["events"]]) for row in rows
    ] == [("all", "count", ["a", "b", "c"]), ("all", "wait", ["d"])]
    visits.driver.check("visit_batches")


def test_bad_input_is_in_no_batch_and_stops_nothing(drive: Drive) -> None:
    visits = Visits(drive(batches(max_records=2)))
    good = json.dumps({"visitor": "v", "action": None})
    for key, value in (
        ("a", good),
        ("a", None),
        ("a", b"{"),
        ("a", b"\xff"),
        (None, good),
        ("a", good),
        ("", good),
    ):
        visits.driver.pipe("visits", key=key, value=value, timestamp_ms=1)
    visits.driver.cut()
    (row,) = visits.driver.rows("visit_batches")
    assert (row["customer"], row["records"]) == ("a", 2)
    ledger = tables.ledger(visits.driver.ledger("visit_batches"))
    assert ledger == {(0, "used"): 2, (0, "open"): 2, (0, "tombstone"): 1, (0, "dead_letter"): 2}
    with pytest.raises(hr.DescriptionError, match="nothing can be late"):
        visits.driver.late("visit_batches")


def test_the_state_keeps_one_small_row_for_each_open_batch(drive: Drive) -> None:
    visits = Visits(drive(batches(max_records=4, max_wait="1 hour")))
    for _ in range(3):
        visits.visit("a", "b", "b")
    (opened,) = visits.driver._runners.values()
    assert len(state_rows(visits.driver, "visit_batches", "open")) == 6
    before = visits.driver.ledger("visit_batches")
    opened.maintain()
    assert sorted(row["__records"] for row in state_rows(visits.driver, "visit_batches", "open")) == [2, 3]
    waiting = state_rows(visits.driver, "visit_batches", "waiting")
    assert len([row for row in waiting if not row["__deleted"]]) == 5
    assert visits.driver.ledger("visit_batches") == before
    visits.visit("a", "b", "b")
    assert [line.rsplit(" ", 1)[0] for line in visits.shown()] == [
        "b 4 by count",
        "a 4 by count",
        "b 4 by count",
    ]


@pytest.mark.parametrize("described", [batches, merged])
def test_a_node_far_behind_takes_the_log_in_portions_and_finds_the_same(
    described: Callable[..., Batches], drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(next_increment, "reach", partial(reach, bytes_max=1))
    driver = drive(described(max_records=3, max_wait="20 seconds"))
    for customers in ("ab", "a", "aabbc", "c"):
        for customer in customers:
            driver.pipe("visits", key=customer, value={"visitor": "v", "action": "look"}, timestamp_ms=1)
        driver.cut([])
        driver.advance_wall_clock("11 seconds")
    driver.cut()
    (opened,) = driver._runners.values()
    assert opened.progress.batch > 3, "each commit by itself"
    driver.check("visit_batches")

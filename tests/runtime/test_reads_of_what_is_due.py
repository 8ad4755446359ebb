"""What is due is found without reading what is not: with many open entries a micro-batch reads as much as with few."""

from __future__ import annotations

import datetime as dt
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.engine import state_files
from headrace.engine.state_files import StateSource
from headrace.engine.state_groups import GROUPS
from headrace.engine.state_reads import read_state
from headrace.fold.contract import Needs
from headrace.testing import TestDriver

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.writing.node_runner import NodeRunner

pytestmark = pytest.mark.fast

SECOND, HOUR = 1_000, 3_600_000
DUE, PIECE = 5, 300  # the oldest entries, which are due; younger ones in each piece
APART = 10 * SECOND  # between two pieces

READINGS = hr.Topic("readings", key="key STRING", value="n BIGINT", idle_timeout=None)
OTHERS = hr.Topic("others", key="key STRING", value="m BIGINT", idle_timeout=None)
USED = READINGS.where("n > 0")  # a record that is refused moves stream time, and touches no entry
BY_KEY = USED.group_by("key")
TOTALS = BY_KEY.aggregate(n=hr.count())
FINAL = hr.until_window_closes()


class Reminded(hr.Processor):
    """Gives a row an hour after a record."""

    def __init__(self, clock: str) -> None:
        self.clock = clock

    def init(self, context: hr.Context) -> None:
        self.context, self.last = context, context.store("last")

    def process(self, record: hr.Record) -> None:
        self.last.put(record["n"])
        self.context.schedule("1 hour", self.remind, clock=self.clock, once=True)

    def remind(self, moment: dt.datetime) -> None:
        self.context.forward(key=self.context.key["key"], n=self.last.get())


def reminded(clock: str) -> Any:
    waits: dict[str, Any] = {f"{clock}_wait": "1 hour"}
    stores = [hr.value_store("last", "n BIGINT")]
    return BY_KEY.process(partial(Reminded, clock), output="key STRING, n BIGINT", stores=stores, **waits)


def windowed(window: Any) -> Any:
    return BY_KEY.window(window, grace=HOUR - SECOND).aggregate(n=hr.count()).suppress(FINAL)


NODES: dict[str, Any] = {
    "windows": windowed(hr.tumbling(SECOND)),
    "sessions": windowed(hr.session(SECOND)),
    "time limits": TOTALS.suppress(hr.until_time_limit(HOUR)),
    "time limits by the wall clock": TOTALS.suppress(hr.until_time_limit(HOUR, clock="wall")),
    "batches": BY_KEY.batch(max_wait=HOUR, collect=["n"]),
    "timers": reminded("stream"),
    "timers by the wall clock": reminded("wall"),
    "joins of streams": USED.join(
        OTHERS.where("m > 0"), on="key", within=SECOND, grace=HOUR - SECOND, how="left"
    ),
}


def bytes_read(node: Any, pieces: int, then: Callable[[TestDriver, int], None]) -> int:
    """What a micro-batch reads of the state. In: pieces  of younger entries; then  cuts it, by the time before all."""
    driver = TestDriver([node])
    try:
        runner, begin_ms = driver._runners["due"], driver.now_ms
        for piece in range(1 + pieces):
            pass_time(driver, begin_ms + APART * (piece + 1))
            for number in range(PIECE if piece else DUE):
                driver.pipe("readings", key=f"{piece}-{number}", value={"n": 1})
            driver.cut()
        assert driver.rows("due") == []
        runner.pack(whole=True)
        know_footers(runner)
        known = runner.reads._total.bytes
        then(driver, begin_ms)
        return runner.reads._total.bytes - known
    finally:
        driver.close()


def oldest_are_due(driver: TestDriver, begin_ms: int) -> None:
    pass_time(driver, begin_ms + APART + HOUR + 2 * SECOND)
    assert {row["key"] for row in driver.rows("due")} == {f"0-{number}" for number in range(DUE)}


def one_record_comes(driver: TestDriver, begin_ms: int) -> None:
    driver.pipe("readings", key="new", value={"n": 1})
    driver.cut()
    assert driver.rows("due") == []


def pass_time(driver: TestDriver, at_ms: int) -> None:
    """Cut a micro-batch in which time passes until then, by all clocks."""
    driver.advance_wall_clock(f"{at_ms - driver.now_ms} ms")
    for topic, column in (("readings", "n"), ("others", "m")):
        if topic in driver._topics:
            driver.pipe(topic, key="refused", value={column: 0})
    driver.cut()


def know_footers(runner: NodeRunner) -> None:
    """Know the footers of all files, and no row."""
    layout, source = runner._of.operator.layout, StateSource.committed(runner._state)
    for name in layout.tables:
        read_state(source, layout, name, Needs())
    GROUPS.clear()


@pytest.mark.parametrize("kind", NODES)
def test_a_micro_batch_reads_what_is_due(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(state_files, "GROUP_ROWS_MIN", 16)  # the most that is read of a file for one row
    node = NODES[kind].named("due")
    few, many = (bytes_read(node, pieces, oldest_are_due) for pieces in (1, 10))
    assert 0 < many < 2 * few


def test_a_record_reads_the_sessions_that_it_may_join(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_files, "GROUP_ROWS_MIN", 16)
    node = NODES["sessions"].named("due")
    few, many = (bytes_read(node, pieces, one_record_comes) for pieces in (1, 10))
    assert 0 < many < 2 * few

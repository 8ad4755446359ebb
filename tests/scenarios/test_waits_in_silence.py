"""Nodes that wait for the wall clock behind others: a wait ends though no record comes, whatever began it; then ticks end."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.testing import TestDriver

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.fast

T = hr.Topic("t", key="key STRING", value="value BIGINT", idle_timeout="20 seconds")
U = hr.Topic("u", key="key STRING", value="n BIGINT", idle_timeout="20 seconds")
# Its stream time does not move without a record.
STRICT = hr.Topic("t", key="key STRING", value="value BIGINT", idle_timeout=None)
WAIT_S = 6


class Reminds(hr.Processor):
    """Tells of a record `WAIT_S` after it was processed, or after a stream timer that it set then."""

    def __init__(self, after: str | None = None) -> None:
        self.after = after

    def init(self, context: hr.Context) -> None:
        self.context = context

    def process(self, record: hr.Record) -> None:
        if self.after is None:
            self.wait(record.timestamp)
        else:
            self.context.schedule(self.after, self.wait, once=True)

    def wait(self, moment: object) -> None:
        self.context.schedule(f"{WAIT_S} seconds", self.remind, clock="wall", once=True)

    def remind(self, moment: object) -> None:
        self.context.forward(key=self.context.key["key"])


def batches(before: Any, column: str = "value") -> Any:
    """Batches of a node's rows, which wait for `WAIT_S`."""
    return before.as_stream().group_by("key").batch(max_wait=f"{WAIT_S} seconds", collect=[column]).named("b")


@contextmanager
def driven(*nodes: Any, incomplete: tuple[str, ...] = ()) -> Iterator[TestDriver]:
    driver = TestDriver([*nodes], incomplete=incomplete)
    try:
        yield driver
    finally:
        driver.close()


def pipe(driver: TestDriver, topic: str, value: int = 0) -> None:
    driver.pipe(
        topic, key="a", value={"n": value} if topic == "u" else {"value": value}, timestamp_ms=driver.now_ms
    )
    driver.cut()


def silence(driver: TestDriver, seconds: int, *, reopens: bool = False) -> None:
    """Let time pass second by second; each time the logs are opened again, or go on."""
    for _ in range(seconds):
        driver.advance_wall_clock("1 second")
        if reopens:
            driver._sequencers = {name: driver._open_sequencer(of) for name, of in driver._topics.items()}
        driver.cut()


def comes_to_rest(driver: TestDriver, *, reopens: bool = False) -> bool:
    before = {name: each.state.batch for name, each in driver._sequencers.items()}
    silence(driver, 3 * WAIT_S, reopens=reopens)
    return before == {name: each.state.batch for name, each in driver._sequencers.items()}


@pytest.mark.parametrize("reopens", [False, True], ids=["goes on", "opens again"])
@pytest.mark.parametrize("offset_ms", [0, 700])
def test_a_tick_that_passes_a_deadline_and_closes_a_window_begins_a_wait(
    offset_ms: int, reopens: bool
) -> None:
    """Every stream tick began an empty wait, and the tick at its end was none, though it moved stream time, too."""
    windows = T.stream.group_by("key").window(hr.tumbling("30 seconds"), grace="0 seconds")
    closed = windows.aggregate(n=hr.count()).suppress(hr.until_window_closes()).named("w")
    with driven(closed, batches(closed, "n")) as driver:
        begins_ms = driver.now_ms // 30_000 * 30_000
        driver.pipe("t", key="a", value={"value": 0}, timestamp_ms=begins_ms + offset_ms)
        driver.cut()
        silence(driver, 31, reopens=reopens)
        assert (len(driver.rows("w")), len(driver.rows("b"))) == (1, 0)
        silence(driver, WAIT_S, reopens=reopens)
        assert len(driver.rows("b")) == 1
        silence(driver, WAIT_S, reopens=reopens)
        assert comes_to_rest(driver, reopens=reopens)


@pytest.mark.parametrize(
    ("processor", "settings"),
    [
        (Reminds, {"order": "time", "grace": "30 seconds"}),
        (partial(Reminds, "30 seconds"), {"stream_wait": "30 seconds"}),
    ],
    ids=["records", "timers"],
)
def test_a_tick_that_lets_a_processor_go_on_begins_its_wait(processor: Any, settings: dict[str, Any]) -> None:
    reminders = T.stream.group_by("key").process(
        processor, output="key STRING", wall_wait=f"{WAIT_S} seconds", **settings
    )
    with driven(reminders.named("r")) as driver:
        pipe(driver, "t")
        silence(driver, 31 + WAIT_S)
        assert len(driver.rows("r")) == 1
        silence(driver, 31)
        assert comes_to_rest(driver)


def test_a_drain_begins_a_wait() -> None:
    first = STRICT.stream.group_by("key").batch(max_records=9, collect=["value"]).named("first")
    counts = first.as_stream().group_by("key").aggregate(n=hr.count())
    last = counts.suppress(hr.until_time_limit(f"{WAIT_S} seconds", clock="wall")).named("last")
    with driven(first, last) as driver:
        pipe(driver, "t")
        silence(driver, 2 * WAIT_S)
        driver.drain()
        assert len(driver.rows("first")) == 1
        silence(driver, WAIT_S)
        assert len(driver.rows("last")) == 1
        assert comes_to_rest(driver)


def test_a_limit_that_is_set_as_a_deadline_passes_begins_a_wait() -> None:
    limited = STRICT.table().suppress(hr.until_time_limit("1 hour")).named("limited")
    other = limited.as_stream().group_by("key").batch(max_wait="20 seconds", collect=["value"]).named("other")
    with driven(limited, batches(limited), other) as driver:
        pipe(driver, "t")
        silence(driver, 60)
        driver.set_limits("limited", time_limit="50 minutes")  # this, too, begins a wait of the batch
        driver.advance_wall_clock(f"{WAIT_S + 1} seconds")
        driver.set_limits("limited", time_limit="0 seconds")
        driver.cut()
        assert (len(driver.rows("limited")), len(driver.rows("b"))) == (1, 0)
        silence(driver, WAIT_S)
        assert len(driver.rows("b")) == 1
        silence(driver, 20)
        assert comes_to_rest(driver)


def test_a_node_whose_limit_of_0_was_raised_waits_too() -> None:
    limited = T.table().suppress(hr.until_time_limit("0 seconds")).named("limited")
    with driven(limited, batches(limited)) as driver:
        pipe(driver, "t")
        silence(driver, WAIT_S)
        driver.set_limits("limited", time_limit="10 seconds")
        pipe(driver, "t", 1)
        silence(driver, 20)
        assert (len(driver.rows("limited")), len(driver.rows("b"))) == (2, 1)
        silence(driver, WAIT_S)
        assert len(driver.rows("b")) == 2


@pytest.mark.parametrize("records", [0, 1])
def test_the_commit_that_completes_a_table_begins_a_wait(records: int) -> None:
    """It is one of the table's topic, which may be empty: then the commit has no record."""
    looked_up = T.stream.lookup(U.table(), on="key", complete_first=True).named("l")
    with driven(looked_up, batches(looked_up), incomplete=("u",)) as driver:
        pipe(driver, "t")
        silence(driver, 3 * WAIT_S)
        assert driver.rows("l") == []
        for value in range(records):
            pipe(driver, "u", value)
        driver.complete("u")
        driver.cut()
        assert (len(driver.rows("l")), len(driver.rows("b"))) == (1, 0)
        silence(driver, WAIT_S)
        assert len(driver.rows("b")) == 1


def test_the_commit_that_completes_a_global_table_begins_a_wait_of_its_processor() -> None:
    reminders = T.stream.group_by("key").process(
        Reminds,
        output="key STRING",
        wall_wait=f"{WAIT_S} seconds",
        stores=[hr.global_table("u", U.table())],
    )
    with driven(reminders.named("r"), incomplete=("u",)) as driver:
        pipe(driver, "t")
        silence(driver, 3 * WAIT_S)
        driver.complete("u")
        driver.cut()
        silence(driver, WAIT_S)
        assert len(driver.rows("r")) == 1

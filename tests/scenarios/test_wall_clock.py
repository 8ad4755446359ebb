"""Windows and time limits by the wall clock: the log records it, so that a backfill repeats what a stream has done.

```
  wall clock   0 s     1 s             11 s                    61 s, no record: a tick
  p1           10      20 (joins)      30 (opens a wait)
  window       └──────────── one window of a minute ────────────┘
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.quality import check_node
from tests.scenarios.timeline import MINUTE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Drive

EVENTS = hr.Topic("events", key="id STRING", value="amount INT", idle_timeout=None)
COUNTS = (
    EVENTS.group_by()
    .window(hr.tumbling("1 minute"), clock="wall")
    .aggregate(n=hr.count(), total=hr.sum("amount"))
    .suppress(hr.until_window_closes())
    .named("counts")
)
CALM = EVENTS.table().suppress(hr.until_time_limit("10 seconds", clock="wall")).named("calm")
LARGE = CALM.where("amount > 25").named("large")


@pytest.mark.spark
def test_windows_end_and_waits_are_over_by_the_clock_that_the_log_records(
    drive: Drive, tmp_path: Path
) -> None:
    driver = drive(COUNTS, CALM, LARGE)
    into_minute = -driver.now_ms % MINUTE
    driver.advance_wall_clock(f"{into_minute} ms")

    def amount(value: int, event_minute: int) -> None:
        driver.pipe("events", key="p1", value={"amount": value}, timestamp_ms=event_minute * MINUTE)
        driver.cut()

    amount(10, 600)
    driver.advance_wall_clock("1 second")
    amount(20, 0)  # ten hours late by event time, and of the same window by the wall clock
    driver.crash("after outputs", "calm")
    driver.advance_wall_clock("10 seconds")
    amount(30, 5)  # eleven seconds after the first: that wait is over
    assert [row["amount"] for row in driver.rows("calm")] == [20]
    assert driver.rows("counts") == []
    driver.advance_wall_clock("50 seconds")
    driver.cut()
    (window,) = driver.rows("counts")
    assert (window["n"], window["total"]) == (3, 60)
    assert [row["amount"] for row in driver.rows("calm")] == [20, 30]
    assert [row["amount"] for row in driver.rows("large")] == [30]
    assert driver.fates("counts") == driver.fates("calm") == {"used": 3}
    for node in (COUNTS, CALM):
        name = node.required_name
        assert driver.late(name) == [] if node is COUNTS else True
        driver.check(name)
    judged = check_node(driver.spark, driver._lake, COUNTS, str(tmp_path))
    assert [result.sentence for result in judged if not result.passed] == []
    left = driver.spark.read.format("delta").load(driver._lake.table("calm")).orderBy("__sequence").collect()
    assert [row["__sequence"] - row["__opened_ms"] for row in left] == [10_000, 10_000]


@pytest.mark.fast
@pytest.mark.parametrize(
    ("describe", "why"),
    [
        (
            lambda: EVENTS.group_by().window(hr.tumbling("1 minute"), clock="sun"),
            "clock 'sun'.* does not exist",
        ),
        (
            lambda: EVENTS.group_by().window(hr.tumbling("1 minute"), grace="1 minute", clock="wall"),
            "by the wall clock no record is late",
        ),
        (
            lambda: EVENTS.group_by().window(hr.session("1 minute"), clock="wall"),
            "clock='wall' is for tumbling and hopping windows",
        ),
        (
            lambda: hr.until_time_limit("1 minute", 5, when_full="emit_early", clock="wall"),
            "'emit_early' goes by stream time",
        ),
        (
            lambda: EVENTS.table().join(COUNTS, on="amount"),
            "windows by the wall clock are no table to be joined",
        ),
    ],
)
def test_what_the_wall_clock_cannot_do_is_refused(describe: object, why: str) -> None:
    with pytest.raises(hr.DescriptionError, match=why):
        describe()  # type: ignore[operator]


@pytest.mark.fast
def test_the_clock_alters_the_fingerprint_only_where_it_is_the_walls() -> None:
    stream, wall = (
        EVENTS.table().suppress(hr.until_time_limit("10 seconds", clock=clock))
        for clock in ("stream", "wall")
    )
    assert "clock" not in stream.rules()
    assert stream.fingerprint() != wall.fingerprint() == CALM.fingerprint()
    assert (CALM.longest_wait_ms, CALM.longest_wall_wait_ms) == (0, 10_000)
    assert "clock" in COUNTS.rules()
    assert (
        COUNTS.in_words
        == "One row per id and tumbling window of 1 minute of the wall clock, final at the window's end."
    )

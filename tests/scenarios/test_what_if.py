"""The answer of `what-if` is that of a real run with that grace."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.errors import DescriptionError
from headrace.oracle.values import identity
from headrace.testing import TestDriver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

fast = pytest.mark.fast
BEGIN_MS, SECOND_MS = 1_700_000_000_000, 1_000
EVENTS = hr.Topic("events", key="key STRING", value="value BIGINT", idle_timeout="1 minute")
WINDOWS: dict[str, Any] = {
    "tumbling": hr.tumbling("1 minute"),
    "hopping": hr.hopping("2 minutes", "30 seconds"),
    "calendar": hr.calendar("day", zone="Europe/Berlin"),
    "sliding": hr.sliding("40 seconds"),
    "session": hr.session("20 seconds"),
}


def node(kind: str, grace: str, *, suppressed: bool = True) -> Any:
    counts = {"n": hr.count(), "total": hr.sum("value"), "newest": hr.last("value")}
    made = EVENTS.group_by("key").window(WINDOWS[kind], grace=grace).aggregate(**counts)
    return (made.suppress(hr.until_window_closes()) if suppressed else made).named("windows")


def driver_of(described: Any, seed: int, spark: SparkSession | None = None) -> TestDriver:
    """The same log for each description of a seed; records come up to four minutes late."""
    driver, random = TestDriver([described], spark=spark), Random(seed)
    for step in range(6):
        for _ in range(25):
            late_ms = random.choice([0, 0, 0, random.randrange(240)]) * SECOND_MS
            driver.pipe(
                "events",
                key=random.choice(["a", "b", "c", None]),
                value={"value": random.randrange(9)},
                timestamp_ms=BEGIN_MS + (step * 90 + random.randrange(60)) * SECOND_MS - late_ms,
            )
        driver.cut()
    return driver


@pytest.mark.parametrize("kind", sorted(WINDOWS))
@pytest.mark.parametrize(("grace", "other"), [("30 seconds", "2 minutes"), ("2 minutes", "0 seconds")])
@pytest.mark.parametrize("seed", [0, *(pytest.param(more, marks=pytest.mark.long) for more in (1, 2))])
@fast
def test_another_grace_gives_the_rows_of_a_run_with_it(kind: str, grace: str, other: str, seed: int) -> None:
    now = driver_of(node(kind, grace), seed)
    answer = now.what_if("windows", grace=other)
    then = driver_of(node(kind, other), seed)
    rows_now, rows_then = now.rows("windows"), then.rows("windows")
    late_now, late_then = (each.fates("windows").get("late", 0) for each in (now, then))
    assert (answer.late, answer.late_then) == (late_now, late_then)
    differences = answer.differences
    assert differences.rows_before == len(rows_now) - answer.waiting
    assert differences.rows_after == len(rows_then) - answer.waiting_now
    own, others = ({identity(row.values()) for row in rows} for rows in (rows_now, rows_then))
    for each in differences.differing:
        assert each.before is None or identity(each.before.values()) in own - others
        assert each.after is None or identity(each.after.values()) in others - own
    equal = len(own & others)
    assert differences.removed + differences.changed == differences.rows_before - equal
    assert differences.added + differences.changed == differences.rows_after - equal
    now.close()
    then.close()


@fast
def test_results_come_later_by_the_commits_that_close_the_windows() -> None:
    driver = TestDriver([node("tumbling", "0 seconds")])
    for minute in range(6):
        driver.pipe("events", key="a", value={"value": 1}, timestamp_ms=BEGIN_MS + minute * 60 * SECOND_MS)
        driver.cut()
        driver.advance_wall_clock("50 seconds")
    answer = driver.what_if("windows", grace="1 minute")
    assert answer.windows == 4
    assert answer.later_ms is not None
    assert 50_000 <= answer.later_ms < 51_000
    assert answer.waiting == 1
    assert answer.differences.total == 0
    driver.close()


@fast
def test_the_lake_is_only_read() -> None:
    driver = driver_of(node("tumbling", "30 seconds"), 1)
    root = driver.lake.root.removeprefix("file:")
    before = files(root)
    driver.what_if("windows", grace="2 minutes")
    assert files(root) == before
    driver.close()


@fast
def test_windows_that_are_not_suppressed_are_compared_once_they_are_final() -> None:
    driver = driver_of(node("tumbling", "30 seconds", suppressed=False), 1)
    final = driver_of(node("tumbling", "30 seconds"), 1)
    shown, wanted = (each.what_if("windows", grace="2 minutes") for each in (driver, final))
    assert shown == wanted
    assert shown.differences.total > 0
    driver.close()
    final.close()


@pytest.mark.spark
def test_over_a_cut_log_the_windows_that_begin_after_what_was_cut_are_compared(spark: SparkSession) -> None:
    cut = driver_of(node("tumbling", "30 seconds"), 5, spark)
    cut.advance_wall_clock("1 minute")
    cut.retain("events", cut.now_ms)  # the cut spares what a window is open for
    for minute in range(9, 20):
        for late_minutes in (0, 2):
            at_ms = BEGIN_MS + (minute - late_minutes) * 60 * SECOND_MS
            cut.pipe("events", key="a", value={"value": 1}, timestamp_ms=at_ms)
        cut.cut()
    answer = cut.what_if("windows", grace="5 minutes")
    assert answer.since is not None
    begun = [row for row in cut.rows("windows") if row["window_start"] > answer.since]
    assert answer.differences.rows_before + answer.waiting == len(begun) > 0
    assert answer.differences.total == answer.differences.changed > 0
    for each in answer.differences.differing:
        assert each.before is not None
        assert each.after is not None
        assert each.before["n"] < each.after["n"]
    cut.close()


@fast
def test_a_node_without_windows_of_event_time_has_no_grace() -> None:
    total = EVENTS.group_by("key").aggregate(n=hr.count()).named("totals")
    driver = TestDriver([total])
    driver.pipe("events", key="a", value={"value": 1}, timestamp_ms=BEGIN_MS)
    driver.cut()
    with pytest.raises(DescriptionError, match="has no grace"):
        driver.what_if("totals", grace="1 minute")
    driver.close()


def files(root: str) -> set[str]:
    return {str(path) for path in Path(root).rglob("*") if path.is_file()}

"""The curve of a node is that of real runs with each of its graces."""

from __future__ import annotations

from dataclasses import replace

import pytest

import headrace as hr
from headrace.explain.graces.grace_curve import GraceCurve, GracePoint, grace_curve
from headrace.explain.graces.other_grace_in_words import lines_of_curve
from headrace.nodes.rows.feed_tables import feed_tables
from headrace.testing import TestDriver
from tests.scenarios.test_what_if import BEGIN_MS, EVENTS, SECOND_MS, WINDOWS, driver_of, node

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("kind", sorted(WINDOWS))
@pytest.mark.slow
def test_each_point_counts_the_records_of_a_run_with_that_grace(kind: str) -> None:
    driver = driver_of(node(kind, "30 seconds"), 3)
    curve = driver.grace_curve("windows")
    assert curve.points[-1].complete == curve.records == 150
    graces = {point.grace_ms: point for point in (*curve.points[::18], curve.now, curve.more)}
    for grace_ms, point in graces.items():
        run = driver_of(node(kind, f"{grace_ms} ms"), 3)
        incomplete = {(row["topic"], row["partition"], row["offset"]) for row in run.late("windows")}
        if kind == "session":  # a record may join a session that is open for another reason
            assert len(incomplete) <= curve.records - point.complete
        else:
            assert len(incomplete) == curve.records - point.complete
        run.close()
    assert [point.complete for point in curve.points] == sorted(point.complete for point in curve.points)
    driver.close()


def test_results_wait_as_long_as_what_if_says() -> None:
    driver = TestDriver([node("tumbling", "0 seconds")])
    for minute in range(9):
        driver.pipe("events", key="a", value={"value": 1}, timestamp_ms=BEGIN_MS + minute * 60 * SECOND_MS)
        driver.cut()
        driver.advance_wall_clock(f"{20 + minute} seconds")
    curve, answer = driver.grace_curve("windows"), driver.what_if("windows", grace="1 minute")
    assert curve.now.wait_ms == 0
    assert (curve.more.wait_ms, curve.more.wait_p99_ms) == (answer.later_ms, answer.later_p99_ms)
    assert curve.in_words == "All records count, so a longer grace buys nothing."
    driver.close()


def test_a_whole_day_of_the_log_is_read_once(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = TestDriver([node("tumbling", "30 seconds")])
    read = list[int]()

    def counting(*values: object) -> object:
        tables = feed_tables(*values)  # type: ignore[arg-type]
        read.append(sum(table.num_rows for table in tables.values()))
        return tables

    monkeypatch.setattr("headrace.explain.graces.grace_curve.feed_tables", counting)
    folder = f"file:{tmp_path}/curves"
    for day in range(4):
        for number in range(10):
            at_ms = BEGIN_MS + (day * 600 + number * 7) * SECOND_MS - (number % 3) * 90 * SECOND_MS
            driver.pipe("events", key="a", value={"value": 1}, timestamp_ms=at_ms)
            if number % 4 == 3:
                driver.cut()
        driver.cut()
        whole = grace_curve(driver._session, driver.lake, driver._nodes["windows"])
        read.clear()
        remembered = grace_curve(driver._session, driver.lake, driver._nodes["windows"], folder=folder)
        assert remembered == whole
        assert whole.records == 10 * (day + 1)
        assert sum(read) < 40  # the rows of two days at most, ticks with them
        driver.advance_wall_clock("1 day")
    driver.close()


def test_records_that_a_condition_drops_belong_to_no_window() -> None:
    some = EVENTS.where("value > 0").group_by("key").window(hr.tumbling("1 minute"), grace="30 seconds")
    driver = driver_of(some.aggregate(n=hr.count()).named("some"), 3)
    assert driver.grace_curve("some").records == 150 - driver.fates("some")["filtered"]
    driver.close()


def test_the_sentence_names_a_cost_only_if_there_is_one() -> None:
    now, more = GracePoint(0, 8, 0, 0), GracePoint(60_000, 10, 0, 0)
    curve = GraceCurve("windows", 10, [now, more], now, more)
    assert curve.in_words == (
        "With a grace of 1 minute, 2 of the 2 incomplete records count, and results come no later."
    )
    table = [*lines_of_curve(curve)][2:]
    assert [line.split()[-1] for line in table] == ["now", "none"]  # before: "0 ms"
    later = replace(more, wait_ms=5_000)
    assert replace(curve, more=later).in_words.endswith("count, and results come 5 seconds later.")

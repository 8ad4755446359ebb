"""Windows of a calendar through the engine: final rows, Dagster's days, and a backfill of a day that has 23 hours."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.lifecycle.backfill import Backfill
from headrace.lifecycle.oracle_check import verify_keys
from headrace.nodes.days import last_complete_day
from headrace.orchestration.events.completed import rows_by_day

if TYPE_CHECKING:
    from tests.conftest import Drive


SALES = hr.Topic("sales", key="shop STRING", value="amount INT", idle_timeout=None)
HOUR = dt.timedelta(hours=1)


def sales_by(unit: str, name: str, zone: str = "Europe/Berlin") -> Any:
    windows = SALES.group_by().window(hr.calendar(unit, zone=zone), grace="1 hour")
    return (
        windows.aggregate(n=hr.count(), total=hr.sum("amount")).suppress(hr.until_window_closes()).named(name)
    )


@pytest.mark.spark
@pytest.mark.parametrize(
    ("first", "hours"),
    [("2026-03-27", (24, 24, 23, 24)), ("2026-10-23", (24, 24, 25, 24))],
    ids=["spring", "autumn"],
)
def test_days_of_berlin_are_final_partitions_over_a_change_of_the_clocks(
    drive: Drive, first: str, hours: tuple[int, ...]
) -> None:
    days = sales_by("day", "days")
    driver = drive(days)
    local = dt.datetime.fromisoformat(first).date()
    begin = dt.datetime.fromisoformat(f"{first}T00:00+0{1 if first < '2026-04' else 2}:00")
    for hour in range(sum(hours) + 2):
        at_ms = round((begin + hour * HOUR).timestamp() * 1000)
        driver.pipe("sales", key="s1", value={"amount": 1}, timestamp_ms=at_ms, partition=0)
        if hour % 20 == 19:
            driver.crash("after outputs", "days")
            driver.cut()
    driver.cut()
    rows = driver.rows("days")
    assert [row["n"] for row in rows] == [*hours]
    assert [(row["window_end"] - row["window_start"]) / HOUR for row in rows] == [*hours]
    spark, lake = driver.spark, driver._lake
    dates = [local + dt.timedelta(days=number) for number in range(len(hours))]
    end_ms = round((begin + (sum(hours) + 1) * HOUR).timestamp() * 1000)
    assert last_complete_day(days, end_ms) == dates[-1]
    assert last_complete_day(days, end_ms - 3_600_001) == dates[-2]
    assert rows_by_day(spark, lake, days, after=dates[0], through=dates[-1]) == dict.fromkeys(dates[1:], 1)
    verdicts = Backfill(spark, lake, days, days=[dates[2]]).run()
    assert [(each.day, each.rows_stored, each.rows_recomputed, each.equal) for each in verdicts] == [
        (dates[2], 1, 1, True)
    ]
    assert verify_keys(spark, lake, days, 10).equal


@pytest.mark.fast
def test_months_with_a_leap_day_and_weeks_of_a_zone_without_one_of_its_days(drive: Drive) -> None:
    months, weeks = sales_by("month", "months"), sales_by("week", "weeks", "Pacific/Apia")
    driver = drive(months, weeks)
    for day in (
        dt.date(2024, 1, 31),
        dt.date(2024, 2, 1),
        dt.date(2024, 2, 29),
        dt.date(2024, 3, 1),
        dt.date(2024, 4, 1),
    ):
        at_ms = round(dt.datetime(day.year, day.month, day.day, 12, tzinfo=dt.UTC).timestamp() * 1000)
        driver.pipe("sales", key="s1", value={"amount": day.day}, timestamp_ms=at_ms)
    driver.cut()
    rows = driver.rows("months")
    assert [(row["total"], (row["window_end"] - row["window_start"]).days) for row in rows] == [
        (31, 31),
        (30, 29),
        (1, 30),
    ]
    assert all(row["window_start"].hour == 23 for row in rows)
    for name in ("months", "weeks"):
        driver.check(name)

"""Sessions told as timelines: gap five minutes, grace one; each line of a drawing ends in a cut (see `timeline`)."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.lifecycle.backfill import Backfill
from tests.lake.other_hands import delete
from tests.rows import state_rows
from tests.scenarios.timeline import play, shown

if TYPE_CHECKING:
    from headrace.description import WindowedAggregate
    from tests.conftest import Drive

TOPIC = hr.Topic("readings", key="sensor STRING", value="value DOUBLE")


def visits(grace: str = "1 minute", *, suppressed: bool = True, name: str = "visits") -> WindowedAggregate:
    counted = TOPIC.group_by().window(hr.session("5 minutes"), grace=grace).aggregate(n=hr.count())
    return (counted.suppress(hr.until_window_closes()) if suppressed else counted).named(name)


@pytest.mark.fast
def test_a_bridging_record_makes_one_session_of_two_and_neither_a_crash_nor_upkeep_shows(
    drive: Drive,
) -> None:
    driver = drive(visits("30 minutes", suppressed=False, name="current"))

    def current() -> list[str]:
        return shown(driver.rows("current"))

    play(driver, "a@10  a@17  b@11  !before outputs")
    assert current() == ["a 10-10 1", "a 17-17 1", "b 11-11 1"]
    play(driver, "a@14  !after state")
    assert current() == ["a 10-17 3", "b 11-11 1"]
    ledger = driver.fates("current")
    assert len(state_rows(driver, "current", "open_sessions")) == 5, (
        "and a mark that two of them became another"
    )
    driver._runners["current"].maintain()
    assert len(state_rows(driver, "current", "open_sessions")) == 2
    assert (current(), driver.fates("current")) == (["a 10-17 3", "b 11-11 1"], ledger)
    play(driver, "b@15  b@22  a@19\nb@18.5  a@60  !after outputs")
    assert current() == ["a 10-19 4", "a 60-60 1", "b 11-22 4"]
    driver.check("current")
    last = [row for row in driver.updates("current") if row["__batch"] is None]
    assert shown(row for row in last if row["n"] is not None) == ["a 10-19 4", "b 11-22 4"]
    assert shown(row for row in last if row["n"] is None) == [
        "a 10-17 None",
        "b 11-11 None",
        "b 11-15 None",
        "b 22-22 None",
    ]


@pytest.mark.spark
def test_a_backfill_of_a_day_recomputes_the_sessions_that_begin_in_it_from_what_came_before(
    drive: Drive,
) -> None:
    driver = drive(visits())
    midnight = 1440
    play(
        driver,
        f"""
        a@{midnight - 8}  b@{midnight - 8}
        a@{midnight - 4}  b@{midnight + 1}       # a's session began the day before, b's first one too
        a@{midnight + 1}  b@{midnight + 2}
        a@{midnight - 8}  c@{midnight + 40}      # joins a's, which is open
        b@{midnight + 1}  b@{midnight + 80}      # late
        """,
    )
    wanted = [f"b {midnight + 1}-{midnight + 2} 2", f"c {midnight + 40}-{midnight + 40} 1"]
    second_day = dt.datetime(1970, 1, 2, tzinfo=dt.UTC)

    def of_second_day() -> list[str]:
        return shown(row for row in driver.rows("visits") if row["window_start"] >= second_day)

    assert of_second_day() == wanted
    assert len(driver.late("visits")) == 1
    node = visits()
    (day,) = (d for d in Backfill(driver.spark, driver._lake, node).days if d and d.day == 2)
    delete(driver._lake.table("visits"), "sensor = 'b'")
    (verdict,) = Backfill(driver.spark, driver._lake, node, [day]).run()
    assert (verdict.rows_recomputed, verdict.rows_stored, verdict.swapped) == (2, 1, True)
    assert of_second_day() == wanted

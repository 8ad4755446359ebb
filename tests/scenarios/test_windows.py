"""Windows told as timelines: each drawing is a log, each line of it ends in a cut (see `timeline`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.description import Stream, WindowedAggregate
from headrace.testing.driver import STEPS
from tests.rows import columns
from tests.scenarios.timeline import play, shown

if TYPE_CHECKING:
    from tests.conftest import Drive

pytestmark = pytest.mark.fast


def topic(name: str = "readings", idle_timeout: str | None = "1 minute") -> hr.Topic:
    return hr.Topic(name, key="sensor STRING", value="value DOUBLE", idle_timeout=idle_timeout)


def counts(
    stream: hr.Topic | Stream, window: hr.TimeWindows | None = None, grace: str = "2 minutes"
) -> WindowedAggregate:
    """Two-minute windows, grace two, as in the design."""
    grouped = stream.group_by("sensor").window(window or hr.tumbling("2 minutes"), grace=grace)
    return grouped.aggregate(n=hr.count()).suppress(hr.until_window_closes()).named("counts")


def test_a_record_within_grace_still_enters_and_one_after_the_close_is_late(drive: Drive) -> None:
    driver = drive(counts(topic()))
    play(driver, "s1@10  s1@11.5  s1@13  s1@11")  # at stream time 13, a record of 11 enters window 10-12
    assert shown(driver.rows("counts")) == []
    play(driver, "s1@14  s1@10")  # at 14 the window closes with three; a record of 10 is late
    assert shown(driver.rows("counts")) == ["s1 10-12 3"]
    assert columns(driver.late("counts"), "partition", "offset", "late_by_ms") == [(0, 5, 0)]
    assert driver.fates("counts") == {"used": 3, "open": 2, "late": 1}


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_after_any_step_changes_nothing(drive: Drive, step: str) -> None:
    hops = counts(topic(), hr.hopping("4 minutes", "90 seconds"), grace="0 ms")
    driver = drive(hops)
    play(
        driver,
        f"""
        s1@10  s2@11  p1:s1@10.5
        s1@15  p1:s1@14  !{step}       # closes windows while it dies
        s1@13  !{step}
        s1@19  p1:s2@18
        """,
    )
    assert shown(driver.rows("counts")) == shown(driver.backfill("counts"))
    assert shown(driver.rows("counts")) == [
        "s1 10.5-14.5 2", "s1 12-16 3", "s1 13.5-17.5 2", "s1 7.5-11.5 2", "s1 9-13 2",
        "s2 10.5-14.5 1", "s2 7.5-11.5 1", "s2 9-13 1",
    ]  # fmt: skip


def totals(stream: hr.Topic | Stream) -> WindowedAggregate:
    return (
        stream.group_by("sensor")
        .window(hr.tumbling("2 minutes"), grace="0 ms")
        .aggregate(
            total=hr.sum("value"), mean=hr.avg("value"), lowest=hr.min("value"), highest=hr.max("value")
        )
        .suppress(hr.until_window_closes())
        .named("totals")
    )


def test_without_suppression_the_open_windows_are_read_too(drive: Drive) -> None:
    grouped = topic().group_by("sensor").window(hr.tumbling("2 minutes"), grace="0 ms")
    driver = drive(grouped.aggregate(n=hr.count()).named("counts"))
    assert shown(driver.rows("counts")) == []
    play(driver, "s1@1  s1@2")
    assert shown(driver.rows("counts")) == ["s1 0-2 1", "s1 2-4 1"]
    play(driver, "s1@3  s2@3")
    assert (
        shown(driver.rows("counts"))
        == ["s1 0-2 1", "s1 2-4 2", "s2 2-4 1"]
        == shown(driver.backfill("counts"))
    )


def test_a_branch_takes_what_no_branch_before_it_took(drive: Drive) -> None:
    low, rest = topic().branch("value < 10", "value >= 0 OR value IS NULL")
    driver = drive(counts(low).named("low"), counts(rest).named("rest"))
    play(driver, "a@1=5  b@1=50  c@1=null  a@9  b@9=99")
    assert shown(driver.rows("low")) == ["a 0-2 1"]
    assert shown(driver.rows("rest")) == ["b 0-2 1", "c 0-2 1"]
    assert driver.fates("low") == {"used": 1, "open": 1, "filtered": 3}


def test_filtered_records_advance_stream_time(drive: Drive) -> None:
    driver = drive(counts(topic().where("value > 0")))
    play(driver, "s1@10  s1@14=-1")
    assert shown(driver.rows("counts")) == ["s1 10-12 1"]
    assert driver.fates("counts") == {"used": 1, "filtered": 1}


def test_before_the_first_record_every_table_is_empty_and_typed(drive: Drive) -> None:
    driver = drive(counts(topic()))
    for cut in range(2):
        for view in (driver.rows, driver.backfill, driver.late, driver.updates):
            assert view("counts") == [], f"{view.__name__} after {cut} cuts"
        assert driver.fates("counts") == {}
        driver.cut()

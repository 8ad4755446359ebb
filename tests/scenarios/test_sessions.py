"""Sessions told as timelines: gap five minutes, grace one; each line of a drawing ends in a cut (see `timeline`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

import headrace as hr
from headrace.lifecycle.backfill import Backfill
from headrace.testing import TestDriver
from tests.lake.other_hands import delete
from tests.laws import tables
from tests.scenarios.timeline import MINUTE, fates, play, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import WindowedAggregate
    from tests.conftest import Drive

pytestmark = pytest.mark.spark

TOPIC = hr.Topic("readings", key="sensor STRING", value="value DOUBLE")


def visits(grace: str = "1 minute", *, suppressed: bool = True, name: str = "visits") -> WindowedAggregate:
    counted = TOPIC.group_by().window(hr.session("5 minutes"), grace=grace).aggregate(n=hr.count())
    return (counted.suppress(hr.until_window_closes()) if suppressed else counted).named(name)


class Stories:
    """One story in each partition, for sessions live by the stream time of their own; what `visits` held after each cut."""

    lines = (
        "p0:a@10  p0:a@15  p0:b@20.001  p0:a@20.001  p0:a@40  p1:c@10  p1:d@15.999  p1:c@10  p1:d@16"
        "  p2:e@10  p2:f@15.5  p2:e@14  p2:f@19  p3:g@10  p4:h@10",
        "p1:c@10  p2:e@12  p2:e@9.5  p2:e@3  p3:i@16  p4:g@9  p4:g@10",
        "+2m  p0:a@41",  # the other partitions are idle: ticks take them to 41
    )

    def __init__(self, spark: SparkSession) -> None:
        self.driver = TestDriver([visits(), visits("0 minutes", name="graceless")], spark)
        self.after = []
        for line in self.lines:
            play(self.driver, line)
            self.after.append(shown(self.driver.read("visits")))
        self.graceless = shown(self.driver.read("graceless"))
        self.late = tables.rows(self.driver.late("visits"))

    def of(self, keys: str, cut: int = -1) -> list[str]:
        return [row for row in self.after[cut] if row[0] in keys]


@pytest.fixture(scope="module")
def stories(spark: SparkSession) -> Iterator[Stories]:
    told = Stories(spark)
    yield told
    told.driver.close()


def test_two_events_exactly_gap_apart_are_one_session_with_and_without_grace(stories: Stories) -> None:
    assert stories.of("ab") == ["a 10-15 2", "a 20.001-20.001 1", "b 20.001-20.001 1"]
    assert [row for row in stories.graceless if row[0] in "ab"] == stories.of("ab")


def test_a_record_is_late_from_the_instant_at_which_its_session_closes(stories: Stories) -> None:
    assert stories.of("c", 0) == ["c 10-10 2"], (
        "at 16 = 10 + 5 + 1 it closes, with the record that came at 15.999"
    )
    assert stories.of("c") == ["c 10-10 2"]
    (late,) = [row for row in stories.late if row["sensor"] == "c"]
    assert late.asDict() == {
        "topic": "readings", "partition": 1, "offset": 4, "timestamp": 10 * MINUTE, "stream_time": 16 * MINUTE,
        "sensor": "c", "window_start": 10 * MINUTE, "window_end": 10 * MINUTE, "late_by_ms": 0,
    }  # fmt: skip


def test_an_old_record_still_joins_a_session_that_is_open(stories: Stories) -> None:
    # Alone, records of 12 and 9.5 would be late at 19. But e's session is open until 20; 3 lies too far before it.
    assert stories.of("ef") == ["e 9.5-14 4", "f 15.5-19 2"]
    assert [row["offset"] for row in stories.late if row["sensor"] == "e"] == [6]


def test_sessions_close_by_the_stream_time_of_their_own_partition_which_ticks_advance(
    stories: Stories,
) -> None:
    assert stories.of("gh", 1) == ["g 10-10 1"], (
        "partition 4, which stands at 10, does not hold partition 3 back"
    )
    assert stories.of("h") == ["h 10-10 1"]


def test_a_key_that_moves_to_another_partition_has_a_session_in_either(stories: Stories) -> None:
    assert stories.of("g") == ["g 10-10 1", "g 9-10 2"]


def test_every_record_of_these_stories_is_accounted_for_and_a_backfill_gives_the_same(
    stories: Stories,
) -> None:
    assert fates(stories.driver.ledger("visits")) == {"used": 19, "open": 2, "late": 2}
    assert shown(stories.driver.backfill("visits")) == stories.after[-1]


def test_a_bridging_record_makes_one_session_of_two_and_neither_a_crash_nor_upkeep_shows(
    drive: Drive,
) -> None:
    driver = drive(visits("30 minutes", suppressed=False, name="current"))

    def current() -> list[str]:
        return shown(driver.read("current"))

    play(driver, "a@10  a@17  b@11  !before outputs")
    assert current() == ["a 10-10 1", "a 17-17 1", "b 11-11 1"]
    play(driver, "a@14  !after state")
    assert current() == ["a 10-17 3", "b 11-11 1"]
    ledger, state = (
        fates(driver.ledger("current")),
        driver.spark.read.format("delta").load(driver._lake.state("current")),
    )
    assert state.count() == 5, "and a mark that two of them became another"
    driver._runners["current"].maintain()
    assert state.count() == 2
    assert (current(), fates(driver.ledger("current"))) == (["a 10-17 3", "b 11-11 1"], ledger)
    play(driver, "b@15  b@22  a@19\nb@18.5  a@60  !after outputs")
    assert current() == ["a 10-19 4", "a 60-60 1", "b 11-22 4"]
    assert shown(driver.backfill("current")) == current()
    updates = driver.updates("current")
    assert shown(updates.where("__batch IS NULL AND n IS NOT NULL")) == ["a 10-19 4", "b 11-22 4"]
    assert shown(updates.where("n IS NULL")) == [
        "a 10-17 None",
        "b 11-11 None",
        "b 11-15 None",
        "b 22-22 None",
    ]


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
    table, days = driver.read("visits"), F.to_date("window_start")
    assert shown(table.where(days == "1970-01-02")) == wanted
    assert driver.late("visits").count() == 1
    node = visits()
    (day,) = (d for d in Backfill(driver.spark, driver._lake, node).days if d and d.day == 2)
    delete(driver._lake.table("visits"), "sensor = 'b'")
    (verdict,) = Backfill(driver.spark, driver._lake, node, [day]).run()
    assert (verdict.rows_recomputed, verdict.rows_stored, verdict.swapped) == (2, 1, True)
    assert shown(driver.read("visits").where(days == "1970-01-02")) == wanted

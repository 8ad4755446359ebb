"""A person looks at a description: the rows after each step, over the newest records of a log."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.changing.plan_topics import plan_topic
from headrace.lake import small_files
from headrace.spark.on_demand import SparkOnDemand
from tests.scenarios.timeline import MINUTE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.testing import TestDriver
    from tests.conftest import Drive

READINGS = hr.Topic("readings", key="sensor STRING", value="text STRING", idle_timeout=None)
COUNTS = (
    READINGS.with_column("value", "CAST(text AS INT)")
    .where("value >= 0")
    .group_by("sensor")
    .window(hr.tumbling("2 minutes"), grace="0 minutes")
    .aggregate(n=hr.count(), total=hr.sum("value"))
    .suppress(hr.until_window_closes())
    .named("counts")
)
QUIET = COUNTS.as_stream().where("n < 2").named("quiet")


@pytest.mark.spark
@pytest.mark.long
def test_each_step_is_shown_and_the_lake_stays_as_it_is(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = drive(COUNTS)
    for number, text in enumerate(("9", "3", "-1", "4", "5")):
        driver.pipe("readings", key="a", value={"text": text}, timestamp_ms=number * MINUTE)
    driver.pipe("readings", key="a", value=b"{", timestamp_ms=5 * MINUTE)
    driver.pipe("readings", key="b", value={"text": "7"}, timestamp_ms=6 * MINUTE)
    driver.cut()
    before = small_files.names(driver._lake.root), len(driver.log("readings"))
    shown = hr.preview(QUIET, 6, lake=driver._lake, spark=driver.spark)
    assert [stage.title for stage in shown.stages] == [
        "topic readings (key sensor; text), never idle",
        "with column value = CAST(text AS INT)",
        "where value >= 0",
        "counts: by sensor and tumbling window of 2 minutes, grace 0 ms: n = count(), total = sum(value)",
        "counts: suppress until the window closes",
        "where n < 2",
    ]
    topic, cast, passed, windows, closed, quiet = shown.stages
    assert topic.rows == (
        *((0, number, "a", text) for number, text in ((1, "3"), (2, "-1"), (3, "4"), (4, "5"))),
        (0, 6, "b", "7"),
    )
    assert topic.notes == ("readings partition 0 offset 5: malformed value: not a JSON object",)
    assert dict(topic.fates) == {"used": 5, "dead_letter": 1}
    assert cast.columns == ("partition", "offset", "sensor", "text", "value")
    assert [row[-1] for row in passed.rows] == [3, 4, 5, 7]
    assert dict(passed.fates) == {"used": 4, "filtered": 1, "dead_letter": 1}
    # The record of minute 0 is not among the six newest.
    assert [(row[0], row[1].minute, *row[3:]) for row in windows.rows] == [
        ("a", 0, 1, 3), ("a", 2, 1, 4), ("a", 4, 1, 5), ("b", 6, 1, 7)
    ]  # fmt: skip
    assert [(row[1].minute, row[-1]) for row in closed.rows] == [(0, 3), (2, 4), (4, 5)]
    assert [row[-1] for row in quiet.rows] == [3, 4, 5]
    assert "  records: 4 used, 1 filtered, 1 dead letter" in str(shown).splitlines()
    newest = READINGS.table()
    letters = hr.preview(
        READINGS.flat_map("array(text, 'x') AS letter"), 2, lake=driver._lake, spark=driver.spark
    )
    assert [stage.title for stage in letters.stages][1:] == ["flat map array(text, 'x') AS letter"]
    assert [row[-1] for row in letters.stages[-1].rows] == ["7", "x"]
    joined = newest.join(newest, on="text", how="left", select="right.text AS other").where("other IS NULL")
    assert [len(stage.rows) for stage in hr.preview(joined, lake=driver._lake, spark=driver.spark).stages] == [
        6, 2, 2, 2
    ]  # fmt: skip
    latest = READINGS.select("sensor", "text AS latest").table()
    asked = READINGS.lookup(latest, on="sensor", complete_first=True)  # the copy is complete from its start
    rows = hr.preview(asked, 6, lake=driver._lake, spark=driver.spark).stages[-1].rows
    assert sorted(row[-1] for row in rows) == ["5", "5", "5", "5", "7"]
    assert (small_files.names(driver._lake.root), len(driver.log("readings"))) == before
    monkeypatch.setenv("HEADRACE_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    with pytest.raises(hr.TerminalError, match="Topic 'others': there is no log of it in"):
        hr.preview(hr.Topic("others", value="n INT"), lake=driver._lake, spark=driver.spark)


@pytest.mark.fast
def test_covered_steps_are_shown_without_spark(drive: Drive) -> None:
    visits = hr.Topic("visits", key="user STRING", value="n INT, at STRUCT<page: STRING>", idle_timeout=None)
    steps = visits.where("n > 0").with_column("twice", "n * 2")
    finals = steps.window(hr.tumbling("2 minutes"), grace="0 s").aggregate(n=hr.count(), most=hr.max("twice"))
    kinds = [
        finals.suppress(hr.until_window_closes()),
        visits.table().group_by("n").aggregate(users=hr.count()).changes(),
        steps.lookup(visits.select("user", "n AS newest").table(), on="user"),
        visits.group_by("user").batch(collect=["n"], max_records=2),
    ]
    driver = drive(*(kind.named(f"node_{number}") for number, kind in enumerate(kinds)))
    for number, n in enumerate((0, 1, 2, 3)):
        value = {"n": n, "at": {"page": f"/{n}"}}
        driver.pipe("visits", key="a", value=value, timestamp_ms=number * MINUTE)
        driver.cut()
    driver.pipe("visits", key="a", value=b"{", timestamp_ms=0)
    driver.cut()
    shown = [hr.preview(kind, 3, lake=driver._lake, spark=nothing()) for kind in kinds]
    topic, passed, twice, _, windows, closed = shown[0].stages
    assert topic.columns == ("partition", "offset", "user", "n", "at")
    assert topic.rows == ((0, 2, "a", 2, {"page": "/2"}), (0, 3, "a", 3, {"page": "/3"}))
    assert topic.notes == ("visits partition 0 offset 4: malformed value: not a JSON object",)
    assert [row[-1] for row in twice.rows] == [4, 6]
    assert dict(passed.fates) == {"used": 2, "dead_letter": 1}
    assert [row[-2:] for row in windows.rows] == [(2, 6)]
    assert closed.rows == ()
    assert "1970-01-01 00:02:00  1970-01-01 00:04:00  2  6" in str(shown[0])
    assert [[len(stage.rows) for stage in each.stages] for each in shown[1:]] == [
        [2, 1, 1, 3],
        [2, 2, 2, 2, 1, 2],
        [2, 1],
    ]


def nothing() -> SparkSession:
    return SparkOnDemand.session(lambda: pytest.fail("Spark starts"))


VISITS = hr.Topic("visits", key="user STRING", value="page STRING, n INT", idle_timeout=None)


@pytest.fixture
def visited(drive: Drive) -> TestDriver:
    driver = drive(VISITS.group_by("page").aggregate(n=hr.count()).named("pages"))
    driver.pipe("visits", key="a", value={"page": "x", "n": 1})
    driver.cut()
    return driver


@pytest.mark.fast
def test_columns_that_the_log_does_not_have_yet_are_shown_as_it_will_have_them(visited: TestDriver) -> None:
    """Before, a column with another name was null."""
    grown = replace(VISITS, value="site STRING, pages BIGINT, page STRING", renamed={"pages": "n"})
    (topic,) = hr.preview(grown, lake=visited.lake, spark=nothing()).stages
    assert topic.columns == ("partition", "offset", "user", "site", "pages", "page")
    assert topic.rows == ((0, 0, "a", None, 1, "x"),)


@pytest.mark.spark
def test_new_columns_hold_in_older_records_what_the_description_adds(
    visited: TestDriver, spark: SparkSession
) -> None:
    """Before, they were null."""
    grown = replace(
        VISITS,
        value="site STRING, at TIMESTAMP, n INT",
        added={"site": "west", "at": dt.datetime(2026, 1, 2, tzinfo=dt.UTC)},
    )
    (topic,) = hr.preview(grown, lake=visited.lake, spark=spark).stages
    ((*_, site, at, n),) = topic.rows
    assert (site, at.isoformat(), n) == ("west", "2026-01-02T00:00:00+00:00", 1)


@pytest.mark.fast
@pytest.mark.parametrize(
    "changed",
    [
        replace(VISITS, value="page STRING, n STRING"),
        replace(VISITS, value="page INT, n INT"),
        replace(VISITS, key="user BIGINT"),
    ],
)
def test_what_the_plan_refuses_is_not_shown(visited: TestDriver, changed: hr.Topic) -> None:
    """Before, records were shown under types that no log will have, or Arrow's error was the answer."""
    with pytest.raises(hr.TerminalError, match="Topic 'visits'") as refused:
        hr.preview(changed, lake=visited.lake, spark=nothing())
    plan = plan_topic(visited.lake, changed)
    assert (refused.value.detail, refused.value.hint) == (plan.detail, plan.way_out)


@pytest.mark.fast
def test_what_is_no_description_is_refused() -> None:
    with pytest.raises(hr.DescriptionError, match="is no topic, stream or table"):
        hr.preview(READINGS.group_by("sensor"))  # type: ignore[arg-type]
    with pytest.raises(hr.DescriptionError, match="is not a number from 1"):
        hr.preview(READINGS, 0)
    with pytest.raises(hr.DescriptionError, match="leaves the columns unknown"):
        hr.preview(READINGS.transform(lambda frame: frame))

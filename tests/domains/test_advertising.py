"""Advertising: which impressions were clicked within an hour, and the click-through rate of each campaign."""

from __future__ import annotations

import pytest

import headrace as hr
from tests.conftest import Drive
from tests.rows import columns

pytestmark = pytest.mark.spark

impressions = hr.Topic(
    "impressions",
    key="impression_id STRING",
    value="ad STRUCT<campaign: STRING, creative: STRING>, price DOUBLE, shown_at TIMESTAMP NOT NULL",
    timestamp="shown_at",
)
clicks = hr.Topic(
    "clicks",
    key="click_id STRING",
    value="impression_id STRING, clicked_at TIMESTAMP NOT NULL",
    timestamp="clicked_at",
)

attributed = (
    impressions.join(clicks, on="impression_id", before=0, after="1 hour", grace="5 minutes", how="left")
    .select(
        "impression_id",
        "ad.campaign AS campaign",
        "price",
        "shown_at",
        "click_id",
        "timestampdiff(SECOND, shown_at, clicked_at) AS seconds_to_click",
    )
    .named("attributed")
)
click_through = (
    attributed.group_by("campaign")
    .window(hr.tumbling("10 minutes"), grace="1 minute")
    .aggregate(
        impressions=hr.count_distinct("impression_id"),
        clicked=hr.count_distinct("impression_id", where="click_id IS NOT NULL"),
        clicks=hr.count("click_id"),
        wait=hr.quantiles("seconds_to_click", at=[0.5, 0.9]),
    )
    .suppress(hr.until_window_closes())
    .with_column("rate", "clicked / impressions")
    .to(hr.KafkaSink("click_through"))
    .named("click_through")
)
# An impression with two clicks is two rows of `attributed`, so what was spent is added up before the join.
spend = (
    impressions.with_column("campaign", "ad.campaign")
    .group_by("campaign")
    .window(hr.tumbling("10 minutes"), grace="1 minute")
    .aggregate(shown=hr.count(), spent=hr.sum("price", scale=4))
    .suppress(hr.until_window_closes())
    .named("spend")
)


def test_an_impression_is_clicked_within_an_hour_or_leaves_alone(drive: Drive) -> None:
    driver = drive(attributed, click_through, spend)

    def at(minute: int) -> str:
        return f"2026-01-01T{10 + minute // 60:02d}:{minute % 60:02d}:00Z"

    def show(impression: str | None, minute: int, campaign: str | None = "summer") -> None:
        value = {"ad": {"campaign": campaign}, "price": 0.002, "shown_at": at(minute)}
        driver.pipe("impressions", key=impression, value=value)

    def click(number: str, impression: str | None, minute: int) -> None:
        driver.pipe("clicks", key=number, value={"impression_id": impression, "clicked_at": at(minute)})

    show("i1", 0)
    show("i2", 1)
    show("i3", 2, campaign=None)
    show(None, 3)
    click("k1", "i1", 1)
    click("k2", "i1", 2)  # a second click on the same impression
    driver.cut()
    click("k3", "i3", 61)
    click("k4", "i2", 62)  # an hour and a minute after it was shown
    click("k5", None, 62)
    driver.pipe("clicks", key="k6", value={"impression_id": "i2", "clicked_at": "yesterday"})
    driver.crash("after outputs")
    driver.cut()
    for minute in (200, 500):
        show("end", minute)
        click("end", "none", minute)
        driver.cut()
    click("k7", "i2", 3)  # hours late
    driver.cut()

    rows = columns(driver.rows("attributed"), "impression_id", "campaign", "click_id", "seconds_to_click")
    assert sorted(rows, key=str) == sorted(
        [
            ("i1", "summer", "k1", 60),
            ("i1", "summer", "k2", 120),
            ("i2", "summer", None, None),
            ("i3", None, "k3", 3540),
            (None, "summer", None, None),
            ("end", "summer", None, None),
        ],
        key=str,
    )
    rates = sorted(driver.rows("click_through"), key=lambda row: row["window_start"])
    assert [
        (row["campaign"], row["window_start"].hour, row["impressions"], row["clicks"]) for row in rates
    ] == [
        ("summer", 10, 2, 2),
        (None, 11, 1, 1),  # by the time of the click, which is the later one of the pair
        ("summer", 13, 1, 0),
    ]
    assert [row["rate"] for row in rates] == [0.5, 1.0, 0.0]
    spent = [row for row in driver.rows("spend") if row["window_start"].hour == 10]
    assert sorted(columns(spent, "campaign", "shown", "spent"), key=str) == [
        ("summer", 3, 0.006),
        (None, 1, 0.002),
    ]
    (late,) = driver.late("attributed")
    assert (late["topic"], late["offset"]) == ("clicks", 8)
    assert [row["offset"] for row in driver.records("attributed", "filtered")] == [4]  # no impression
    (dead,) = driver.dead_letters("clicks")
    assert "clicked_at is not TIMESTAMP" in dead["reason"]
    for name in ("attributed", "click_through", "spend"):
        driver.check(name)

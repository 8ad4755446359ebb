"""Page views with users: nested JSON, a lookup, windows of five minutes for each country, and an alert in Kafka."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.testing import TestDriver

pytestmark = pytest.mark.fast
MINUTE = 60_000

page_views = hr.Topic(
    "page_views",
    value="user STRUCT<id: STRING NOT NULL, device: STRING>, page STRUCT<url: STRING, section: STRING>, "
    "seconds DOUBLE, ts BIGINT NOT NULL",
    timestamp="ts",
)
users = hr.Topic("users", key="user_id STRING", value="country STRING, plan STRING")

views_per_country = (
    page_views.where("page.section <> 'internal'")
    .with_column("user_id", "user.id")
    .lookup(users.table(), on="user_id")
    .group_by("country")
    .window(hr.tumbling("5 minutes"), grace="1 minute")
    .aggregate(
        views=hr.count(),
        users=hr.count_distinct("user.id"),
        seconds=hr.sum("seconds", where="user.device = 'phone'"),
    )
    .suppress(hr.until_window_closes())
    .named("views_per_country")
)
busy_countries = (
    views_per_country.where("views >= 3").to(hr.KafkaSink("busy-countries")).named("busy_countries")
)


def test_views_count_for_the_country_of_their_user() -> None:
    driver = TestDriver([views_per_country, busy_countries])

    def view(minute: float, user: str, section: str = "news", device: str = "phone") -> None:
        value = {"user": {"id": user, "device": device}, "page": {"url": "/", "section": section}}
        driver.pipe("page_views", value={**value, "seconds": 2.5, "ts": round(minute * MINUTE)})

    driver.pipe("users", key="ann", value={"country": "DE", "plan": "free"}, timestamp_ms=0)
    driver.pipe("users", key="bob", value={"country": "DE", "plan": "paid"}, timestamp_ms=0)
    driver.cut()
    view(1, "ann")
    view(2, "ann", device="desktop")
    view(3, "bob")
    view(3, "bob", section="internal")
    view(4, "nobody")
    driver.pipe("page_views", value={"user": {"device": "phone"}, "ts": MINUTE})  # a user without an id
    driver.cut()
    assert driver.rows("views_per_country") == []
    driver.crash("after outputs")
    view(7, "ann")
    driver.cut()
    view(4, "ann")  # late, as it is without the lookup
    driver.cut()

    rows = {row["country"]: row for row in driver.rows("views_per_country")}
    assert {country: (row["views"], row["users"], row["seconds"]) for country, row in rows.items()} == {
        "DE": (3, 2, 5.0),
        None: (1, 1, 2.5),
    }
    assert [row["country"] for row in driver.rows("busy_countries")] == ["DE"]
    assert len(driver.late("views_per_country")) == 1
    (dead,) = driver.dead_letters("page_views")
    assert "user.id" in dead["reason"]
    assert len(driver.backfill("views_per_country")) == 2
    driver.close()

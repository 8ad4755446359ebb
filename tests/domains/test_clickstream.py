"""Page events of a web site: sessions of users, the bounce rate of each landing page, and an alert."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.testing import TestDriver
from tests.conftest import Drive

pytestmark = pytest.mark.fast

events = hr.Topic(
    "page_events",
    key="user_id STRING",
    value="""
        event_id STRING NOT NULL,
        user STRUCT<id: STRING NOT NULL, plan: STRING>,
        device STRUCT<kind: STRING, os: STRUCT<name: STRING, version: STRING>>,
        page STRUCT<path: STRING NOT NULL, referrer: STRING> NOT NULL,
        utm MAP<STRING, STRING>,
        at BIGINT NOT NULL
    """,
    timestamp="at",
    idle_timeout="1 minute",
)

campaigns = hr.Topic(
    "campaigns",
    key="campaign_id STRING",
    value="name STRING NOT NULL, channel STRUCT<kind: STRING, owner: STRING>",
)

sessions = (
    events.where("user_id IS NOT NULL")
    .group_by()
    .window(hr.session("30 minutes"), grace="5 minutes")
    .aggregate(
        pages=hr.count(),
        entry_page=hr.min_by("page.path", by="at"),
        exit_page=hr.max_by("page.path", by="at"),
        campaign_id=hr.min_by("utm['campaign']", by="at"),
        device=hr.min_by("coalesce(device.kind, 'unknown')", by="at"),
        plan=hr.max_by("user.plan", by="at"),
    )
    .suppress(hr.until_window_closes())
    .named("sessions", description="Visits of each user: pages within half an hour of one another.")
)

session_campaigns = (
    sessions.as_stream()
    .lookup(
        campaigns.table().select("campaign_id", "name AS campaign", "channel.kind AS channel"),
        on="campaign_id",
    )
    .named("session_campaigns", description="Each session with the campaign that brought it.")
)

bounce_rates = (
    sessions.as_stream()
    .group_by("entry_page")
    .window(hr.tumbling("1 hour"), grace="10 minutes")
    .aggregate(sessions=hr.count(), bounces=hr.count(where="pages = 1"))
    .suppress(hr.until_window_closes())
    .with_column("bounce_rate", "CAST(bounces AS DOUBLE) / sessions")
    .named("bounce_rates", description="The share of sessions of one page, by landing page and hour.")
)

bounce_alerts = (
    bounce_rates.where("sessions >= 5 AND bounce_rate >= 0.7")
    .to(hr.KafkaSink("bounce-alerts"))
    .named("bounce_alerts", description="Landing pages from which most visitors leave at once.")
)

by_channel = (
    session_campaigns.group_by("channel")
    .aggregate(sessions=hr.count(), pages=hr.avg("pages"), users=hr.count_distinct("user_id"))
    .named("sessions_by_channel", description="Sessions so far of each channel; null is none.")
)

MINUTE = 60_000


def view(driver: TestDriver, user: str | None, minute: float, path: str, **more: object) -> None:
    at = round(minute * MINUTE)
    value = {
        "event_id": f"{user}{minute}",
        "user": {"id": user or "?"},
        "page": {"path": path},
        "at": at,
        **more,
    }
    driver.pipe("page_events", key=user, value=value, timestamp_ms=at)


def test_sessions_know_their_entry_and_exit_page_and_campaign(drive: Drive) -> None:
    driver = drive(sessions, session_campaigns, by_channel)
    driver.pipe("campaigns", key="k1", value={"name": "Spring", "channel": {"kind": "mail"}}, timestamp_ms=0)
    view(driver, "ann", 100, "/pricing", device={"kind": "phone"})
    view(driver, "ann", 90, "/", utm={"campaign": "k1"})  # out of order: it is the entry page
    view(driver, None, 100, "/robots.txt")
    driver.cut()
    driver.crash("after outputs")
    view(driver, "ann", 129, "/signup")
    view(driver, "ben", 130, "/blog", utm={"campaign": "k9"})
    driver.cut()
    view(driver, "cid", 300, "/")
    driver.cut()
    rows = driver.rows("session_campaigns")
    assert [
        (row["user_id"], row["pages"], row["entry_page"], row["exit_page"], row["device"], row["campaign"])
        for row in rows
    ] == [
        ("ann", 3, "/", "/signup", "unknown", "Spring"),
        ("ben", 1, "/blog", "/blog", "unknown", None),
    ]
    channels = driver.rows("sessions_by_channel")
    assert [(*row.values(),) for row in channels] == [(None, 1, 1.0, 1), ("mail", 1, 3.0, 1)]
    for node in ("sessions", "session_campaigns", "sessions_by_channel"):
        driver.check(node)


def test_a_page_from_which_most_leave_at_once_is_an_alert(drive: Drive) -> None:
    driver = drive(sessions, bounce_rates, bounce_alerts)
    for number in range(6):
        view(driver, f"u{number}", 70 + number, "/landing")
    view(driver, "u0", 71, "/pricing")
    view(driver, "late", 400, "/")
    driver.cut()
    view(driver, "u1", 72, "/landing")  # its session is closed: late
    driver.cut()
    (row,) = driver.rows("bounce_alerts")
    assert (row["entry_page"], row["sessions"], row["bounces"], round(row["bounce_rate"], 3)) == (
        "/landing",
        6,
        5,
        0.833,
    )
    assert driver.rows("bounce_rates") == [row]
    driver.check("bounce_rates")
    assert len(driver.late("sessions")) == 1

"""Logs as plain text: error rates of each service and minute, with the channel of the team that is to act."""

from __future__ import annotations

import pytest

import headrace as hr
from tests.conftest import Drive
from tests.rows import columns

pytestmark = pytest.mark.spark
SECOND = 1_000

lines = hr.Topic("app_logs", value="line STRING", format=hr.Text())
teams = hr.Topic("service_teams", key="service STRING", value="team STRUCT<name: STRING, channel: STRING>")

# 2026-11-28T15:00:01Z ERROR checkout card refused
readable, unreadable = lines.with_column("parts", "split(line, ' ', 4)").branch(
    "size(parts) = 4 AND parts[1] IN ('DEBUG', 'INFO', 'WARN', 'ERROR')", "true"
)
unreadable_lines = unreadable.select("line").named("unreadable_lines")
error_rates = (
    readable.select("parts[1] AS level", "nullif(parts[2], '-') AS service", "parts[3] AS message")
    .group_by("service")
    .window(hr.tumbling("1 minute"), grace="10 seconds")
    .aggregate(
        lines=hr.count(),
        errors=hr.count(where="level = 'ERROR'"),
        first_error=hr.min_by("message", by="IF(level = 'ERROR', record_offset(), NULL)"),
    )
    .suppress(hr.until_window_closes())
    .named("error_rates")
)
noisy_services = (
    error_rates.as_stream()
    .with_column("rate", "errors / lines")
    .where("errors >= 3 AND rate > 0.1")
    .lookup(teams.table(), on="service")
    .select("service", "window_start", "rate", "first_error", "team.channel AS channel")
    .to(hr.KafkaSink("log_alerts"))
    .named("noisy_services")
)


def test_a_service_with_many_errors_in_a_minute_is_told_to_its_team(drive: Drive) -> None:
    driver = drive(error_rates, noisy_services, unreadable_lines)

    def log(second: int, text: str | bytes) -> None:
        driver.pipe("app_logs", value=text, timestamp_ms=second * SECOND)

    team = {"team": {"name": "Pay", "channel": "#pay"}}
    driver.pipe("service_teams", key="checkout", value=team, timestamp_ms=0)
    driver.cut()
    for second in (10, 11, 12):
        log(second, f"1970-01-01T00:00:{second}Z ERROR checkout card refused at {second}")
        log(second, f"1970-01-01T00:00:{second}Z ERROR - who am I")
        log(second, f"1970-01-01T00:00:{second}Z INFO search found 3 pages")
    driver.cut()
    log(13, "1970-01-01T00:00:13Z INFO checkout paid")
    log(14, "  at com.shop.Checkout.pay(Checkout.java:17)")
    log(15, b"\xff\xfe")
    driver.crash("after outputs")
    driver.cut()
    log(71, "1970-01-01T00:01:11Z INFO search and on")
    log(20, "1970-01-01T00:00:20Z ERROR search late")
    driver.cut()

    rates = columns(driver.rows("error_rates"), "service", "lines", "errors", "first_error")
    assert sorted(rates, key=lambda row: row[0] or "") == [
        (None, 3, 3, "who am I"),
        ("checkout", 4, 3, "card refused at 10"),
        ("search", 3, 0, None),
    ]
    alerts = columns(driver.rows("noisy_services"), "service", "rate", "first_error", "channel")
    assert sorted(alerts, key=lambda row: row[0] or "") == [
        (None, 1.0, "who am I", None),
        ("checkout", 0.75, "card refused at 10", "#pay"),
    ]
    assert len(driver.late("error_rates")) == 1
    (dead,) = driver.dead_letters("app_logs")
    assert dead["reason"] == "malformed value: not UTF-8"
    (stack,) = driver.rows("unreadable_lines")
    assert stack["line"] == "  at com.shop.Checkout.pay(Checkout.java:17)"
    for name in ("error_rates", "noisy_services", "unreadable_lines"):
        driver.check(name)

"""Tables of the days from a date on."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import headrace as hr
from headrace.nodes.balances.older_rows import since_of
from tests.description.refusal import refused

pytestmark = pytest.mark.fast

READINGS = hr.Topic("readings", key="sensor STRING", value="value DOUBLE")


def counts(window: Any, **more: Any) -> Any:
    return READINGS.group_by("sensor").window(window, grace="0 s", **more).aggregate(n=hr.count())


def test_a_day_is_part_of_the_rules_and_keeps_older_records_out() -> None:
    plain = counts(hr.tumbling("1 hour")).named("counts")
    since = counts(hr.tumbling("1 hour")).named("counts", since="2026-11-20")
    assert since == counts(hr.tumbling("1 hour")).named("counts", since=dt.date(2026, 11, 20))
    assert since.rules()["since"] == "2026-11-20"
    assert "since" not in plain.rules()
    assert since.fingerprint() != plain.fingerprint()
    assert since_of(plain) is None
    moment = dt.datetime.fromtimestamp((since_of(since) or 0) / 1000, dt.UTC)
    assert moment == dt.datetime(2026, 11, 20, tzinfo=dt.UTC)
    assert str(since_of(since)) in str(since.rules()["branches"])


@pytest.mark.parametrize("wrong", ["today", "2026-13-01", "1969-12-31", 20261120, dt.datetime(2026, 11, 20)])
def test_what_is_no_day_is_refused(wrong: Any) -> None:
    with refused("since", "is no date", "2026-11-20"):
        counts(hr.tumbling("1 hour")).named("counts", since=wrong)


@pytest.mark.parametrize(
    ("window", "more"),
    [
        (hr.hopping("2 hours", advance="1 hour"), {}),
        (hr.session("5 minutes"), {}),
        (hr.sliding("5 minutes"), {}),
        (hr.tumbling("7 hours"), {}),
        (hr.tumbling("1 hour"), {"clock": "wall"}),
    ],
)
def test_windows_that_reach_into_the_day_are_refused(window: Any, more: dict[str, Any]) -> None:
    with refused("since '2026-11-20'", "tumbling windows of event time"):
        counts(window, **more).named("counts", since="2026-11-20")

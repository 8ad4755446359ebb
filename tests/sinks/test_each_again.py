"""`headrace redeliver` for a sink that calls a function."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.errors import TerminalError
from headrace.writing.delivery.redeliver import redeliver
from tests.no_spark import no_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.lake.paths import Lake
    from tests.conftest import Drive


VIEWS = hr.Topic("views", key="user STRING", value="n INT")


@pytest.mark.fast
@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({}, "cannot be delivered again to 'mail', which lacks `correct` or `identities`"),
        ({"days": [dt.date(2026, 11, 30)]}, "by day: they belong to none"),
        ({"only_missing": True, "sinks": ["postgres-n"]}, "in part: no sink says how new the rows are"),
    ],
)
def test_revised_rows_are_refused_in_words_of_what_was_asked_and_before_any_sink_is_put_right(
    lake: Lake, asked: dict[str, Any], why: str
) -> None:
    """Before, a sink that can be corrected was, and then the refusal spoke of days that nobody had named."""
    totals = VIEWS.group_by("user").aggregate(n=hr.sum("n")).named("totals")
    node = totals.to(hr.PostgresSink("n")).to(hr.each(print, name="mail"))
    with pytest.raises(TerminalError, match=why) as refused:
        redeliver(no_session(), lake, node, **asked)
    assert "postgres-n alone" in (refused.value.hint or "")


@pytest.mark.spark
def test_headrace_redeliver_asks_for_them(spark: SparkSession, drive: Drive) -> None:
    sent = list[str]()
    big = VIEWS.where("n > 1").named("big").to(hr.each(lambda row: sent.append(row["user"]), name="mail"))
    driver = drive(big)
    for number in range(4):
        driver.pipe("views", key=f"u{number}", value={"n": number})
    driver.cut()
    for _ in range(2):
        (done,) = redeliver(spark, driver._lake, big)
        assert done.rows == 2
    assert sent == ["u2", "u3"] * 3

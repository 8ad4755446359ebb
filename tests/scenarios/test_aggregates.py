"""Aggregates that keep more than a number: live in any cuts, after a crash, backfilled, and by the oracle."""

from __future__ import annotations

from typing import Any

import pytest

import headrace as hr
from tests.conftest import Drive

pytestmark = pytest.mark.fast

SECOND = 1_000
VISITS = hr.Topic("visits", key="visitor STRING", value="page STRING, seconds DOUBLE, tags MAP<STRING, INT>")


class Slow(hr.Aggregate):
    """Of pages how often somebody stayed long, as `page: times`."""

    state = "pages MAP<STRING, BIGINT>"
    result = "ARRAY<STRING>"

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def init(self) -> Any:
        return {"pages": {}}

    def add(self, state: Any, *values: Any) -> Any:
        page, seconds = values
        stayed = page is not None and seconds is not None and seconds >= self.seconds
        return self.merge(state, {"pages": {page: 1}}) if stayed else state

    def merge(self, one: Any, other: Any) -> Any:
        both = [dict(each["pages"]) for each in (one, other)]
        return {"pages": {page: sum(each.get(page, 0) for each in both) for page in {*both[0], *both[1]}}}

    def finish(self, state: Any) -> Any:
        return sorted(f"{page}: {times}" for page, times in dict(state["pages"]).items())


KEPT: dict[str, Any] = {
    "slow": Slow(1).of("page", "seconds"),
    "longest": hr.max_by("page", by="seconds"),
    "shortest": hr.min_by("tags", by="seconds"),
    "two": hr.top(2, "page", by="seconds"),
    "pages": hr.count_distinct("page"),
    "about": hr.approx_count_distinct("page", error=0.1),
    "parts": hr.quantiles("seconds", at=[0.5, 1]),
}
GROUPED = VISITS.group_by()
NODES = [
    GROUPED.aggregate(**KEPT).named("totals"),
    GROUPED.window(hr.tumbling("10 seconds"), grace="2 seconds").aggregate(**KEPT).named("open"),
    GROUPED.window(hr.hopping("10 seconds", "5 seconds"), grace=0)
    .aggregate(**KEPT)
    .suppress(hr.until_window_closes())
    .named("final"),
]
PAGES = ("home", None, "cart", "home", "help", "ü")
SECONDS = (1.5, 7.0, None, 7.0, -0.0, "NaN", 0.0)


def test_what_aggregates_keep_is_the_same_live_backfilled_and_record_by_record(drive: Drive) -> None:
    driver = drive(*NODES)
    for number in range(30):
        value = {"page": PAGES[number % 6], "seconds": SECONDS[number % 7], "tags": {"n": number % 4}}
        driver.pipe(
            "visits",
            key="ab"[number % 3 % 2],
            value=value,
            timestamp_ms=(number * 2 + number % 5) * SECOND,
            partition=number % 2,
        )
        if number == 13:
            driver.crash("after outputs")
        if number % 7 == 6:
            driver.cut()
    driver.cut()
    for node in NODES:
        name = node.required_name
        driver.check(name)
        assert len(driver.rows(name)) > 1

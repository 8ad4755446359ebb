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


class Added(hr.Aggregate):
    """A sum in a state of some type, as Python writes it."""

    result = "STRING"

    def __init__(self, of: str) -> None:
        self.state = f"total {of}"

    def init(self) -> Any:
        return {"total": 0}

    def add(self, state: Any, *values: Any) -> Any:
        return {"total": state["total"] + values[0]}

    def merge(self, one: Any, other: Any) -> Any:
        return {"total": one["total"] + other["total"]}

    def finish(self, state: Any) -> Any:
        return repr(state["total"])


@pytest.mark.parametrize(
    ("of", "values", "shown"),
    [
        ("DOUBLE", [2**53, 1, 2], "9007199254740994.0"),
        ("FLOAT", [2**24, 1, 1], "16777216.0"),
        ("DOUBLE", [1, 2, 3], "6.0"),
        ("BIGINT", [1, 2, 3], "6"),
        ("DECIMAL(9, 2)", [1, 2, 3], "Decimal('6.00')"),
    ],
)
@pytest.mark.parametrize("together", [True, False])
def test_a_state_of_ones_own_has_its_declared_type_after_each_record(
    drive: Drive, of: str, values: list[int], shown: str, together: bool
) -> None:
    """Before, it had it at the end of a cut: with the three records in one, these sums had other digits."""
    topic = hr.Topic("numbers", key="k STRING", value="n BIGINT", idle_timeout=None)
    driver = drive(topic.group_by("k").aggregate(sum=Added(of).of("n")).named("sums"))
    for value in values:
        driver.pipe("numbers", key="a", value={"n": value}, timestamp_ms=0)
        if not together:
            driver.cut()
    driver.cut()
    assert [row["sum"] for row in driver.rows("sums")] == [shown]
    driver.check("sums")


@pytest.mark.parametrize("together", [True, False])
def test_a_state_that_its_type_does_not_hold_stops_the_node_in_every_cut(
    drive: Drive, together: bool
) -> None:
    """Before, a state could leave its type within a cut, and come back."""
    topic = hr.Topic("numbers", key="k STRING", value="n BIGINT", idle_timeout=None)
    driver = drive(topic.group_by("k").aggregate(sum=Added("TINYINT").of("n")).named("sums"))

    def cut_all() -> None:
        for value in (100, 100, -100):
            driver.pipe("numbers", key="a", value={"n": value}, timestamp_ms=0)
            if not together:
                driver.cut()
        driver.cut()

    with pytest.raises(hr.HeadraceError, match="Aggregate Added"):
        cut_all()

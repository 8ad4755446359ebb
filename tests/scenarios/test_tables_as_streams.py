"""Tables that go on as streams: a join that is suppressed, groups that are, its changes, and records looked up in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

import headrace as hr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from headrace.testing import TestDriver
    from tests.conftest import Drive

POSITIONS = hr.Topic("positions", key="id STRING", value="ticker STRING, amount INT", idle_timeout=None)
TICKERS = hr.Topic("tickers", key="symbol STRING", value="exchange STRING", idle_timeout=None)
ORDERS = hr.Topic("orders", key="number STRING", value="id STRING", idle_timeout=None)
PRICES = POSITIONS.table().join(TICKERS.table(), on="ticker")
EXCHANGES = PRICES.group_by("exchange").aggregate(n=hr.count(), total=hr.sum("amount"))
CALM = PRICES.suppress(hr.until_time_limit("10 seconds")).named("calm")
NOW = EXCHANGES.suppress(hr.until_time_limit("10 seconds", clock="wall")).named("now")
CHANGES = PRICES.where("amount > 1").changes().named("changes")
PRICED = ORDERS.lookup(PRICES, on="id").named("priced")
ROWS = {
    "calm": [("p1", "A", 20, "X", False), ("p1", None, None, None, True), ("p3", "A", 1, "X", False)],
    "now": [("X", 2, 8, False)],
    "changes": [
        ("p1", "A", 10, "X", False),
        ("p1", "A", 20, "X", False),
        ("p1", None, None, None, True),
        ("p4", "A", 7, "X", False),
    ],
    "priced": [("o1", "p1", "A", 20, "X"), ("o2", "p1", None, None, None)],
}


def live(driver: TestDriver, nodes: Sequence[str] | None = None) -> None:
    """Records in log commits of their own. In: nodes  those that fold each; None: all"""

    def position(second: int, name: str, amount: int | None) -> None:
        value = None if amount is None else {"ticker": "A", "amount": amount}
        driver.pipe("positions", key=name, value=value, timestamp_ms=second * 1_000)
        driver.cut(nodes)

    def order(number: str, name: str) -> None:
        if "orders" in driver._topics:
            driver.pipe("orders", key=number, value={"id": name}, timestamp_ms=0)
            driver.cut(nodes)

    driver.pipe("tickers", key="A", value={"exchange": "X"}, timestamp_ms=0)
    position(1, "p1", 10)
    position(5, "p1", 20)
    order("o1", "p1")
    position(12, "p3", 1)  # 1 s + 10 s: the wait of p1 is over
    position(13, "p1", None)
    order("o2", "p1")
    if "calm" in driver._nodes:
        driver.set_limits("calm", time_limit="3 seconds")
    position(17, "p4", 7)  # those of seconds 12 and 13 are over
    driver.advance_wall_clock("11 seconds")
    driver.cut()


def rows(driver: TestDriver, name: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in driver.rows(name)), key=repr)


@pytest.mark.fast
def test_a_join_is_suppressed_told_and_looked_up_in_any_cuts(drive: Drive) -> None:
    driver = drive(CALM, NOW, CHANGES, PRICED)
    driver.crash("after outputs", "calm")
    live(driver)
    assert {name: rows(driver, name) for name in ROWS} == ROWS
    for name in ROWS:
        driver.check(name)

    driver.reset()
    live(driver, [])  # all nodes fold the whole log at the end
    assert {name: rows(driver, name) for name in ROWS} == ROWS


def doubled(rows: DataFrame) -> DataFrame:
    internal = [name for name in rows.columns if name.startswith("__")]
    return rows.select("id", (F.col("amount") * 2).alias("twice"), *internal)


@pytest.mark.spark
@pytest.mark.parametrize("nodes", [None, ()], ids=["each commit", "one go"])
def test_a_join_is_transformed_by_spark(drive: Drive, nodes: Sequence[str] | None) -> None:
    driver = drive(PRICES.transform(doubled, "id STRING, twice INT").named("doubled"))
    live(driver, nodes)
    assert rows(driver, "doubled") == [("p3", 2), ("p4", 14)]
    assert sorted(tuple(row.values()) for row in driver.backfill("doubled")) == rows(driver, "doubled")

"""Tables that go on as streams: a join that is suppressed, groups that are, its changes, and records looked up in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

import headrace as hr
from headrace.lifecycle.oracle_check import verify_keys
from headrace.quality import check_node

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame

    from headrace.testing import TestDriver
    from tests.conftest import Drive

pytestmark = pytest.mark.spark

POSITIONS = hr.Topic("positions", key="id STRING", value="ticker STRING, amount INT", idle_timeout=None)
TICKERS = hr.Topic("tickers", key="symbol STRING", value="exchange STRING", idle_timeout=None)
ORDERS = hr.Topic("orders", key="number STRING", value="id STRING", idle_timeout=None)
HELD = POSITIONS.table().join(TICKERS.table(), on="ticker")
CALM = HELD.suppress(hr.until_time_limit("10 seconds")).named("calm")
EXCHANGES = HELD.group_by("exchange").aggregate(n=hr.count(), total=hr.sum("amount"))
NOW = EXCHANGES.suppress(hr.until_time_limit("10 seconds", clock="wall")).named("now")
CHANGES = HELD.where("amount > 1").changes().named("changes")


def doubled(rows: DataFrame) -> DataFrame:
    internal = [name for name in rows.columns if name.startswith("__")]
    return rows.select("id", (F.col("amount") * 2).alias("twice"), *internal)


DOUBLED = HELD.transform(doubled, "id STRING, twice INT").named("doubled")
PRICED = ORDERS.lookup(HELD, on="id").named("priced")
NODES = (CALM, NOW, CHANGES, PRICED, DOUBLED)


def live(driver: TestDriver, nodes: Sequence[str] | None = None) -> None:
    """Records in log commits of their own. In: nodes  those that fold each; None: all"""

    def position(second: int, name: str, amount: int | None) -> None:
        value = None if amount is None else {"ticker": "A", "amount": amount}
        driver.pipe("positions", key=name, value=value, timestamp_ms=second * 1_000)
        driver.cut(nodes)

    def order(number: str, name: str) -> None:
        driver.pipe("orders", key=number, value={"id": name}, timestamp_ms=0)
        driver.cut(nodes)

    driver.pipe("tickers", key="A", value={"exchange": "X"}, timestamp_ms=0)
    position(1, "p1", 10)
    position(5, "p1", 20)
    order("o1", "p1")
    position(12, "p3", 1)  # 1 s + 10 s: the wait of p1 is over
    position(13, "p1", None)
    order("o2", "p1")
    driver.set_limits("calm", time_limit="3 seconds")
    position(17, "p4", 7)  # those of seconds 12 and 13 are over
    driver.advance_wall_clock("11 seconds")
    driver.cut()


def rows(driver: TestDriver, name: str) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, driver.read(name).collect()), key=repr)


FOUND = {
    "calm": [("p1", "A", 20, "X", False), ("p1", None, None, None, True), ("p3", "A", 1, "X", False)],
    "now": [("X", 2, 8, False)],
    "changes": [
        ("p1", "A", 10, "X", False),
        ("p1", "A", 20, "X", False),
        ("p1", None, None, None, True),
        ("p4", "A", 7, "X", False),
    ],
    "doubled": [("p3", 2), ("p4", 14)],
    "priced": [("o1", "p1", "A", 20, "X"), ("o2", "p1", None, None, None)],
}


def test_a_join_is_suppressed_told_and_looked_up_in_any_cuts(drive: Drive, tmp_path: Path) -> None:
    driver = drive(*NODES)
    driver.crash("after outputs", "calm")
    live(driver)
    assert {name: rows(driver, name) for name in FOUND} == FOUND
    for name in ("calm", "now", "changes"):
        assert sorted(map(tuple, driver.backfill(name).collect()), key=repr) == FOUND[name], name
    for node in (CALM, CHANGES):
        assert verify_keys(driver.spark, driver._lake, node, 5).equal, node.name
    judged = check_node(driver.spark, driver._lake, CHANGES, str(tmp_path))
    assert [result.sentence for result in judged if not result.passed] == []

    driver.reset()
    live(driver, [])  # all nodes fold the whole log at the end
    assert {name: rows(driver, name) for name in FOUND} == FOUND

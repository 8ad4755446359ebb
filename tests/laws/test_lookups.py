"""The law of lookups: whatever the cuts, a record finds the row that the table had at the record's place in the log."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from tests.laws.changelogs import Changelog, History, ledger, live_on, placed
from tests.laws.driving import FEW, in_parallel, side_by_side
from tests.laws.plain import Change, Value, fates, results_of_changes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.description import Lookup
    from headrace.testing import TestDriver

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ORDERS = hr.Topic("orders", key="id STRING", value="item STRING, previous STRING")
ITEMS = hr.Topic("items", key="item STRING", value="price INT")
Changes = dict[str, list[Change]]

PRICES, EARLIER = ITEMS.table(), ORDERS.select("id", "item AS previous_item").table()
NODES: list[Lookup] = [
    ORDERS.lookup(PRICES, on="item").named("left_lookup"),
    ORDERS.where("item <> 'i0'").lookup(ITEMS.table("timestamp"), on="item", how="inner").named("by_time"),
    ORDERS.lookup(EARLIER, on="previous").named("of_itself"),
]
NAMES = [node.required_name for node in NODES]
IDS, SYMBOLS = [f"o{n}" for n in range(9)], [f"i{n}" for n in range(5)]


def order(random: Random) -> Value | None:
    if random.random() < 0.15:
        return None
    return {"item": random.choice([*SYMBOLS, "unknown", None]), "previous": random.choice([*IDS, None])}


def item(random: Random) -> Value | None:
    return None if random.random() < 0.3 else {"price": random.choice([None, *range(100)])}


CHANGELOGS = {"orders": Changelog(IDS, order), "items": Changelog(SYMBOLS, item)}


driver = side_by_side(NODES)


@FEW
@given(seed=st.integers(0, 2**32))
def test_streamed_in_any_cuts_and_backfilled_a_record_finds_what_the_log_held_before_it(
    driver: TestDriver, seed: int
) -> None:
    driver.reset()
    history = History(driver, CHANGELOGS)
    live_on(history, NAMES, Random(seed), cuts=5, records=12)
    changes = {topic: placed(driver, topic, history.changes[topic]) for topic in CHANGELOGS}
    in_parallel(lambda node: check(driver, node, changes), NODES)
    driver.spark.catalog.clearCache()


def check(driver: TestDriver, node: Lookup, changes: Changes) -> None:
    """Compare all that is read of a lookup with the oracle's."""
    name, expected = node.required_name, results_of_changes(node, changes)
    wanted = Counter(tuple(row[column] for column in node.columns) for row in expected.rows)
    assert rows_of(driver.read(name)) == wanted
    assert rows_of(driver.backfill(name)) == wanted
    assert ledger(driver.ledger(name)) == fates(expected)


def rows_of(frame: DataFrame) -> Counter[tuple[object, ...]]:
    return Counter(map(tuple, frame.collect()))

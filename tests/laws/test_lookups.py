"""The law of lookups: whatever the cuts, a record finds the row that the table had at the record's place in the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from tests.laws.changelogs import Changelog, History, ledger, live_on, placed
from tests.laws.driving import FEW, in_parallel, side_by_side
from tests.oracle.tables_oracle import Change, Value, lookup

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.description import Lookup
    from headrace.testing import TestDriver

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ORDERS = hr.Topic("orders", key="id STRING", value="item STRING, previous STRING")
ITEMS = hr.Topic("items", key="item STRING", value="price INT")
Changes = dict[str, list[Change]]
Found = list[tuple[Value, Value | None]]


@dataclass(frozen=True)
class Subject:
    """A lookup under test, and what the oracle finds for each record."""

    node: Lookup
    wanted: Callable[[Changes], Found]

    @property
    def name(self) -> str:
        return self.node.required_name


PRICES, EARLIER = ITEMS.table(), ORDERS.select("id", "item AS previous_item").table()
SUBJECTS = [
    Subject(
        ORDERS.lookup(PRICES, on="item").named("left_lookup"),
        lambda changes: lookup(changes["orders"], changes["items"], "item"),
    ),
    Subject(
        ORDERS.where("item <> 'i0'")
        .lookup(ITEMS.table("timestamp"), on="item", how="inner")
        .named("by_time"),
        lambda changes: [
            (order, item)
            for order, item in lookup(changes["orders"], changes["items"], "item", "timestamp")
            if order["item"] not in (None, "i0") and item is not None
        ],
    ),
    Subject(
        ORDERS.lookup(EARLIER, on="previous").named("of_itself"),
        lambda changes: [
            (order, earlier and {"previous_item": earlier["item"]})
            for order, earlier in lookup(changes["orders"], changes["orders"], "previous")
        ],
    ),
]
NAMES = [subject.name for subject in SUBJECTS]
IDS, SYMBOLS = [f"o{n}" for n in range(9)], [f"i{n}" for n in range(5)]


def order(random: Random) -> Value | None:
    if random.random() < 0.15:
        return None
    return {"item": random.choice([*SYMBOLS, "unknown", None]), "previous": random.choice([*IDS, None])}


def item(random: Random) -> Value | None:
    return None if random.random() < 0.3 else {"price": random.choice([None, *range(100)])}


CHANGELOGS = {"orders": Changelog(IDS, order), "items": Changelog(SYMBOLS, item)}


driver = side_by_side(subject.node for subject in SUBJECTS)


@FEW
@given(seed=st.integers(0, 2**32))
def test_streamed_in_any_cuts_and_backfilled_a_record_finds_what_the_log_held_before_it(
    driver: TestDriver, seed: int
) -> None:
    driver.reset()
    history = History(driver, CHANGELOGS)
    live_on(history, NAMES, Random(seed), cuts=5, records=12)
    changes = {topic: placed(driver, topic, history.changes[topic]) for topic in CHANGELOGS}
    in_parallel(lambda subject: check(driver, subject, changes), SUBJECTS)
    driver.spark.catalog.clearCache()


def check(driver: TestDriver, subject: Subject, changes: Changes) -> None:
    """Compare all that is read of a lookup with the oracle's."""
    columns = subject.node.columns
    found = subject.wanted(changes)
    wanted = Counter(tuple({**asked, **(row or {})}.get(name) for name in columns) for asked, row in found)
    assert rows_of(driver.read(subject.name)) == wanted
    assert rows_of(driver.backfill(subject.name)) == wanted
    topics = [topic.name for topic in subject.node.topics]
    assert sum(ledger(driver.ledger(subject.name)).values()) == sum(len(changes[topic]) for topic in topics)


def rows_of(frame: DataFrame) -> Counter[tuple[object, ...]]:
    return Counter(map(tuple, frame.collect()))

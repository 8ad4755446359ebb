"""The law of lookups as of event time: whatever the cuts, a record finds what was valid, and leaves at the same commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.changelogs import History, ledger, live_on, movements, placed
from tests.laws.driving import FEW, in_parallel, side_by_side
from tests.laws.test_lookups import CHANGELOGS, ITEMS, ORDERS, rows_of
from tests.oracle.tables_oracle import Change, Moved, Value, lookup_by_time

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.description import Lookup
    from headrace.sinks import Delivery
    from headrace.testing import TestDriver

pytestmark = [pytest.mark.spark, pytest.mark.slow]

HISTORY_MS = 40_000
Place = tuple[int, int]


class Heard:
    """A sink that keeps each row at its place; a row that is delivered again has to stand where it stood."""

    def __init__(self) -> None:
        self.name = "heard"
        self.rows: dict[Place, tuple[object, ...]] = {}

    def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
        for row in rows.select("__sequence", "__ordinal", *delivery.columns).collect():
            assert self.rows.setdefault(row[:2], tuple(row[2:])) == tuple(row[2:])


@dataclass(frozen=True)
class Subject:
    """A lookup under test: which records it asks for, which of their answers it keeps, and how it names what it finds."""

    node: Lookup
    looked_up: str = "items"
    on: str = "item"
    asks: Callable[[Change], bool] = lambda record: True
    keeps: Callable[[Value | None], bool] = lambda row: True
    shown: Callable[[Value], Value] = lambda row: row
    heard: Heard = field(default_factory=Heard)

    @property
    def name(self) -> str:
        return self.node.required_name


def subject(node: Lookup, **known: object) -> Subject:
    heard = Heard()
    return Subject(node.to(heard), heard=heard, **known)  # type: ignore[arg-type]


DEAR = ITEMS.table("timestamp").where("price > 30")
EARLIER = ORDERS.select("id", "item AS previous_item").table()
SUBJECTS = [
    subject(ORDERS.lookup(ITEMS.table(), on="item", as_of="event").named("valid")),
    subject(
        ORDERS.where("item <> 'i0'").lookup(DEAR, on="item", how="inner", as_of="event").named("dear"),
        asks=lambda record: record.value["item"] not in (None, "i0"),
        keeps=lambda row: row is not None and row["price"] is not None and row["price"] > 30,
    ),
    subject(ORDERS.lookup(ITEMS.table(), on="item", as_of="event", history=HISTORY_MS).named("bounded")),
    subject(
        ORDERS.lookup(EARLIER, on="previous", as_of="event").named("of_itself"),
        looked_up="orders",
        on="previous",
        shown=lambda row: {"previous_item": row["item"]},
    ),
]
NAMES = [subject.name for subject in SUBJECTS]
driver = side_by_side(subject.node for subject in SUBJECTS)


@FEW
@given(seed=st.integers(0, 2**32))
def test_streamed_in_any_cuts_and_backfilled_a_record_finds_what_was_valid_at_its_time(
    driver: TestDriver, seed: int
) -> None:
    driver.reset()
    for each in SUBJECTS:
        each.heard.rows.clear()
    history = History(driver, CHANGELOGS)
    live_on(history, NAMES, Random(seed), cuts=6, records=12)
    changes = {topic: placed(driver, topic, history.changes[topic]) for topic in CHANGELOGS}
    moved, streams = movements(driver, CHANGELOGS)
    in_parallel(lambda each: check(driver, each, changes, moved, streams), SUBJECTS)
    driver.spark.catalog.clearCache()


def check(
    driver: TestDriver,
    each: Subject,
    changes: dict[str, list[Change]],
    moved: list[Moved],
    streams: dict[tuple[object, ...], int],
) -> None:
    """Compare all that is read of a lookup, and all that its sink heard, with the oracle's."""
    topics = {topic.name for topic in each.node.topics}
    own = [move for move in moved if move[1] in topics]
    asked = [r for r in changes["orders"] if r.value is None or r.dead or each.asks(r)]
    if each.node.history_ms is not None:
        late = [r for r in asked if not r.dead and r.value and r.ts + each.node.history_ms < streams[r.at]]
        asked = [record for record in asked if record not in late]
    found = lookup_by_time(asked, changes[each.looked_up], each.on, own, len(topics))
    waiting = Counter(("orders", record.at[2], "open") for at, record, _ in found if at is None)
    left = [(at, record, row) for at, record, row in found if at is not None and each.keeps(row)]
    left.sort(key=lambda one: (one[0], one[1].ts, one[1].at))
    rows = [tuple(values(each, record, row)) for _, record, row in left]
    assert rows_of(driver.read(each.name)) == Counter(rows)
    assert rows_of(driver.backfill(each.name)) == Counter(rows)
    assert [(at, row) for (at, *_), row in zip(left, rows, strict=True)] == heard(each)
    counted = ledger(driver.ledger(each.name))
    assert Counter({at: n for at, n in counted.items() if at[2] == "open"}) == waiting
    assert sum(counted.values()) == sum(len(changes[topic]) for topic in topics)
    if each.node.history_ms is not None:
        places = {(record.at[2], record.at[3]) for record in late}
        assert {(r.partition, r.offset) for r in driver.late(each.name).collect()} == places
        assert sum(n for at, n in counted.items() if at[2] == "late") == len(late)


def values(each: Subject, record: Change, row: Value | None) -> list[object]:
    shown = {"id": record.key, **(record.value or {}), **(each.shown(row) if row else {})}
    return [shown.get(name) for name in each.node.columns]


def heard(each: Subject) -> list[tuple[int, tuple[object, ...]]]:
    return [(sequence, each.heard.rows[sequence, n]) for sequence, n in sorted(each.heard.rows)]

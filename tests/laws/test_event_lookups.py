"""The law of lookups as of event time: whatever the cuts, a record finds what was valid, and leaves at the same commit."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.changelogs import History, ledger, live_on, movements, placed
from tests.laws.driving import FEW, in_parallel, side_by_side
from tests.laws.plain import Change, Moved, fates, results_of_changes
from tests.laws.test_lookups import CHANGELOGS, ITEMS, ORDERS, rows_of

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
    """A lookup under test, and its sink."""

    node: Lookup
    heard: Heard

    @property
    def name(self) -> str:
        return self.node.required_name


def subject(node: Lookup) -> Subject:
    heard = Heard()
    return Subject(node.to(heard), heard)


DEAR = ITEMS.table("timestamp").where("price > 30")
EARLIER = ORDERS.select("id", "item AS previous_item").table()
SUBJECTS = [
    subject(ORDERS.lookup(ITEMS.table(), on="item", as_of="event").named("valid")),
    subject(
        ORDERS.where("item <> 'i0'").lookup(DEAR, on="item", how="inner", as_of="event").named("dear"),
    ),
    subject(ORDERS.lookup(ITEMS.table(), on="item", as_of="event", history=HISTORY_MS).named("bounded")),
    subject(ORDERS.lookup(EARLIER, on="previous", as_of="event").named("of_itself")),
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
    expected = results_of_changes(each.node, changes, streams, moved)
    rows = [tuple(row[name] for name in each.node.columns) for row in expected.rows]
    assert rows_of(driver.read(each.name)) == Counter(rows)
    assert rows_of(driver.backfill(each.name)) == Counter(rows)
    assert [(row["__sequence"], shown) for row, shown in zip(expected.rows, rows, strict=True)] == heard(each)
    assert ledger(driver.ledger(each.name)) == fates(expected)
    if each.node.history_ms is not None:
        late = {(row.partition, row.offset) for row in driver.late(each.name).collect()}
        assert late == {missed[1:3] for missed in expected.late}


def heard(each: Subject) -> list[tuple[int, tuple[object, ...]]]:
    return [(sequence, each.heard.rows[sequence, n]) for sequence, n in sorted(each.heard.rows)]

"""The law of aggregates as sides: joined or grouped, they are what the records make, in whatever cuts."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from tests.laws import tables
from tests.laws.changelogs import Changelog, History, ledger, live_on, movements, placed
from tests.laws.driving import FEW, in_parallel, side_by_side
from tests.laws.plain import Change, Moved, Value, by_identity, fates, results_of_changes

if TYPE_CHECKING:
    from headrace.description import Relation
    from headrace.testing import TestDriver

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SALES = hr.Topic("sales", key="id STRING", value="shop STRING, amount INT")
SHOPS = hr.Topic("shops", key="shop STRING", value="city STRING")
SIZE_MS, GRACE_MS = 20_000, 10_000
AGGREGATES = {"n": hr.count(), "total": hr.sum("amount"), "newest": hr.last("amount")}
BY_SHOP = SALES.group_by("shop").aggregate(**AGGREGATES)
BY_WINDOW = SALES.group_by("shop").window(hr.tumbling(SIZE_MS), grace=GRACE_MS).aggregate(**AGGREGATES)
FINAL = BY_WINDOW.suppress(hr.until_window_closes())


COUNTS = {"windows": hr.count(), "most": hr.sum("n")}
KNOWN = SHOPS.table()
CITIES = {"n": hr.sum("n"), "total": hr.sum("total")}
NODES: list[Relation] = [
    BY_SHOP.join(KNOWN, on="shop", how="left").named("totals_left"),
    KNOWN.join(BY_SHOP, on="shop", how="left").named("totals_right"),
    BY_SHOP.join(KNOWN, on="shop").group_by("city").aggregate(**CITIES).named("cities"),
    BY_WINDOW.join(KNOWN, on="shop", how="left").named("windows"),
    FINAL.join(KNOWN, on="shop").named("final_windows"),
    FINAL.group_by("shop").aggregate(**COUNTS).named("numbers_of_windows"),
]
NAMES = [node.required_name for node in NODES]
SYMBOLS = [f"s{n}" for n in range(4)]


def sale(random: Random) -> Value | None:
    if random.random() < 0.1:
        return None
    return {"shop": random.choice([*SYMBOLS, None]), "amount": random.choice([None, *range(-9, 100)])}


def shop(random: Random) -> Value | None:
    return None if random.random() < 0.3 else {"city": random.choice(["c0", "c1", None])}


CHANGELOGS = {"sales": Changelog([f"i{n}" for n in range(9)], sale), "shops": Changelog(SYMBOLS, shop)}
driver = side_by_side(NODES)


@FEW
@given(seed=st.integers(0, 2**32))
def test_streamed_in_any_cuts_and_backfilled_aggregates_are_sides_like_tables(
    driver: TestDriver, seed: int
) -> None:
    driver.reset()
    history = History(driver, CHANGELOGS)
    live_on(history, NAMES, Random(seed), cuts=6, records=14)
    changes = {topic: placed(driver, topic, history.changes[topic]) for topic in CHANGELOGS}
    moved, streams = movements(driver, CHANGELOGS)
    in_parallel(lambda node: check(driver, node, changes, moved, streams), NODES)
    driver.spark.catalog.clearCache()


def check(
    driver: TestDriver,
    node: Relation,
    changes: dict[str, list[Change]],
    moved: list[Moved],
    streams: dict[tuple[Any, ...], int],
) -> None:
    name, expected = node.required_name, results_of_changes(node, changes, streams, moved)
    wanted = by_identity(node, expected.rows)
    for frame in (driver.read(name), driver.backfill(name)):
        assert by_identity(node, (row.asDict() for row in tables.rows(frame))) == wanted
    assert ledger(driver.ledger(name)) == fates(expected)

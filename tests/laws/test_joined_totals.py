"""The law of aggregates as sides: joined or grouped, they are what the records make, in whatever cuts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from tests.laws import tables
from tests.laws.changelogs import Changelog, History, ledger, live_on, movements, placed
from tests.laws.driving import FEW, in_parallel, side_by_side
from tests.oracle.joined_totals_oracle import Totals, lowest, totals, windows
from tests.oracle.tables_oracle import Change, Rows, Value, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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


@dataclass(frozen=True)
class Found:
    """What the oracle makes of the logs: totals, windows as of now and those that are closed, and the shops that there are."""

    by_shop: Totals
    by_window: Totals
    final: Totals
    shops: Rows


@dataclass(frozen=True)
class Subject:
    """A relation under test, and its rows by key."""

    node: Relation
    wanted: Callable[[Found], Totals]

    @property
    def name(self) -> str:
        return self.node.required_name


def with_city(rows: Totals, shops: Rows, how: str) -> Totals:
    """Each row with the city of its shop; of windows with their end, too."""
    joined = {}
    for (shop, *start), row in rows.items():
        if how == "left" or shop in shops:
            end = {"window_end": start[0] + SIZE_MS} if start else {}
            joined[(shop, *start)] = {**end, **row, "city": shops.get(shop, {"city": None})["city"]}
    return joined


def of_cities(found: Found) -> Totals:
    cities: Totals = {}
    for row in with_city(found.by_shop, found.shops, "inner").values():
        if row["city"] is not None:
            city = cities.setdefault((row["city"],), {"n": 0, "total": None})
            city["n"] += row["n"]
            city["total"] = city["total"] if row["total"] is None else (city["total"] or 0) + row["total"]
    return cities


def of_shops(found: Found) -> Totals:
    nothing = {"n": None, "total": None, "newest": None}
    return {(shop,): {**row, **found.by_shop.get((shop,), nothing)} for shop, row in found.shops.items()}


def of_windows(found: Found) -> Totals:
    shops: Totals = {}
    for (shop, _), row in found.final.items():
        counts = shops.setdefault((shop,), {"windows": 0, "most": 0})
        counts["windows"] += 1
        counts["most"] += row["n"]
    return shops


COUNTS = {"windows": hr.count(), "most": hr.sum("n")}
KNOWN = SHOPS.table()
SUBJECTS = [
    Subject(
        BY_SHOP.join(KNOWN, on="shop", how="left").named("totals_left"),
        lambda found: with_city(found.by_shop, found.shops, "left"),
    ),
    Subject(KNOWN.join(BY_SHOP, on="shop", how="left").named("totals_right"), of_shops),
    Subject(
        BY_SHOP.join(KNOWN, on="shop")
        .group_by("city")
        .aggregate(n=hr.sum("n"), total=hr.sum("total"))
        .named("cities"),
        of_cities,
    ),
    Subject(
        BY_WINDOW.join(KNOWN, on="shop", how="left").named("windows"),
        lambda found: with_city(found.by_window, found.shops, "left"),
    ),
    Subject(
        FINAL.join(KNOWN, on="shop").named("final_windows"),
        lambda found: with_city(found.final, found.shops, "inner"),
    ),
    Subject(FINAL.group_by("shop").aggregate(**COUNTS).named("numbers_of_windows"), of_windows),
]
NAMES = [subject.name for subject in SUBJECTS]
SYMBOLS = [f"s{n}" for n in range(4)]


def sale(random: Random) -> Value | None:
    if random.random() < 0.1:
        return None
    return {"shop": random.choice([*SYMBOLS, None]), "amount": random.choice([None, *range(-9, 100)])}


def shop(random: Random) -> Value | None:
    return None if random.random() < 0.3 else {"city": random.choice(["c0", "c1", None])}


CHANGELOGS = {"sales": Changelog([f"i{n}" for n in range(9)], sale), "shops": Changelog(SYMBOLS, shop)}
driver = side_by_side(subject.node for subject in SUBJECTS)


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
    sales = changes["sales"]
    found = Found(
        totals(sales, "shop"),
        windows(sales, "shop", SIZE_MS, GRACE_MS, streams),
        windows(sales, "shop", SIZE_MS, GRACE_MS, streams, lowest(moved, "sales")),
        table(changes["shops"]),
    )
    in_parallel(lambda subject: check(driver, subject, found, changes), SUBJECTS)
    driver.spark.catalog.clearCache()


def check(driver: TestDriver, subject: Subject, found: Found, changes: dict[str, list[Change]]) -> None:
    name, wanted = subject.name, subject.wanted(found)
    assert by_identity(subject, driver.read(name)) == wanted
    assert by_identity(subject, driver.backfill(name)) == wanted
    counted = ledger(driver.ledger(name))
    topics = [topic.name for topic in subject.node.topics]
    assert sum(counted.values()) == sum(len(changes[topic]) for topic in topics)


def by_identity(subject: Subject, frame: DataFrame) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The rows by key; a key that occurs twice is an error."""
    found = [row.asDict() for row in tables.rows(frame)]
    rows = {tuple(row.pop(name) for name in subject.node.identity): row for row in found}
    assert len(rows) == len(found)
    return rows

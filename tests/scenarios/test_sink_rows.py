"""What a sink gets of a table: one row for each key and log commit, the same in any cuts.

log commits   1     2     3     4
bit by bit    |-----|-----|-----|     a micro-batch for each, in this process
at once       |                 |     all four in one, by Spark
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.description import Relation
from tests.laws.recorder import BEGIN_MS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.sinks import Delivery
    from tests.conftest import Drive

pytestmark = pytest.mark.spark

POSITIONS = hr.Topic("positions", key="id STRING", value="ticker STRING, amount INT")
TICKERS = hr.Topic("tickers", key="ticker STRING", value="exchange STRING")
HELD = POSITIONS.table()
SUMS: dict[str, Any] = {"n": hr.count(), "total": hr.sum("amount"), "newest": hr.last("id")}
TABLES: dict[str, Relation] = {
    "latest": HELD.where("amount > 2"),
    "joined": HELD.join(TICKERS.table(), on="ticker", how="left"),
    "grouped": HELD.group_by("ticker").aggregate(n=hr.count(), total=hr.sum("amount")),
    "totals": POSITIONS.group_by("ticker").aggregate(**SUMS),
}
Place = tuple[int, bytes]


class Rows:
    """A sink that keeps every row; one that comes again has to be the same."""

    def __init__(self) -> None:
        self.name = "rows"
        self.got: dict[tuple[Place, tuple[object, ...]], tuple[object, ...]] = {}

    def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
        self.keep(rows.toArrow(), delivery)

    def keep(self, rows: pa.Table, delivery: Delivery) -> None:
        for row in rows.to_pylist():
            place = (row["__sequence"], row["__place"])
            identity = tuple(row[name] for name in delivery.identity)
            own = (row["__ordinal"], row["__deleted"], row["__timestamp"])
            content = (*own, *(row[name] for name in delivery.columns))
            assert self.got.setdefault((place, identity), content) == content, "another row at its place"


class Tables(Rows):
    """The same, of tables that this process makes."""

    def deliver_table(self, rows: pa.Table, delivery: Delivery) -> None:
        self.keep(rows, delivery)


def test_a_sink_gets_each_change_of_a_table_once_and_in_the_same_place_in_any_cuts(drive: Drive) -> None:
    ways = {"bit_by_bit": Tables, "at_once": Rows, "throttled_here": Tables, "throttled_by_spark": Rows}
    sinks = {(kind, cuts): way() for kind in TABLES for cuts, way in ways.items()}
    tables = {
        cuts: [
            (kind, table.throttle("1 hour") if "throttled" in cuts else table)
            for kind, table in TABLES.items()
        ]
        for cuts in ways
    }
    nodes = [
        table.to(sinks[kind, cuts]).named(f"{kind}_{cuts}") for cuts in ways for kind, table in tables[cuts]
    ]
    driver, random = drive(*nodes), Random(11)
    driver.crash("after outputs", "grouped_bit_by_bit")
    for number in range(4):
        for at in range(6):
            key, ticker = f"p{random.randrange(4)}", f"t{random.randrange(3)}"
            value = None if random.random() < 0.2 else {"ticker": ticker, "amount": random.randrange(9)}
            driver.pipe("positions", key=key, value=value, timestamp_ms=BEGIN_MS + random.randrange(50))
            if at % 3 == 2:
                place = {"exchange": f"x{number}{at}"} if random.random() < 0.8 else None
                driver.pipe("tickers", key=ticker, value=place, timestamp_ms=BEGIN_MS)
        driver.cut([node.required_name for node in nodes if number == 3 or "bit" in node.required_name])
    for kind in TABLES:
        one, other = sinks[kind, "bit_by_bit"].got, sinks[kind, "at_once"].got
        assert sorted(one.items()) == sorted(other.items()), kind
        assert len({key for _, key in one}) < len({(at[0], key) for at, key in one}) == len(one), kind
        in_order = sorted(one)
        for commit in {at[0] for at, _ in one}:
            ordinals = [one[row][0] for row in in_order if row[0][0] == commit]
            assert ordinals == [*range(len(ordinals))]
        newest = {key: one[at, key] for at, key in in_order}
        few = sinks[kind, "throttled_here"].got
        assert few == sinks[kind, "throttled_by_spark"].got
        assert {key: row[1:] for (_, key), row in few.items()} == {
            key: row[1:] for key, row in newest.items()
        }
        assert len(few) == len(newest)
        held = sorted(content[3:] for content in newest.values() if not content[1])
        assert held == sorted(tuple(row) for row in driver.read(f"{kind}_at_once").collect()), kind
    assert any(content[1] for content in sinks["joined", "at_once"].got.values()), "a row has gone"

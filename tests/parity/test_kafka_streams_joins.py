"""The joined tables of Kafka Streams 4.1 for recorded inputs are those of Headrace, after every prefix that a cut ends.

All cases of both families run in one driver: each has topics of its own, and one cut serves them all.
Source: cases recorded with Kafka Streams' TopologyTestDriver, in `tests/fixtures`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from tests.laws.driving import SideBySide
from tests.parity.replay import in_random_cuts
from tests.parity.test_kafka_streams_fixtures import FIXTURES, Line, lines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Join

pytestmark = pytest.mark.spark

CUTS = 3
Table = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """One recorded input with what Kafka Streams made of it."""

    name: str
    how: str
    records: list[Line]
    emitted: list[Line]

    @property
    def node(self) -> Join:
        """The same topology as a description."""
        # The times of the recordings must not lie in the future of any machine.
        positions = hr.Topic(
            f"{self.name}_positions",
            key="id STRING",
            value="client STRING, ticker STRING, amount BIGINT",
            max_future="36500 days",
        )
        tickers = hr.Topic(
            f"{self.name}_tickers",
            key="ticker STRING",
            value="exchange STRING, name STRING, founded BIGINT",
            max_future="36500 days",
        )
        return positions.table().join(tickers.table(), on="ticker", how=self.how).named(self.name)

    def after(self, records: int) -> Table:
        """The joined table once so many records have been processed."""
        table: Table = {}
        for row in self.emitted:
            if row["kind"] == "change" and row["at"] < records:
                table.pop(row["key"], None)
                if row["value"] is not None:
                    table[row["key"]] = row["value"]
        return table

    @property
    def final(self) -> Table:
        """The result store at the end."""
        return {row["key"]: row["value"] for row in self.emitted if row["kind"] == "final"}


def cases() -> list[Case]:
    return [
        Case(f"{how}_{name}", how, lines(folder / f"{name}.in.jsonl"), lines(folder / f"{name}.out.jsonl"))
        for how, folder in ((how, FIXTURES / f"fkjoin_{how}") for how in ("left", "inner"))
        for name in json.loads((folder / "cases.json").read_text(encoding="utf-8"))
    ]


CASES = {case.name: case for case in cases()}
Streamed = tuple[SideBySide, dict[str, list[tuple[Table, Table]]]]


@pytest.fixture(scope="module")
def streamed(spark: SparkSession) -> Iterator[Streamed]:
    """Every case, streamed in a few random cuts; of each its table and that of Kafka Streams after each cut."""
    driver = SideBySide([case.node for case in CASES.values()], spark)
    found: dict[str, list[tuple[Table, Table]]] = {name: [] for name in CASES}
    for cut in in_random_cuts({name: case.records for name, case in CASES.items()}, CUTS, seed=41):
        for name, (records, _) in cut.items():
            for record in records:
                topic = f"{name}_{record['topic']}"
                driver.pipe(topic, key=record["key"], value=record["value"], timestamp_ms=record["timestamp"])
        driver.cut()
        for name, (_, upto) in cut.items():
            found[name].append((by_key(driver.read(name)), CASES[name].after(upto)))
    yield driver, found
    driver.close()


@pytest.mark.parametrize("name", CASES)
def test_the_joined_table_is_that_of_kafka_streams_after_each_cut_and_backfilled(
    streamed: Streamed, name: str
) -> None:
    driver, found = streamed
    for ours, theirs in found[name]:
        assert ours == theirs
    assert found[name][-1][0] == CASES[name].final == by_key(driver.backfill(name))


def by_key(frame: DataFrame) -> Table:
    """The rows by key; a key that occurs twice is an error."""
    found = [row.asDict() for row in frame.collect()]
    rows = {row.pop("id"): row for row in found}
    assert len(rows) == len(found)
    return rows

"""What Kafka Streams 4.1 lets go for recorded inputs, Headrace lets go: the same rows at the same records, however cut.

All cases run in one driver: each has a topic of its own, and one cut serves them all.
Source: cases recorded with Kafka Streams' TopologyTestDriver, in `tests/fixtures`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from tests.laws import tables
from tests.laws.driving import SideBySide
from tests.parity.replay import in_random_cuts
from tests.parity.test_kafka_streams_fixtures import FIXTURES, Line, lines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Suppressed
    from headrace.sinks import Delivery

pytestmark = pytest.mark.spark

CUTS = 2
FOLDER = FIXTURES / "suppress_time_limit"
Row = tuple[Any, ...]


class InOrder:
    """A sink that keeps everything that it is given, with the place that it is given for it."""

    def __init__(self) -> None:
        self.name = "in_order"
        self.rows: list[dict[str, Any]] = []

    def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
        self.rows += [row.asDict() for row in tables.rows(rows)]


@dataclass(frozen=True)
class Case:
    """One recorded input with what Kafka Streams made of it."""

    name: str
    settings: Line
    records: list[Line]
    emitted: list[Line]
    sink: InOrder = field(default_factory=InOrder)

    @property
    def node(self) -> Suppressed:
        """The same topology as a description."""
        # The times of the recordings must not lie in the future of any machine.
        topic = hr.Topic(f"{self.name}_in", key="key STRING", value="value BIGINT", max_future="36500 days")
        most = self.settings.get("max_records")
        when_full = "emit_early" if most else "spill"
        policy = hr.until_time_limit(f"{self.settings['limit_ms']} ms", max_records=most, when_full=when_full)
        totals = {"count": hr.count(), "sum": hr.sum("value")}
        match self.settings["source"]:
            case "table":
                node = topic.table().suppress(policy)
            case "count":
                node = topic.group_by().aggregate(**totals).suppress(policy)
            case _:
                window = hr.tumbling(f"{self.settings['size_ms']} ms")
                windowed = topic.group_by().window(window, grace=f"{self.settings['grace_ms']} ms")
                node = windowed.aggregate(**totals).suppress(policy)
        return node.to(self.sink).named(self.name)

    def theirs(self) -> list[Row]:
        """What Kafka Streams emitted, in order: timestamp, key, window, values."""
        return [
            (row["timestamp"], row["key"], row.get("window_start"), row.get("window_end"), *self._values(row))
            for row in self.emitted
        ]

    def _values(self, row: Line) -> Row:
        if self.settings["source"] == "table":
            return (None if row["value"] is None else row["value"]["value"],)
        totals = row["value"] if self.settings["source"] == "count" else row
        return (totals["count"], totals["sum"])

    def ours(self, row: Line, timestamp: int | None) -> Row:
        """A row of ours in the same form."""
        values = (row["value"],) if self.settings["source"] == "table" else (row["count"], row["sum"])
        return (timestamp, row["key"], row.get("window_start"), row.get("window_end"), *values)


CASES = {
    name: Case(name, settings, lines(FOLDER / f"{name}.in.jsonl"), lines(FOLDER / f"{name}.out.jsonl"))
    for name, settings in json.loads((FOLDER / "cases.json").read_text(encoding="utf-8")).items()
}


@pytest.fixture(scope="module")
def driver(spark: SparkSession) -> Iterator[SideBySide]:
    """Every case, streamed in a few random cuts."""
    started = SideBySide([case.node for case in CASES.values()], spark)
    for cut in in_random_cuts({name: case.records for name, case in CASES.items()}, CUTS, seed=11):
        for name, (records, _) in cut.items():
            for record in records:
                started.pipe(
                    f"{name}_in",
                    key=record["key"],
                    value=record["value"],
                    timestamp_ms=record["timestamp"],
                )
        started.cut()
    yield started
    started.close()


@pytest.mark.parametrize("name", CASES)
def test_the_rows_are_those_of_kafka_streams_in_their_order_and_backfilled(
    driver: SideBySide, name: str
) -> None:
    case = CASES[name]
    theirs = case.theirs()
    given = sorted(case.sink.rows, key=lambda row: (row["__sequence"], row["__ordinal"]))
    assert [case.ours(row, row["__timestamp"]) for row in given] == theirs
    read, backfilled = (
        Counter(case.ours(row.asDict(), None) for row in tables.rows(frame))
        for frame in (driver.read(name), driver.backfill(name))
    )
    assert read == backfilled == Counter((None, *row[1:]) for row in theirs)
    assert sum(case.settings["dropped"] == fate["records"] for fate in _late(driver, name)) == 1


def _late(driver: SideBySide, name: str) -> list[dict[str, Any]]:
    return [row.asDict() for row in driver.ledger(name).where("fate = 'late'").collect()]

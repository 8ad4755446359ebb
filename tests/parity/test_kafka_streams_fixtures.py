"""The same input gives what Kafka Streams 4.1 gives: final windows, timestamps, late records, last updates.

Source: cases recorded with Kafka Streams' TopologyTestDriver, in `tests/fixtures`. One node of each case reads the log in one
go, another in several random cuts.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.description import WindowedAggregate
from headrace.testing import TestDriver
from tests.laws import tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
CUTS = 4
Key = tuple[str, int]


@dataclass(frozen=True)
class Case:
    """A recorded run: settings, input, and what came out."""

    family: str
    name: str
    settings: dict[str, Any]

    @property
    def id(self) -> str:
        return f"{self.family}_{self.name}"

    def lines(self, side: str) -> list[dict[str, Any]]:
        text = (FIXTURES / self.family / f"{self.name}.{side}.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def emitted(self, kind: str) -> dict[Key, dict[str, Any]]:
        """The last row of each key and window of the output of this kind."""
        rows = [row for row in self.lines("out") if row.get("kind", "closed") == kind]
        return {
            (row["key"], row["window_start"]): {name: row[name] for name in ("count", "sum", "timestamp")}
            for row in rows
        }

    def node(self, topic: hr.Topic, suffix: str) -> WindowedAggregate:
        size, grace = self.settings["size_ms"], self.settings["grace_ms"]
        window = (
            hr.hopping(size, self.settings["advance_ms"]) if self.family == "hopping" else hr.tumbling(size)
        )
        grouped = topic.group_by("key").window(window, grace=grace)
        counted = grouped.aggregate(count=hr.count(), sum=hr.sum("value"))
        return counted.suppress(hr.until_window_closes()).named(f"{self.id}_{suffix}")


def cases() -> list[Case]:
    return [
        Case(family, name, settings)
        for family in ("suppress", "hopping")
        for name, settings in json.loads(
            (FIXTURES / family / "cases.json").read_text(encoding="utf-8")
        ).items()
    ]


CASES = cases()
in_both_ways = pytest.mark.parametrize("way", ["at_once", "in_cuts"])
in_every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)


@pytest.fixture(scope="module")
def driver(spark: SparkSession) -> Iterator[TestDriver]:
    topics = {
        case: hr.Topic(
            case.id, key="key STRING", value="value BIGINT", idle_timeout=None, max_future="36500 days"
        )
        for case in CASES
    }
    nodes = [case.node(topic, way) for case, topic in topics.items() for way in ("at_once", "in_cuts")]
    started = TestDriver(nodes, spark)
    chance = random.Random(4)
    inputs = {case: case.lines("in") for case in CASES}
    ends = {
        case: [*sorted(chance.sample(range(1, len(inputs[case])), CUTS)), len(inputs[case])] for case in CASES
    }
    for cut in range(CUTS + 1):
        for case, lines in inputs.items():
            for line in lines[ends[case][cut - 1] if cut else 0 : ends[case][cut]]:
                started.pipe(case.id, key=line["key"], value=line["value"], timestamp_ms=line["timestamp"])
        started.cut([f"{case.id}_in_cuts" for case in CASES])
    started.cut()
    yield started
    started.close()


@in_every_case
@in_both_ways
def test_final_windows_and_their_timestamps_are_those_of_kafka_streams(
    driver: TestDriver, case: Case, way: str
) -> None:
    node = f"{case.id}_{way}"
    results = driver.spark.read.format("delta").load(driver._lake.table(node))
    expected = case.emitted("closed")
    finals = tables.windows(
        tables.rows(results.withColumnRenamed("__timestamp", "timestamp").drop("__records"))
    )
    assert finals == expected
    shown = tables.windows(tables.rows(driver.read(node)))
    assert shown == {at: {"count": row["count"], "sum": row["sum"]} for at, row in expected.items()}


@in_every_case
@in_both_ways
def test_as_many_records_are_late_for_a_window_as_kafka_streams_dropped(
    driver: TestDriver, case: Case, way: str
) -> None:
    assert driver.late(f"{case.id}_{way}").count() == case.settings["dropped"]


@in_every_case
@in_both_ways
def test_every_record_is_in_the_ledger(driver: TestDriver, case: Case, way: str) -> None:
    ledger = tables.ledger(tables.rows(driver.ledger(f"{case.id}_{way}")))
    assert sum(ledger.values()) == case.settings["records"]
    assert {fate for _, fate in ledger} <= {"used", "open", "late"}


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.family == "hopping"], ids=lambda case: case.id
)
@in_both_ways
def test_updates_fold_to_the_last_change_of_each_window(driver: TestDriver, case: Case, way: str) -> None:
    folded = tables.folded(tables.rows(driver.updates(f"{case.id}_{way}")))
    assert folded == {
        at: {"count": row["count"], "sum": row["sum"]} for at, row in case.emitted("change").items()
    }

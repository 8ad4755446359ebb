"""The windows that Kafka Streams 4.1 emits for recorded inputs are those that Headrace emits, however they are cut.

All cases of both families run in one driver: each is a topic of its own, and one cut serves them all.
Source: cases recorded with Kafka Streams' TopologyTestDriver, in `tests/fixtures`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.testing import TestDriver
from tests.laws import tables
from tests.parity.replay import in_random_cuts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import WindowedAggregate

pytestmark = pytest.mark.spark

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
CUTS = 3
Line = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One recorded input with what Kafka Streams made of it."""

    name: str
    settings: Line
    records: list[Line]
    emitted: list[Line]

    @property
    def node(self) -> WindowedAggregate:
        """The same topology as a description."""
        # No wall clock in the recordings, so no ticks; and their times must not lie in the future of any machine.
        topic = hr.Topic(
            self.name, key="key STRING", value="value BIGINT", idle_timeout=None, max_future="36500 days"
        )
        size_ms, grace_ms = int(self.settings["size_ms"]), self.settings["grace_ms"]
        advance_ms = int(self.settings.get("advance_ms", size_ms))
        window = hr.hopping(f"{size_ms} ms", f"{advance_ms} ms")
        windowed = topic.group_by("key").window(window, grace=f"{grace_ms} ms")
        counted = windowed.aggregate(count=hr.count(), sum=hr.sum("value"))
        return counted.suppress(hr.until_window_closes()).named(self.name)

    def last(self, kind: str, *columns: str) -> dict[tuple[str, int], Line]:
        """The last row of each key and window: `closed` windows or `change`s."""
        rows = [row for row in self.emitted if row.get("kind", "closed") == kind]
        return {(row["key"], row["window_start"]): {name: row[name] for name in columns} for row in rows}


def cases() -> list[Case]:
    return [
        Case(
            f"{folder.name}_{name}",
            settings,
            lines(folder / f"{name}.in.jsonl"),
            lines(folder / f"{name}.out.jsonl"),
        )
        for folder in (FIXTURES / "suppress", FIXTURES / "hopping")
        for name, settings in json.loads((folder / "cases.json").read_text(encoding="utf-8")).items()
    ]


def lines(file: Path) -> list[Line]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


CASES = {case.name: case for case in cases()}


@pytest.fixture(scope="module")
def streamed(spark: SparkSession) -> Iterator[TestDriver]:
    """Every case, streamed in a few random cuts."""
    driver = TestDriver([case.node for case in CASES.values()], spark)
    for cut in in_random_cuts({name: case.records for name, case in CASES.items()}, CUTS, seed=41):
        for name, (records, _) in cut.items():
            for record in records:
                driver.pipe(name, key=record["key"], value=record["value"], timestamp_ms=record["timestamp"])
        driver.cut()
    yield driver
    driver.close()


@pytest.mark.parametrize("name", CASES)
def test_final_windows_are_those_of_kafka_streams_streamed_and_backfilled(
    streamed: TestDriver, name: str
) -> None:
    wanted = CASES[name].last("closed", "count", "sum")
    assert tables.windows(tables.rows(streamed.read(name))) == wanted
    assert tables.windows(tables.rows(streamed.backfill(name))) == wanted


@pytest.mark.parametrize("name", CASES)
def test_a_window_carries_the_timestamp_that_kafka_streams_gives_it(streamed: TestDriver, name: str) -> None:
    results = streamed.spark.read.format("delta").load(streamed._lake.table(name))
    timed = results.select("key", "window_start", "window_end", results["__timestamp"].alias("timestamp"))
    assert tables.windows(tables.rows(timed)) == CASES[name].last("closed", "timestamp")


@pytest.mark.parametrize("name", CASES)
def test_as_many_records_miss_a_window_as_kafka_streams_drops(streamed: TestDriver, name: str) -> None:
    assert streamed.late(name).count() == CASES[name].settings["dropped"]


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("hopping")])
def test_updates_fold_to_the_last_change_of_each_window(streamed: TestDriver, name: str) -> None:
    folded = tables.folded(tables.rows(streamed.updates(name)))
    assert folded == CASES[name].last("change", "count", "sum")

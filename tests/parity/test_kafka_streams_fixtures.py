"""The windows that Kafka Streams 4.1 emits for recorded inputs are those that Headrace emits, however they are cut.

All cases of both families run in one driver: each is a topic of its own, and one cut serves them all.
Source: cases recorded with Kafka Streams' TopologyTestDriver, in `tests/fixtures`.
"""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.testing import TestDriver

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import WindowedAggregate

pytestmark = pytest.mark.spark

FIXTURES = Path(__file__).parents[1] / "fixtures"
CUTS = 3
Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One recorded input with what Kafka Streams made of it."""

    name: str
    settings: Row
    records: list[Row]
    emitted: list[Row]

    @property
    def node(self) -> WindowedAggregate:
        """The same topology as a description."""
        topic = hr.Topic(self.name, key="key STRING", value="value BIGINT", idle_timeout=None)
        size_ms: int = self.settings["size_ms"]
        advance_ms: int = self.settings.get("advance_ms", size_ms)
        window, grace_ms = hr.hopping(size_ms, advance_ms), self.settings["grace_ms"]
        windowed = topic.group_by("key").window(window, grace=grace_ms)
        counted = windowed.aggregate(count=hr.count(), sum=hr.sum("value"))
        return counted.suppress(hr.until_window_closes()).named(self.name)

    def rows(self, kind: str) -> list[Row]:
        """What was emitted: `closed` windows or `change`s."""
        return [row for row in self.emitted if row.get("kind", "closed") == kind]


def cases() -> list[Case]:
    found = []
    for family in ("suppress", "hopping"):
        for name, settings in json.loads((FIXTURES / family / "cases.json").read_text()).items():
            given, emitted = (
                lines(FIXTURES / family / f"{name}.in.jsonl"),
                lines(FIXTURES / family / f"{name}.out.jsonl"),
            )
            found.append(Case(f"{family}_{name}", settings, given, emitted))
    return found


def lines(file: Path) -> list[Row]:
    return [json.loads(line) for line in file.read_text().splitlines()]


CASES = {case.name: case for case in cases()}


@pytest.fixture(scope="module")
def streamed(spark: SparkSession) -> Iterator[TestDriver]:
    """Every case, streamed in a few random cuts."""
    driver, chance = TestDriver([case.node for case in CASES.values()], spark), random.Random(41)
    cuts = {
        name: sorted(chance.sample(range(1, len(case.records)), CUTS - 1)) for name, case in CASES.items()
    }
    for cut in range(CUTS):
        for name, case in CASES.items():
            bounds = [0, *cuts[name], len(case.records)]
            for record in case.records[bounds[cut] : bounds[cut + 1]]:
                driver.pipe(name, key=record["key"], value=record["value"], timestamp_ms=record["timestamp"])
        driver.cut()
    yield driver
    driver.close()


def windows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(
        (r["key"], ms(r["window_start"]), ms(r["window_end"]), r["count"], r["sum"]) for r in frame.collect()
    )


def ms(time: dt.datetime) -> int:
    return round(time.replace(tzinfo=dt.UTC).timestamp() * 1000)


def of(rows: list[Row]) -> list[tuple[Any, ...]]:
    return sorted((r["key"], r["window_start"], r["window_end"], r["count"], r["sum"]) for r in rows)


@pytest.mark.parametrize("name", CASES)
def test_final_windows_are_those_of_kafka_streams_streamed_and_backfilled(
    streamed: TestDriver, name: str
) -> None:
    wanted = of(CASES[name].rows("closed"))
    assert windows(streamed.read(name)) == wanted
    assert windows(streamed.backfill(name)) == wanted


@pytest.mark.parametrize("name", CASES)
def test_as_many_records_miss_a_window_as_kafka_streams_drops(streamed: TestDriver, name: str) -> None:
    assert streamed.late(name).count() == CASES[name].settings["dropped"]


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("hopping")])
def test_updates_fold_to_what_the_changes_of_kafka_streams_fold_to(streamed: TestDriver, name: str) -> None:
    changes = {(row["key"], row["window_start"]): row for row in CASES[name].rows("change")}
    updates = streamed.updates(name).collect()
    last = {(r["key"], r["window_start"]): r for r in sorted(updates, key=lambda r: r["__batch"] or 2**62)}
    folded = sorted(
        (r["key"], ms(r["window_start"]), ms(r["window_end"]), r["count"], r["sum"]) for r in last.values()
    )
    assert folded == of(list(changes.values()))

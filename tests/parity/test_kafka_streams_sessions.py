"""The sessions that Kafka Streams 4.1 emits for recorded inputs are those that Headrace emits, however they are cut.

One rule differs: Kafka Streams still takes a record for a session that it emits at that very stream time, and emits the
session a second time with that record alone. Here the record is late, and no session is emitted twice. In case04 two
records lie on that boundary, so there are two rows less and two late records more; `TWICE` names them.
Source: cases recorded with Kafka Streams' TopologyTestDriver, in `tests/fixtures`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from tests.laws import tables
from tests.laws.driving import SideBySide
from tests.parity.replay import in_random_cuts
from tests.parity.test_kafka_streams_fixtures import FIXTURES, Case, lines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import WindowedAggregate
    from headrace.testing import TestDriver

pytestmark = pytest.mark.spark

FOLDER = FIXTURES / "session_windows_final"
CUTS = 3
CASES = {
    name: Case(
        f"sessions_{name}", settings, lines(FOLDER / f"{name}.in.jsonl"), lines(FOLDER / f"{name}.out.jsonl")
    )
    for name, settings in json.loads((FOLDER / "cases.json").read_text(encoding="utf-8")).items()
}
# key, window_start, window_end, count, sum, timestamp
TWICE = {
    "case04": Counter(
        {("k0", 780_000, 780_000, 1, 825, 780_000): 1, ("k0", 780_000, 780_000, 1, 739, 780_000): 1}
    )
}


def node(case: Case) -> WindowedAggregate:
    """The same topology as a description."""
    topic = hr.Topic(
        case.name, key="key STRING", value="value BIGINT", idle_timeout=None, max_future="36500 days"
    )
    windowed = topic.group_by().window(
        hr.session(f"{case.settings['gap_ms']} ms"), grace=f"{case.settings['grace_ms']} ms"
    )
    counted = windowed.aggregate(count=hr.count(), sum=hr.sum("value"))
    return counted.suppress(hr.until_window_closes()).named(case.name)


def emitted(name: str) -> Counter[tuple[Any, ...]]:
    columns = ("key", "window_start", "window_end", "count", "sum", "timestamp")
    return Counter(tuple(row[column] for column in columns) for row in CASES[name].emitted)


def rows(frame: DataFrame) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in tables.rows(frame))


@pytest.fixture(scope="module")
def streamed(spark: SparkSession) -> Iterator[TestDriver]:
    """Every case, streamed in a few random cuts."""
    driver = SideBySide([node(case) for case in CASES.values()], spark)
    for cut in in_random_cuts({name: case.records for name, case in CASES.items()}, CUTS, seed=43):
        for name, (records, _) in cut.items():
            for record in records:
                driver.pipe(
                    CASES[name].name,
                    key=record["key"],
                    value=record["value"],
                    timestamp_ms=record["timestamp"],
                )
        driver.cut()
    yield driver
    driver.close()


@pytest.mark.parametrize("name", CASES)
def test_sessions_are_those_of_kafka_streams_streamed_and_backfilled(streamed: TestDriver, name: str) -> None:
    case = CASES[name]
    wanted = emitted(name) - TWICE.get(name, Counter())
    assert wanted.total() == case.settings["emitted"] - TWICE.get(name, Counter()).total()
    table = streamed.spark.read.format("delta").load(streamed._lake.table(case.name))
    assert rows(table.select("key", "window_start", "window_end", "count", "sum", "__timestamp")) == wanted
    assert rows(streamed.backfill(case.name)) == Counter({row[:5]: times for row, times in wanted.items()})


@pytest.mark.parametrize("name", CASES)
def test_as_many_records_are_late_as_kafka_streams_drops_or_emits_a_second_time(
    streamed: TestDriver, name: str
) -> None:
    again = TWICE.get(name, Counter()).total()
    assert streamed.late(CASES[name].name).count() == CASES[name].settings["dropped"] + again

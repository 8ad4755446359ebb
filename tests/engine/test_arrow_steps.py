"""Steps that a task evaluates over Arrow give the rows that Spark gives."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.engine.slices.feeds import NodeRows
from headrace.engine.slices.log_slices import LogSlice
from headrace.expressions import SparkNeededError
from headrace.testing import TestDriver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
T = hr.Topic(
    "things",
    key="id STRING",
    value="name STRING, n INT, big BIGINT, x DOUBLE, at BIGINT, user STRUCT<id: STRING, age: INT>, tags ARRAY<STRING>, more MAP<STRING, INT>",
)
Stream = Any
CHAINS: dict[str, Callable[[Stream], Stream]] = {
    "a condition": lambda s: s.where("n > 2 AND x IS NOT NULL"),
    "two conditions": lambda s: s.where("n >= 0").where("name LIKE 'a%' OR user.age < 5"),
    "a column": lambda s: s.with_column("twice", "n * 2"),
    "a column in place of another": lambda s: s.with_column("N", "big DIV 3").where("n > 1"),
    "a selection": lambda s: s.select("upper(name) AS name", "n % 3 AS rest", "user.id AS who", "id"),
    "all of them": lambda s: (
        s.where("n <> 1").with_column("y", "x / n").select("id", "y", "n").where("y > 0 OR y IS NULL")
    ),
    "parts": lambda s: s.with_column("level", "user.age + size(tags) + more['step']").where("more.step < 3"),
    "a place in the log": lambda s: s.with_column("where_from", "record_offset() % 2").where(
        "record_partition() = 0"
    ),
    "a moment": lambda s: s.with_column("day", "CAST(timestamp_millis(at) AS DATE)").with_column(
        "hour", "hour(timestamp_millis(at))"
    ),
    "a letter that is newer than Python": lambda s: s.with_column(
        "name", "lower(concat(name, '\U0001fbf9\u1c89'))"
    ),
}


@pytest.fixture(scope="module")
def driver(spark: SparkSession) -> Iterator[TestDriver]:
    made = TestDriver([T.where("true").named("all_things")], spark=spark)
    rng = random.Random(5)
    for number in range(120):
        value = {
            "name": rng.choice([None, "", "abc", "Äpfel", "a%"]),
            "n": rng.choice([None, 0, 1, 2, 7, -3, 2**31 - 1]),
            "big": rng.choice([None, 10, -7, 2**63 - 1]),
            "x": rng.choice([None, 0.0, -1.5, 1e300]),
            "at": rng.choice([None, 0, -1, 1_764_288_000_123]),
            "user": rng.choice([None, {"id": "u", "age": 3}, {"id": None, "age": None}]),
            "tags": rng.choice([None, [], ["a", "b"]]),
            "more": rng.choice([None, {}, {"step": 1}, {"other": 2, "step": None}, {"step": 4, "other": 5}]),
        }
        bad = rng.random() < 0.1
        made.pipe(
            "things",
            key=f"k{number % 7}",
            value=b"{" if bad else value,
            timestamp_ms=number,
            partition=number % 2,
        )
        if number % 50 == 0:
            made.cut()
    made.cut()
    yield made
    made.close()


@pytest.mark.parametrize("chain", CHAINS)
def test_tasks_give_the_rows_that_spark_gives(driver: TestDriver, spark: SparkSession, chain: str) -> None:
    node = CHAINS[chain](T).named("made")
    rows = NodeRows(spark, node)
    ((name, feed),) = rows.packed.feeds.items()
    assert feed.origins is not None
    slices = {"things": LogSlice.of(driver._lake.log("things"), 0, 1 << 50)}
    theirs = NodeRows(spark, node, in_arrow=False)
    assert theirs.packed.feeds[name].origins is None
    frame = theirs.computed_frame(spark, slices)
    assert frame is not None
    expected = theirs.computed.unpacked(frame.toArrow())[name]
    if "newer" in chain:
        with pytest.raises(SparkNeededError):
            feed.read(slices)
        return
    made = feed.read(slices)
    assert made.schema == expected.schema
    assert _in_order(made) == _in_order(expected)


def _in_order(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=repr)

"""MAP columns, which Spark does not compare: streamed, backfilled, verified, checked and erased like any other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

import headrace as hr
from headrace import lake as lakes
from headrace.errors import DescriptionError
from headrace.lifecycle import erasure
from headrace.lifecycle.backfill import Backfill, verify
from headrace.nodes.node_tables import results_writer
from headrace.quality import check_node
from headrace.spark.frames import local_frame
from headrace.spark.lake_rows import overwrite, read
from headrace.spark.rows.comparable import comparable_rows
from headrace.testing import TestDriver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node

pytestmark = pytest.mark.spark
NESTED = "ARRAY<STRUCT<m: MAP<STRING, INT>>>"
EVENTS = hr.Topic(
    "events", key="id STRING", value=f"tags MAP<STRING, DOUBLE>, deep {NESTED}, of STRING", idle_timeout=None
)
NAMES = hr.Topic("names", key="id STRING", value="words MAP<STRING, STRING>", idle_timeout=None)
FOUND = EVENTS.lookup(NAMES.table(), on="of", complete_first=False).named("found")
BATCHES = EVENTS.group_by("id").batch(max_records=2, collect=("tags", "deep")).named("batches")
JOINED = EVENTS.table().join(NAMES.table(), on="of").named("joined")
NODES = [FOUND, BATCHES, JOINED]


@pytest.fixture(scope="module")
def driver(spark: SparkSession) -> Iterator[TestDriver]:
    driver = TestDriver(NODES, spark)
    yield driver
    driver.close()


def pipe(driver: TestDriver, key: str, minute: int) -> None:
    pairs = {"b": 1.0, "a": minute}
    value = {"tags": pairs, "deep": [{"m": {"y": 2, "x": 1}}, None, {"m": None}], "of": "n"}
    driver.pipe("events", key=key, value=value, timestamp_ms=minute * 60_000)


def test_two_maps_are_equal_if_they_hold_the_same_entries(spark: SparkSession) -> None:
    one, other = {"a": {1: None}, "b": None}, {"b": None, "a": {1: None}}
    rows: list[tuple[Any, ...]] = [([(m,)], m) for m in (one, other, {**one, "b": {}}, {}, None)]
    frame = local_frame(
        spark,
        [*rows, (None, None)],
        "`s.t` ARRAY<STRUCT<m: MAP<STRING, MAP<INT, INT>>>>, m MAP<STRING, MAP<INT, INT>>",
    )
    assert comparable_rows(frame).distinct().count() == 5
    assert comparable_rows(frame, ["m"]).distinct().count() == 4
    plain = frame.select(F.lit(1).alias("x"))
    assert comparable_rows(plain).schema == plain.schema


def test_maps_stand_in_the_way_of_nothing(
    driver: TestDriver, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = driver._lake
    driver.pipe("names", key="n", value={"words": {"w": "x", "v": "y"}}, timestamp_ms=0)
    driver.cut()  # so that every record finds it
    for minute in range(4):
        for key in ("gone", "stays"):
            pipe(driver, key, minute)
        driver.cut()
    for node in NODES:
        assert driver.verify(node.required_name, 10).equal
        results = check_node(driver.spark, lake, node, str(tmp_path / "docs"))
        assert all(each.passed for each in results), [each.sentence for each in results if not each.passed]

    driver._runners["joined"].maintain()  # all current rows are in the table
    tamper(driver, FOUND, "tags", F.map_concat("tags", F.create_map(F.lit("c"), F.lit(0.0))))
    tamper(driver, JOINED, "words", F.map_filter("words", lambda name, _: name == "v"))
    for node in (FOUND, JOINED):
        bad = {
            each.name
            for each in check_node(driver.spark, lake, node, str(tmp_path / "docs"))
            if not each.passed
        }
        assert "backfill_equals_stream" in bad
        assert ("join_equals_recomputation" in bad) == (node is JOINED)
        assert not driver.verify(node.required_name, 10).equal
        (verdict,) = Backfill(driver.spark, lake, node).run()
        assert (verdict.equal, verdict.swapped, verdict.rows_differing > 0) == (False, True, True)
        assert verdict.first_differences
    driver._reopen_runners()

    def no_space(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(erasure, "rewrite_state", no_space)
    with pytest.raises(OSError, match="no space left"):
        driver.erase("events", "gone")
    monkeypatch.undo()
    done = {(each.of, each.what): each.rows for each in driver.erase("events", "gone")}
    assert (done["log/events", "log"], done["batches", "results"]) == (0, 2), "the rest of what was begun"
    for node in NODES:
        assert {row["id"] for row in driver.rows(node.required_name)} == {"stays"}
        assert all(each.equal for each in verify(driver.spark, lake, node))


def tamper(driver: TestDriver, node: Node, column: str, value: Any) -> None:
    """Change one column of a node's results behind everyone's back."""
    path = driver._lake.table(node.required_name)
    table, writers = lakes.open_table(path), [results_writer(node)]
    maintainer = lakes.TableWriter(table, lakes.MAINTAINER, carries=writers)
    rows = read(driver.spark, path).withColumn(column, value)
    overwrite(maintainer, rows, {"writer": "test", **lakes.carried(table, writers)})


def test_what_spark_cannot_compare_is_found_before_the_log_is_blanked(
    driver: TestDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.reset()
    pipe(driver, "gone", 0)
    driver.cut()
    monkeypatch.setattr("headrace.lifecycle.backfill.comparable_rows", lambda rows, names=None: rows)
    with pytest.raises(Exception, match="MAP"):
        driver.erase("events", "gone")
    assert len([row for row in driver.log("events") if row["value"] is not None]) == 1


def test_a_computed_map_that_would_tell_rows_apart_is_refused(spark: SparkSession) -> None:
    stream = EVENTS.with_column("computed", "zip_with(array(tags), array(1), (each, _) -> each)[0]")
    with pytest.raises(DescriptionError, match="column 'computed' tells its rows apart and holds a MAP"):
        TestDriver([stream.group_by("computed").aggregate(n=hr.count()).named("by_map")], spark)

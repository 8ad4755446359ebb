"""What Arrow merges into a table is what Delta's MERGE does: the rows, the change feed, and what its history says."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from delta.tables import DeltaTable
from pyspark.sql import functions as F

from headrace.spark import merge_files as merging
from headrace.spark import one_task, tables
from headrace.spark.actions import append_files
from headrace.spark.frames import local_frame
from headrace.spark.merge import upsert
from headrace.spark.merge_files import merge_files
from headrace.spark.newest import Followed
from headrace.spark.one_task import report_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

COLUMNS = "name STRING, day DATE, n BIGINT, exact DECIMAL(10,2), at STRUCT<ms: BIGINT, topic: STRING>"
IDENTITY = ("day", "name")
NUMBERS = {"Copied", "Updated", "Deleted", "Inserted"}
FED = {merging.FEED: "true"}


def table(spark: SparkSession, path: str, **properties: str) -> Followed:
    schema = local_frame(spark, [], COLUMNS).schema
    tables.create(spark, path, schema, properties)
    one_task.settings(spark)
    return Followed(spark, path, schema)


def changes(spark: SparkSession, random: Random, rows: int) -> DataFrame:
    """Some of a few identities, each once."""
    made = {}
    for number in range(rows):
        day = f"2024-05-0{random.randrange(1, 4)}"
        at = None if random.random() < 0.2 else (number, random.choice(["t", None]))
        amount = None if number % 5 == 0 else f"{number}.25"
        made[random.choice("abcdef"), day] = (number, amount, at, random.random() < 0.3)
    given = [(name, day, *values) for (name, day), values in made.items()]
    types = "name STRING, day STRING, n BIGINT, exact STRING, at STRUCT<ms: BIGINT, topic: STRING>"
    frame = local_frame(spark, given, f"{types}, __deleted BOOLEAN")
    cast = {"day": F.col("day").cast("date"), "exact": F.col("exact").cast("decimal(10,2)")}
    return frame.withColumns(cast)


def rows(spark: SparkSession, path: str) -> list[str]:
    return sorted(map(str, tables.read(spark, path).collect()))


def feed(spark: SparkSession, path: str) -> list[str]:
    read = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1)
    return sorted(map(str, read.load(path).drop("_commit_timestamp").collect()))


def said(spark: SparkSession, path: str) -> list[dict[str, str]]:
    """What the history says was done to rows, merge by merge."""
    commits = DeltaTable.forPath(spark, path).history().where("operation = 'MERGE'").orderBy("version")
    counted = [commit["operationMetrics"] for commit in commits.collect()]
    return [{name: of.get(f"numTargetRows{name}", "0") for name in NUMBERS} for of in counted]


@pytest.mark.parametrize("fed", [True, False])
def test_arrow_merges_as_delta_does(spark: SparkSession, tmp_path: Path, *, fed: bool) -> None:
    arrow, delta = f"file:{tmp_path}/arrow", f"file:{tmp_path}/delta"
    followed = table(spark, arrow, **(FED if fed else {}))
    table(spark, delta, **(FED if fed else {}))
    random = Random(3)
    for number, size in enumerate((12, 3, 0, 20, 1, 8)):
        change = changes(spark, random, size)
        record = {"writer": "test", "batch": number}
        upsert(spark, delta, change, IDENTITY, record)
        assert merge_files(followed, change, IDENTITY, record)
        last = tables.last_commit(spark, arrow, "test")
        assert last is not None
        assert last.record == record
        assert rows(spark, arrow) == rows(spark, delta) != []
    if fed:
        assert feed(spark, arrow) == feed(spark, delta)
    # Delta counts what it copies by the files that it chooses, which are others.
    counted = [{**of, "Copied": ""} for of in said(spark, arrow)]
    assert counted == [{**of, "Copied": ""} for of in said(spark, delta)]
    assert len(counted) == 6


def test_files_without_a_changed_row_stay(spark: SparkSession, tmp_path: Path) -> None:
    path = f"file:{tmp_path}/table"
    followed = table(spark, path)
    one, other = (
        local_frame(spark, [(name, None, 1, None, None)], COLUMNS).withColumn(
            "day", F.lit("2024-05-01").cast("date")
        )
        for name in "ab"
    )
    for frame in (one, other):
        assert merge_files(
            followed, frame.withColumn("__deleted", F.lit(False)), IDENTITY, {"writer": "test"}
        )
    assert len(before := followed.files()) == 2
    assert merge_files(followed, one.withColumn("__deleted", F.lit(True)), IDENTITY, {"writer": "test"})
    assert followed.files().keys() < before.keys()
    assert [row["name"] for row in tables.read(spark, path).collect()] == ["b"]


def test_what_others_commit_meanwhile_or_is_not_certain_is_deltas(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"file:{tmp_path}/table"
    followed, random = table(spark, path, **FED), Random(5)
    upsert(spark, path, changes(spark, random, 9), IDENTITY, {"writer": "test"}, followed)
    change = changes(spark, random, 9)

    def overtaken(*arguments: Any) -> Any:
        append_files(spark, path, [], {"writer": "another"})
        return report_of(*arguments)

    for of, name, value in (
        (merging, "report_of", overtaken),
        (merging, "report_of", lambda *_: {"uncertain": "a test"}),
        (merging, "ONE_TASK_BYTES", 0),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(of, name, value)
            assert not merge_files(followed, change, IDENTITY, {"writer": "test"})
    folder = tmp_path / "table"
    named = {
        file
        for commit in range(tables.latest_version(spark, path) + 1)
        for file in _named(spark, path, commit)
    }
    there = {
        str(file.relative_to(folder)) for file in folder.rglob("*.parquet") if "_delta_log" not in str(file)
    }
    assert there <= named
    upsert(spark, path, change, IDENTITY, {"writer": "test"}, followed)
    assert len(rows(spark, path)) > 1


def _named(spark: SparkSession, path: str, version: int) -> list[str]:
    actions = tables.found_actions(spark, path, version) or []
    return [action[kind]["path"] for action in actions for kind in ("add", "cdc") if kind in action]

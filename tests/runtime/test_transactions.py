"""Commits by transactions that begin with the snapshot that Delta has: what they leave is what Delta's own writer leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from delta.tables import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql.types import StructType

from headrace.spark import tables
from headrace.spark.actions import append_rows
from headrace.spark.frames import local_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = StructType().add("at", "long").add("the name", "string")
SAID = ("operation", "operationParameters", "isBlindAppend", "operationMetrics")


@pytest.fixture
def path(spark: SparkSession, tmp_path: Path) -> str:
    path = f"file:{tmp_path}/table"
    tables.create(spark, path, SCHEMA)
    return path


def rows(*at: int) -> list[tuple[int, str]]:
    return [(number, f"name {number}") for number in at]


def test_rows_are_appended_as_by_deltas_writer(spark: SparkSession, path: str) -> None:
    frame = local_frame(spark, rows(1, 2), SCHEMA).coalesce(1)
    append_rows(frame, path, {"writer": "test"})
    frame.write.format("delta").mode("append").option("userMetadata", '{"writer": "test"}').save(path)
    append_rows(frame.limit(0), path, {"writer": "nothing"})

    found = sorted(map(tuple, tables.read(spark, path).collect()))
    assert found == sorted(2 * rows(1, 2))
    nothing, writer, ours, _ = DeltaTable.forPath(spark, path).history().collect()
    assert {name: ours[name] for name in SAID} == {name: writer[name] for name in SAID}
    assert ours["userMetadata"] == writer["userMetadata"]
    assert nothing["operationMetrics"]["numOutputRows"] == "0"
    last = tables.last_commit(spark, path, "nothing")
    assert last is not None
    assert last.version == 3


@pytest.mark.parametrize(
    "columns", [("'one' AS at", "'x' AS `the name`"), ("id AS at", "'x' AS `the name`", "1 AS more")]
)
def test_other_columns_are_refused(spark: SparkSession, path: str, columns: tuple[str, ...]) -> None:
    with pytest.raises(AnalysisException):
        append_rows(spark.range(1).selectExpr(*columns), path, {"writer": "test"})
    assert tables.latest_version(spark, path) == 0


def test_what_another_process_commits_is_seen_before_the_next_commit(spark: SparkSession, path: str) -> None:
    append_rows(local_frame(spark, rows(1), SCHEMA).coalesce(1), path, {"writer": "test"})
    did = tables.found_actions(spark, path, 1) or []
    (name,) = [action["add"]["path"] for action in did if "add" in action]
    gone = {"path": name, "deletionTimestamp": 1, "dataChange": True}
    said = {
        "timestamp": 1,
        "operation": "DELETE",
        "operationParameters": {},
        "userMetadata": '{"writer": "another"}',
    }
    actions = [{"commitInfo": said}, {"remove": gone}]
    commit = Path(path.removeprefix("file:"), "_delta_log", f"{2:020d}.json")
    commit.write_text("".join(json.dumps(action) + "\n" for action in actions))

    assert int(tables.newest_snapshot(spark, path).version()) == 2
    append_rows(local_frame(spark, rows(3), SCHEMA).coalesce(1), path, {"writer": "test"})
    assert [row["at"] for row in tables.read(spark, path).collect()] == [3]
    assert tables.latest_version(spark, path) == 3

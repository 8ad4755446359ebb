"""What is read of a table by the files that its commits name is what Delta reads, whatever the commits did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from delta.tables import DeltaTable

from headrace.spark import newest, tables
from headrace.spark.actions import append_rows
from headrace.spark.frames import local_frame
from headrace.spark.newest import pinned, read_table

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
SCHEMA = "id BIGINT, name STRING"


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(map(tuple, frame.collect()))


def asks_delta(frame: DataFrame) -> bool:
    """Whether Delta has to say which files there are."""
    return "PreparedDeltaFileIndex" in frame._jdf.queryExecution().executedPlan().toString()


@pytest.mark.parametrize("commits_max", [newest.NEWEST, 3], ids=["few commits", "many commits"])
def test_at_every_version_the_rows_are_those_of_delta(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commits_max: int
) -> None:
    monkeypatch.setattr(newest, "NEWEST", commits_max)
    path = f"file:{tmp_path}/a table"
    tables.create(spark, path, local_frame(spark, [], SCHEMA).schema)
    for number in range(2):
        added = [(2 * number, "old"), (2 * number + 1, "old")]
        append_rows(local_frame(spark, added, SCHEMA).coalesce(1), path, {"writer": "test"})
    table = DeltaTable.forPath(spark, path)
    table.update("id = 1", {"name": "'new'"})
    table.delete("id = 2")
    table.optimize().executeCompaction()
    newest_version = tables.latest_version(spark, path)
    assert newest_version == 5
    for version in range(newest_version + 1):
        wanted = rows(tables.read(spark, path, version))
        for read in (read_table, pinned):
            assert rows(read(spark, path, version)) == wanted
        assert asks_delta(read_table(spark, path, version)) == (version >= commits_max)
    assert rows(read_table(spark, path)) == [(0, "old"), (1, "new"), (3, "old")]

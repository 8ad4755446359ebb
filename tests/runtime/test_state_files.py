"""Which files of its state a micro-batch reads."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace.lake import DataFile
from headrace.operators.columnar import TableFiles
from headrace.runtime.backfill import Backfill
from headrace.runtime.columnar import ColumnarRunner
from headrace.runtime.views import Views
from headrace.spark import lake_rows
from headrace.spark.one_task import NotCertainError
from tests.runtime.line import Line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.runtime.lake import Lake

pytestmark = pytest.mark.spark

WINDOWS = (
    hr.Topic("readings", key="sensor_id STRING", value="sensor_id STRING, value DOUBLE", idle_timeout=None)
    .group_by("sensor_id")
    .window(hr.tumbling("2 minutes"), grace="2 minutes")
    .aggregate(n=hr.count(), total=hr.sum("value"))
    .suppress(hr.until_window_closes())
    .named("final")
)


def test_of_the_files_that_are_held_those_that_may_have_rows_are_read_alone(tmp_path: Path) -> None:
    rows = pa.table({"__pane": pa.array([10, 20, 30]), "n": pa.array([1, 2, 3])})
    pq.write_table(rows, tmp_path / "there")
    files = {
        "gone": DataFile(60, 1, {"__pane": 0}, {"__pane": 9}),
        "there": DataFile(60, 3, {"__pane": 10}, {"__pane": 30}),
        "gone, too": DataFile(60, 1, {"__pane": 31}),
    }
    held = TableFiles(str(tmp_path), rows.schema, files, 100)
    assert held.within("__pane", 20, 30, ["__pane", "n"]).to_pydict() == {"__pane": [20, 30], "n": [2, 3]}
    assert DataFile(1).may_have("__pane", 1, 1)
    with pytest.raises(FileNotFoundError):
        held.within("__pane", 9, 9, ["__pane", "n"])
    with pytest.raises(NotCertainError, match="more of the state"):
        held.within("__pane", 9, 10, ["__pane", "n"])


def test_of_a_part_its_groups_of_rows_are_read_alone_and_of_all_rows_those_that_match(tmp_path: Path) -> None:
    schema = pa.schema([("__batch", pa.int64()), ("__part", pa.string()), ("n", pa.int64())])
    with pq.ParquetWriter(tmp_path / "file", schema) as writer:
        for part, numbers in (("left", [1, 2]), ("right", [3, 4])):
            rows = {"__batch": [5, 6], "__part": [part, part], "n": numbers}
            writer.write_table(pa.table(rows, schema))
    table = TableFiles(str(tmp_path), schema, {"file": DataFile(60)}, 100)
    assert table.within("__batch", 6, 9, ["n"], part="right").to_pydict() == {"n": [4]}
    assert table.within("__batch", 1, 9, ["n"], part="middle").to_pydict() == {"n": []}
    assert table.matching(["__part", "n"], [pa.array(["left", "right"]), pa.array([2, 9])]).to_pylist() == [
        {"__batch": 6, "__part": "left", "n": 2}
    ]


def test_windows_that_close_read_the_files_of_their_panes_alone(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, of_files = Line(spark, lake, WINDOWS), lake_rows.rows_of_files
    read: list[int] = []

    def counted(spark: SparkSession, paths: Iterable[str], schema: Any) -> DataFrame:
        names = [*paths]
        if names and names[0].startswith(lake.state("final")):
            read.append(len(names))
        return of_files(spark, names, schema)

    monkeypatch.setattr(lake_rows, "rows_of_files", counted)
    monkeypatch.setattr(ColumnarRunner, "fold", lambda *_: None)
    for minute in (0, 1, 1, 2, 3, 3, 3, 4, 5, 6):  # of minutes 0 and 1 three files, of 2 and 3 four
        line.pipe(f"2024-05-01 12:{minute:02}:00", "s1", 0.1)
        line.commit()
        line.fold()
    assert read == [3, 4]
    assert [row["n"] for row in Views(spark, lake).read(WINDOWS).orderBy("window_start").collect()] == [3, 4]
    assert all(verdict.equal for verdict in Backfill(spark, lake, WINDOWS).run())

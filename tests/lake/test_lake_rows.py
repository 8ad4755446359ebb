"""Rows between Spark and the lake: what is read by the files of a snapshot is what Delta reads, by no more files than need be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from headrace import lake as lakes
from headrace.errors import TerminalError
from headrace.lake.care.upkeep import not_outweighed
from headrace.spark import lake_rows
from headrace.spark.frames import local_frame
from headrace.spark.lake_rows import (
    append_rows,
    overwrite,
    read,
    read_between,
    read_table,
    rewrite,
)
from headrace.spark.one_task import arrow_schema

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from headrace.lake import TableWriter

pytestmark = pytest.mark.spark
SCHEMA = "at BIGINT, `the name` STRING, tags MAP<STRING, INT>"


@pytest.fixture
def writer(spark: SparkSession, tmp_path: Path) -> TableWriter:
    schema = arrow_schema(local_frame(spark, [], SCHEMA).schema)
    return lakes.TableWriter(lakes.create(f"file:{tmp_path}/a table", schema), lakes.APPENDER)


def put(spark: SparkSession, writer: TableWriter, *ats: int | None) -> None:
    values: list[tuple[Any, ...]] = [(at, f"name {at}", {"at": at}) for at in ats]
    append_rows(writer, local_frame(spark, values, SCHEMA).coalesce(1), {"writer": "test"})


def rows(frame: DataFrame) -> list[str]:
    return sorted(map(str, frame.collect()))


def numbers(frame: DataFrame) -> list[Any]:
    return sorted((row["at"] for row in frame.collect()), key=repr)


def test_each_version_is_read_as_delta_reads_it(spark: SparkSession, writer: TableWriter) -> None:
    for at in range(4):
        put(spark, writer, at)
    rewrite(spark, writer, F.col("at") == 2, {"writer": "test"})
    overwrite(writer, read(spark, writer.uri).where("at > 0"), {"writer": "test"})
    table = lakes.open_table(writer.uri)
    assert numbers(read_table(spark, writer.uri)) == [1, 3]
    by_delta = [rows(read(spark, writer.uri, version)) for version in range(table.version + 1)]
    assert [rows(read_table(spark, writer.uri, version)) for version in range(table.version + 1)] == by_delta
    lakes.forget()  # as another process, which remembers no version
    assert [rows(read_table(spark, writer.uri, version)) for version in range(table.version + 1)] == by_delta


def test_files_without_rows_that_are_asked_for_are_left_out(
    spark: SparkSession, writer: TableWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    for ats in ((1, 5), (6, 7), (None,), (3, 9)):
        put(spark, writer, *ats)
    table, schema = lakes.open_table(writer.uri), read(spark, writer.uri).schema
    found = read_between(spark, table, schema, "at", 6, None)
    assert (numbers(found), len(found.inputFiles())) == ([7, 9], 3), (
        "a file without statistics has to be read"
    )
    assert numbers(read_between(spark, table, schema, "at", 5, 7)) == [6, 7]
    monkeypatch.setattr(lake_rows, "LOCAL_FILES_MAX", 1)  # more files than are read by name are read by Delta
    assert numbers(read_between(spark, table, schema, "at", 5, 7)) == [6, 7]
    assert rows(read_table(spark, writer.uri)) == rows(read(spark, writer.uri))


def test_rows_are_deleted_or_changed_and_other_files_stay(spark: SparkSession, writer: TableWriter) -> None:
    for ats in ((1, 2), (3, 4), (5,)):
        put(spark, writer, *ats)
    table = lakes.open_table(writer.uri)
    before = set(table.snapshot().files)
    assert rewrite(spark, writer, F.col("at") >= 4, {"writer": "test"}) == 2
    assert numbers(read(spark, writer.uri)) == [1, 2, 3]
    assert len(before & set(table.snapshot().files)) == 1, "the file that held no such row"
    changed = {"the name": F.lit("changed"), "at": F.col("at") * 10}
    assert rewrite(spark, writer, F.col("at") == 2, {"writer": "test"}, changed) == 1
    assert sorted(map(tuple, read(spark, writer.uri).select("at", "the name").collect())) == [
        (1, "name 1"),
        (3, "name 3"),
        (20, "changed"),
    ]
    version = table.version
    assert rewrite(spark, writer, F.col("at") == 99, {"writer": "test"}) == 0
    assert table.version == version, "nothing to do, nothing committed"


@pytest.mark.parametrize(
    "columns", ["'one' AS at, 'x' AS `the name`", "id AS at, 'x' AS `the name`, 1 AS more"]
)
def test_other_columns_are_refused(spark: SparkSession, writer: TableWriter, columns: str) -> None:
    version = lakes.open_table(writer.uri).version
    with pytest.raises(TerminalError, match="other columns"):
        append_rows(writer, spark.range(1).selectExpr(*columns.split(", ")), {"writer": "test"})
    assert lakes.open_table(writer.uri).version == version


def test_a_frame_without_rows_still_commits_its_record(spark: SparkSession, writer: TableWriter) -> None:
    version = append_rows(writer, local_frame(spark, [], SCHEMA), {"writer": "nothing"})
    last = lakes.last_commit(lakes.open_table(writer.uri), "nothing")
    assert last is not None
    assert last.version == version


@pytest.mark.parametrize(
    ("rows", "merged"),
    [
        ({}, []),
        ({"one": 5}, []),
        ({"a": 5, "b": 5, "c": 4}, ["c", "a", "b"]),
        ({"large": 11, "a": 5, "b": 5}, ["a", "b"]),
        ({"large": 10, "a": 5, "b": 5}, ["a", "b", "large"]),
        ({"huge": 900, "large": 11, "a": 5, "b": 5}, ["a", "b"]),
    ],
)
def test_a_file_is_merged_with_as_many_rows_as_it_has(rows: dict[str, int], merged: list[str]) -> None:
    assert not_outweighed(rows) == merged

"""A table that is followed commit by commit: what is read of it is what Delta reads, by no more files than need be."""

from __future__ import annotations

import shutil
import threading
from typing import TYPE_CHECKING

import pytest
from delta.tables import DeltaTable

from headrace.spark import newest, tables
from headrace.spark.actions import append_rows
from headrace.spark.frames import local_frame
from headrace.spark.newest import Followed, not_outweighed

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
SCHEMA = "at BIGINT, name STRING"


@pytest.fixture
def path(spark: SparkSession, tmp_path: Path) -> str:
    path = f"file:{tmp_path}/state"
    tables.create(spark, path, local_frame(spark, [], SCHEMA).schema)
    return path


def put(spark: SparkSession, path: str, *ats: int | None) -> None:
    rows = [(at, "some") for at in ats]
    append_rows(local_frame(spark, rows, SCHEMA).coalesce(1), path, {"writer": "test"})


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(map(tuple, frame.collect()), key=repr)


def test_files_without_rows_that_are_asked_for_are_left_out(spark: SparkSession, path: str) -> None:
    followed = Followed(spark, path, tables.read(spark, path).schema)
    for ats in ((1, 5), (6, 7), (None,), (3, 9)):
        put(spark, path, *ats)
        assert rows(followed.read()) == rows(tables.read(spark, path))
    found = followed.read("at", 7)
    assert rows(found) == rows(tables.read(spark, path).where("at in (3, 6, 7, 9) or at is null"))
    assert len(found.inputFiles()) == 3, "a file whose statistics do not say has to be read"
    DeltaTable.forPath(spark, path).delete("at >= 7")
    assert rows(followed.read("at", 6).where("at >= 6")) == [(6, "some")]


def test_of_files_that_delta_lists_the_statistics_are_known_too(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(newest, "NEWEST", 1)
    for ats in ((1, 5), (6, 7), (3, 9)):
        put(spark, path, *ats)
    followed = Followed(spark, path, tables.read(spark, path).schema)
    assert rows(followed.read()) == rows(tables.read(spark, path))
    version, names, found = followed.to_merge("at", 8, whole=False)
    assert (version, len(names)) == (3, 2)
    assert rows(found) == [(at, "some") for at in (1, 5, 6, 7)]


def test_more_files_than_are_read_by_name_are_read_through_delta(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed = Followed(spark, path, tables.read(spark, path).schema)
    for at in range(4):
        put(spark, path, at)
        followed.now()
    monkeypatch.setattr(newest, "LOCAL_FILES_MAX", 1)
    assert rows(followed.read("at", 2)) == [(2, "some"), (3, "some")]
    assert rows(followed.read("at", 3)) == [(3, "some")]


def test_a_table_as_it_was_at_a_version_is_that_also_when_others_have_packed_it(
    spark: SparkSession, path: str
) -> None:
    followed = Followed(spark, path, tables.read(spark, path).schema)
    for at in range(3):
        put(spark, path, at)
    newest_yet = followed.pinned(3)
    DeltaTable.forPath(spark, path).delete("at = 1")
    DeltaTable.forPath(spark, path).optimize().executeCompaction()
    assert rows(newest_yet) == [(at, "some") for at in range(3)]
    for version in range(tables.latest_version(spark, path) + 1):
        assert rows(followed.pinned(version)) == rows(tables.read(spark, path, version))


def test_appends_and_packing_go_on_side_by_side(spark: SparkSession, path: str) -> None:
    followed = Followed(spark, path, tables.read(spark, path).schema)
    for at in range(6):
        put(spark, path, at)
    packing = threading.Thread(target=DeltaTable.forPath(spark, path).optimize().executeCompaction)
    packing.start()
    for at in range(6, 10):
        put(spark, path, at)
        assert rows(followed.read()) == [(at, "some") for at in range(at + 1)]
    packing.join()
    assert rows(followed.read()) == rows(tables.read(spark, path)) == [(at, "some") for at in range(10)]
    assert len(followed.read().inputFiles()) < 10, "packed"


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


def test_another_table_at_the_place_of_one_that_was_looked_at_begins_anew(
    spark: SparkSession, path: str, tmp_path: Path
) -> None:
    for at in range(3):
        put(spark, path, at)
    assert tables.latest_version(spark, path) == 3
    shutil.rmtree(tmp_path / "state")
    assert tables.latest_version(spark, path) == -1
    assert not tables.exists(spark, path)
    tables.create(spark, path, local_frame(spark, [], SCHEMA).schema)
    assert tables.latest_version(spark, path) == 0
    put(spark, path, 1)
    assert tables.latest_version(spark, path) == 1

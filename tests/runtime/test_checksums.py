"""Sums over rows tell tables apart, whatever their columns hold, and depend on nothing but the rows."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from headrace.spark.checksums import checksums

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "day INT, a STRING, b STRING, n DECIMAL(9, 2), texts ARRAY<STRING>, more ARRAY<STRUCT<x: INT, y: ARRAY<INT>>>"
NAMES = ("day", "a", "b", "n", "texts", "more")
ROW = (1, "a", "b", Decimal("1.50"), ["x", "y"], [(1, [1]), (2, [2, 3])])
OTHERS: tuple[dict[str, Any], ...] = (
    {"a": "ab", "b": ""},
    {"a": None, "b": "a"},
    {"a": "b", "b": "a"},
    {"n": Decimal("1.51")},
    {"n": None},
    {"texts": ["x, y"]},
    {"texts": ["y", "x"]},
    {"texts": ["x", None, "y"]},
    {"texts": None},
    {"texts": []},
    {"more": [(1, [1, 2]), (2, [3])]},
    {"more": [(1, [1]), (None, [2, 3])]},
    {"more": [(1, [1]), None]},
    {"more": [(1, [1]), (2, None)]},
)


def sums(spark: SparkSession, *rows: tuple[Any, ...]) -> Any:
    """The checksums by day."""
    frame = spark.createDataFrame(list(rows), COLUMNS)
    return checksums(frame, frame.columns, F.col("day"))


def test_rows_that_differ_anywhere_have_different_sums(spark: SparkSession) -> None:
    """Among them those that Spark's hash alone takes for equal: nulls, and bounds of arrays."""
    rows = [dict(zip(NAMES, ROW, strict=True)) | other for other in ({}, *OTHERS)]
    frame = spark.createDataFrame([(day, *[*row.values()][1:]) for day, row in enumerate(rows)], COLUMNS)
    found = checksums(frame, NAMES[1:], F.col("day"))
    assert len(found) == len(rows)
    assert len({*found.values()}) == len(rows)


def test_the_order_of_rows_does_not_count_and_their_number_does(spark: SparkSession) -> None:
    """One day's sums say nothing about another's."""
    other = (2, *ROW[1:])
    assert sums(spark, ROW, other, ROW) == sums(spark, other, ROW, ROW)
    assert sums(spark, ROW, other)[1] != sums(spark, ROW, ROW, other)[1]
    assert sums(spark, ROW, other)[2] == sums(spark, ROW, ROW, other)[2]


def test_a_part_without_rows_has_no_sum(spark: SparkSession) -> None:
    """Its days are told by the other side."""
    with pytest.raises(KeyError):
        sums(spark, ROW)[2]

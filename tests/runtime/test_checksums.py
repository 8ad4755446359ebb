"""Sums over rows tell tables apart, whatever their columns hold, and depend on nothing but the rows."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from headrace.spark.rows.checksums import checksums
from headrace.spark.rows.comparable import comparable_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

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


VALUES: tuple[tuple[str, Sequence[str]], ...] = (
    ("FLOAT", ("0.0F", "-1.5F", "FLOAT('NaN')", "FLOAT('Infinity')", "NULL")),
    ("DOUBLE", ("0.0D", "-1.5D", "DOUBLE('NaN')", "NULL")),
    ("ARRAY<DOUBLE>", ("array(0.0D)", "array(DOUBLE('NaN'))", "array(NULL)", "array()", "NULL")),
    ("BINARY", ("X''", "X'00'", "X'0000'", "NULL")),
    ("TIMESTAMP", ("TIMESTAMP '2024-05-01 12:00:00Z'", "TIMESTAMP '2024-05-01 12:00:00.000001Z'", "NULL")),
    ("STRUCT<x: INT, y: INT>", ("struct(1, NULL)", "struct(NULL, 1)", "struct(NULL, NULL)", "NULL")),
    ("MAP<STRING, INT>", ("map('a', 1)", "map('a', NULL)", "map('a', 1, 'b', 2)", "map()", "NULL")),
)
EQUAL = (
    ("DOUBLE", "0.0D", "-0.0D"),
    ("ARRAY<DOUBLE>", "array(0.0D)", "array(-0.0D)"),
    ("MAP<STRING, INT>", "map('a', 1, 'b', 2)", "map('b', 2, 'a', 1)"),
)


def test_values_of_each_type_are_told_apart_as_comparisons_tell_them(spark: SparkSession) -> None:
    """One row for each value: all of them differ but those that Spark's comparisons and the kernel take for equal."""
    cases = [(of, value) for of, values in VALUES for value in values]
    cases += [(of, value) for of, *values in EQUAL for value in values]
    types = [of for of, _ in VALUES]
    rows = ", ".join(
        f"({number}, {', '.join(value if of == each else 'NULL' for each in types)}, '{of}')"
        for number, (of, value) in enumerate(cases)
    )
    cast = (f"CAST(c{number} AS {of}) AS c{number}" for number, of in enumerate(types))
    names = ", ".join(f"c{number}" for number in range(len(types)))
    frame = spark.sql(f"SELECT day, {', '.join(cast)}, of FROM VALUES {rows} AS t(day, {names}, of)")
    found = checksums(comparable_rows(frame), frame.columns[1:], F.col("day"))
    sums = [found[number] for number in range(len(cases))]
    apart = sum(len(values) for _, values in VALUES)
    assert len({*sums[:apart]}) == apart
    assert sums[apart::2] == sums[apart + 1 :: 2]

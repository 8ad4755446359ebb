"""Units, types, functions and operators as they are written: what is accepted, Spark reads alike; the rest is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.description.expressions import parse_expression
from headrace.description.units_of_time import OF_INTERVALS, PARTS, TRUNCATED
from tests.description.refusal import refused
from tests.expressions.boundary_rows import boundary_rows
from tests.expressions.compared import Difference, compared, term_of
from tests.expressions.spark_answers import answers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES = (
    *("BOOLEAN", "TINYINT", "BYTE", "SMALLINT", "SHORT", "INT", "INTEGER", "BIGINT", "LONG", "FLOAT", "REAL"),
    *("DOUBLE", "STRING", "DECIMAL", "DEC(9, 2)", "NUMERIC(9, 2)", "VARCHAR(9)", "CHAR(9)"),
)
OF_TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ")
ACCEPTED = [
    *(f"date_trunc('{unit}', ts)" for unit in TRUNCATED),
    *(f"extract({part} FROM ts)" for part in PARTS),
    *(f"date_part('{part}', ts)" for part in PARTS),
    *(f"ts + INTERVAL 1 {unit}" for unit in OF_INTERVALS),
    *(f"ts - INTERVAL '-1' {unit}" for unit in OF_INTERVALS),
    *(f"ts + INTERVAL '1 {unit.lower()}'" for unit in OF_INTERVALS),
    "ts + INTERVAL 1 DAY 2 HOURS", "ts + INTERVAL '1 day 2 hours'", "ts + INTERVAL '1:30' HOUR TO MINUTE",
    *(f"CAST(i AS {of})" for of in TYPES), *(f"TRY_CAST(i AS {of})" for of in TYPES), *(f"i::{of}" for of in TYPES),
    *(f"CAST(ts AS {of})" for of in OF_TIMES), "day::timestamp::date", "-i::bigint",
    "CAST(ar AS ARRAY<STRING>)", "ar::array<bigint>[0]", "CAST(m AS MAP<STRING, DOUBLE>)",
    "CAST(i AS STRING COLLATE UTF8_LCASE)",
    "CAST(named_struct('text', i) AS STRUCT<text: BIGINT>)", "CAST(CAST(i AS BIGINT) AS STRING)",
    "f IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, NULL)", "substring(s, -2147483648)", "substring(s, -2147483647)", "DATE '0000-01-01'",
    "127Y", "-128Y", "32767S", "1L", "1.5F", "1D", "1.5BD", "DATE '2024-01-29'", "TIMESTAMP '2024-01-29 01:02:03'",
    "TIMESTAMP_NTZ '2024-01-29 01:02:03'", "i BETWEEN 1 AND 10", "i IN (1, (2))", "trim(BOTH FROM (s))", "NOT (b)",
]  # fmt: skip


@pytest.mark.fast
@pytest.mark.parametrize(
    "sql",
    [
        *(f"date_trunc('{unit}', ts)" for unit in ("D", "H", "M", "S", "W", "Q", "Y", "MS", "DAYS", " day", "decade")),
        *(f"extract({unit} FROM ts)" for unit in ("WEEKDAY", "DAYOFYEAR")),
        *(f"ts + INTERVAL 1 {unit}" for unit in ("D", "M", "H", "S", "US", "QUARTER", "`day`")),
        *("ts + INTERVAL '5' M", "ts + INTERVAL '1 h'", "ts - INTERVAL '1 day 2 m'", "ts + INTERVAL 1 DAY 2 H"),
        "ts + INTERVAL -1 D",
    ],
)  # fmt: skip
def test_units_of_other_dialects_are_refused(sql: str) -> None:
    """Before, `INTERVAL 1 M` was a minute, and `date_trunc('M', …)` a minute or null, by how the log was cut."""
    with refused("where", "is no unit of time"):
        parse_expression(sql, "where")


@pytest.mark.fast
@pytest.mark.parametrize(
    "of",
    [
        *("INT8", "INT4", "INT2", "INT64", "FLOAT8", "TEXT", "BOOL", "CLOB", "NUMBER(10, 1)", "TIMESTAMPTZ"),
        *("DOUBLE PRECISION", "DECIMAL(39, 1)", "INT[]", "ARRAY<INT8>", "MAP<TEXT, INT>", "STRUCT<a: BOOL>"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "cast", ["CAST(x AS {})", "TRY_CAST(x AS {})", "x::{}", "CAST(CAST(x AS {}) AS STRING)"]
)
def test_types_of_other_dialects_are_refused(of: str, cast: str) -> None:
    """Before, Arrow computed such casts, until the first record that needed Spark stopped the node."""
    with refused("where: the type of a cast"):
        parse_expression(cast.format(of), "where")


@pytest.mark.fast
@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("v BETWEEN SYMMETRIC 10 AND 1", "v BETWEEN least(10, 1) AND greatest(10, 1)"),
        ("v BETWEEN ASYMMETRIC 1 AND 10", "BETWEEN"),
        ("iif(b, 1, 2)", "no function iif"),
        ("starts_with(s, 'a')", "Did you mean 'startswith'?"),
        ("`list`(s)", "no function"),
        ("TIMESTAMPTZ '2024-01-29 01:02:03'", "CAST('2024-01-29 01:02:03' AS"),
        ("INT8 '5'", "before a text"),
        ("v ?? 1", "coalesce"),
        ("array[0] = 1", "`array`[…]"),
        ("128Y = v", "out of range"),
        ("-129Y = v", "out of range"),
    ],
)
def test_words_of_other_dialects_are_refused(sql: str, words: str) -> None:
    """Before, BETWEEN SYMMETRIC was a plain BETWEEN, and Spark's refusal of the others came with a record."""
    with refused("where", words):
        parse_expression(sql, "where")


@pytest.mark.fast
@pytest.mark.parametrize(
    "sql", [*ACCEPTED, "interval - 5 > 3", "interval > 3", "text = 'a'", "date > 'x'", "`array`[0]"]
)
def test_words_of_spark_are_accepted(sql: str) -> None:
    assert parse_expression(sql, "where").sql == sql


@pytest.mark.spark
def test_what_is_accepted_spark_reads_alike(spark: SparkSession) -> None:
    rows, answered, differences = boundary_rows(), set[str](), list[str]()
    for text, theirs in answers(spark, rows, ACCEPTED):
        answered.add(text)
        try:
            compared(text, rows, theirs)
        except Difference as difference:
            differences.append(difference.words)
    assert differences == []
    # What Spark leaves out raises for a row of the boundary, so no value was computed without it either.
    assert [text for text in ACCEPTED if text not in answered and _is_covered(text)] == []


def _is_covered(text: str) -> bool:
    term = term_of(text)
    return term is not None and term.evaluate is not None

"""Texts that sqlglot reads in another way than Spark: their values are Spark's alone."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa
import pytest

import headrace as hr
from headrace.description.expressions import syntax_tree
from headrace.expressions import Rows, SparkNeededError, term_of

pytestmark = pytest.mark.fast
COLUMNS = {
    "f": pa.float32(),
    "s": pa.string(),
    "a": pa.list_(pa.int32()),
    "ts": pa.timestamp("us", "UTC"),
    "b": pa.int64(),
}


@pytest.mark.parametrize(
    "sql",
    [
        "'it''s'",  # Spark: it's; sqlglot: two texts
        "s = 'it''s'",
        "array_size(a)",  # null of null, unlike `size`; sqlglot has one word for both
        "date_trunc('DAYS', ts)",  # Spark knows no plural there, and gives null
        "f IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, NULL)",  # Spark: false of NaN in a list of more than ten; Arrow: null
        "f IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, CAST(NULL AS FLOAT))",
        "substring(s, -2147483648)",  # Spark: without the last letter
        "DATE '2024-W05-1'",  # Python: a week's day
        "DATE '２024-01-29'",
        "TIMESTAMP '2020-1-01  00:00:00'",
        "TIMESTAMP '2020-01-01T00:00:00'",
    ],
)
def test_its_type_is_known_and_its_value_is_not(sql: str) -> None:
    """Before, numbers in a long list with null, the least start, and odd dates had values of Arrow's and Python's."""
    term = term_of(syntax_tree(sql, "here"), COLUMNS)
    assert term is not None
    assert term.evaluate is None


@pytest.mark.parametrize(
    "sql",
    [
        "concat('it', 's')",
        "s || 'x'",
        "date_trunc('DAY', ts)",
        "cardinality(a)",
        "f IN (0, 1, NULL)",
        "b IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, NULL)",
        "substring(s, -2147483647)",
        "DATE '2024-02-29'",
        "TIMESTAMP '2020-01-01 00:00:00'",
    ],
)
def test_what_is_written_so_that_both_read_it_alike_is_evaluated(sql: str) -> None:
    term = term_of(syntax_tree(sql, "here"), COLUMNS)
    assert term is not None
    assert term.evaluate is not None


@pytest.mark.parametrize(
    "sql",
    [
        "datediff(ts)",
        "map(s)",
        "CAST(s AS DECIMAL(a))",
        " AND ".join(["b > 1"] * 900),
        "1e > b",
        "CAST(s AS INTERVAL DAY)",
    ],
)
def test_over_odd_calls_nobody_stumbles(sql: str) -> None:
    """They are refused in words, or left to Spark."""
    topic = hr.Topic("t", key="k STRING", value="s STRING, b BIGINT, ts TIMESTAMP")
    with suppress(hr.DescriptionError):
        topic.where(f"({sql}) IS NOT NULL").named("odd").fingerprint()


@pytest.mark.parametrize("sql", ["CAST(CAST(b AS FLOAT) AS DOUBLE)", "CAST(b AS FLOAT) % 1.5D"])
def test_a_cast_that_sparks_optimizer_may_drop_is_evaluated_where_it_loses_no_digit(sql: str) -> None:
    """Spark 4.1.3 gives 2147483647.0 and 1.0; by FLOATs they were 2147483648.0 and 0.5."""
    term = term_of(syntax_tree(sql, "here"), COLUMNS)
    assert term is not None
    term.over(Rows.of(pa.table({"b": pa.array([1 << 24, -3, None])})))
    with pytest.raises(SparkNeededError):
        term.over(Rows.of(pa.table({"b": pa.array([(1 << 31) - 1])})))

"""Names of columns that PostgreSQL takes only in quotes, or that mean something in a statement."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from pyspark.sql import functions as F

import headrace as hr
from headrace.description import quote
from tests.sinks.test_postgres_sink import delivery, held, made

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

ODD = "a`'\"b.c %s{};(x)\\$:SELECT"


def test_columns_may_have_odd_names(
    spark: SparkSession, database: psycopg.Connection, tmp_path: Path
) -> None:
    key, value, long = ODD, f"{ODD}%(x)s", "ü" * 31
    schema = f"{quote(key)} STRING, {quote(long)} INT, {quote(value)} STRUCT<{quote(ODD)}: INT>"
    sink, columns = hr.PostgresSink("odd_names"), (key, long, value)
    to = delivery(tmp_path, *columns, identity=(key, long))
    sink.deliver(made(spark, schema, [("a", 1, {ODD: 1}), ("b", 2, None)]), to)
    stored = (tuple(row[name] for name in columns) for row in held(database, "odd_names"))
    assert sorted(stored, key=itemgetter(1)) == [("a", 1, {ODD: 1}), ("b", 2, None)]
    gone = made(spark, schema, [("a", 1, None)], sequence=2).withColumn("__deleted", F.lit(True))
    sink.deliver(gone, to)
    sink.deliver(made(spark, schema, [("b", 2, {ODD: 3})], sequence=3), to)
    assert [tuple(row[name] for name in columns) for row in held(database, "odd_names")] == [
        ("b", 2, {ODD: 3})
    ]
    assert [tuple(row) for row in sink.identities(spark, to).collect()] == [("b", 2)]

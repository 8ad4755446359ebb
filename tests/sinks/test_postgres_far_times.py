"""Times before the year 1 and after 9999: PostgreSQL holds them, and writes them in another way than Spark."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.sinks.few_rows import MOMENT, Few

DAY_US = 86_400_000_000
# Days since 1970, and the date as PostgreSQL writes it.
DAYS = {
    0: "1970-01-01",
    (dt.date(1, 1, 1) - dt.date(1970, 1, 1)).days: "0001-01-01",
    (dt.date(1, 1, 1) - dt.date(1970, 1, 1)).days - 1: "0001-12-31 BC",
    (dt.date(1, 1, 1) - dt.date(1970, 1, 1)).days - 367: "0002-12-31 BC",
    -800_000: "0222-09-04 BC",
    -2_400_000: "4602-01-09 BC",
    (dt.date(9999, 12, 31) - dt.date(1970, 1, 1)).days: "9999-12-31",
    (dt.date(9999, 12, 31) - dt.date(1970, 1, 1)).days + 1: "10000-01-01",
    11_000_000: "32086-12-23",
}
TYPES = {"id": MOMENT, "local": pa.timestamp("us"), "day": pa.date32()}


@pytest.mark.spark
@pytest.mark.postgres
def test_far_times_are_held_and_are_identities_like_others(
    spark: SparkSession, database: psycopg.Connection, tmp_path: Path
) -> None:
    """Before, PostgreSQL refused them, because of a sign before the year."""
    few = Few("far", tmp_path, TYPES, ("id", "local", "day"))
    rows = [(day * DAY_US + 1, day * DAY_US + 1, day) for day in DAYS]
    few.put(*rows, (None, None, None))
    assert few.refused() == []
    texts = database.execute(
        "SELECT (id AT TIME ZONE 'UTC')::text, local::text, day::text FROM far WHERE day IS NOT NULL ORDER BY far.day"
    ).fetchall()
    for (moment, local, day), date in zip(texts, sorted(DAYS.items()), strict=True):
        assert day == date[1]
        assert moment == local == date[1].replace(" BC", "") + " 00:00:00.000001" + " BC" * ("BC" in date[1])
    micros = few.sink.identities(spark, few.delivery).selectExpr(
        "unix_micros(id)", "unix_micros(CAST(CAST(local AS STRING) || 'Z' AS TIMESTAMP))", "unix_date(day)"
    )
    assert {tuple(row) for row in micros.collect()} == {*rows, (None, None, None)}

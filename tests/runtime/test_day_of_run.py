"""No result depends on the day of the run: a text with a time of day alone is null, or what would read it is refused."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

import headrace as hr
from headrace.nodes.bound_operator import bound
from headrace.spark.row_steps import expression_of
from headrace.spark.session import pipeline_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.conftest import Drive

pytestmark = pytest.mark.spark

TOPIC = hr.Topic("texts", key="id STRING", value="t STRING, at TIMESTAMP, n BIGINT")
NOON = dt.datetime(2024, 5, 1, 12, 30)
TEXTS = {
    "12:30": None,
    "\t12:30": None,
    "T12:30": None,
    "1:2:3.5+02:00": None,
    "\x1f\x7f12:30": None,
    "2024-05-01 12:30": NOON,
    " 2024-05-01 12:30:00": NOON,
    "soon": None,
}
WRITTEN = (
    "CAST(t AS TIMESTAMP)",
    "try_cast(t AS TIMESTAMP_LTZ)",
    "timestamp(t)",
    "to_timestamp(t)",
    "try_to_timestamp(t)",
    "to_timestamp_ltz(t)",
    "CAST(concat(t, '') AS TIMESTAMP)",
    "get(transform(array(t), x -> CAST(x AS TIMESTAMP)), 0)",
    "coalesce(to_timestamp(upper(t)), CAST(t AS TIMESTAMP))",
)
HIDDEN = (
    "hour(t)",
    "at > t",
    "date_trunc('day', t)",
    "from_utc_timestamp(t, 'UTC')",
    "timestampadd(DAY, 1, t)",
    "t::TIMESTAMP",
    "CAST(array(t) AS ARRAY<TIMESTAMP>)",
    "from_json(t, 'a TIMESTAMP')",
    "from_csv(t, 'a TIMESTAMP')",
    "try_variant_get(try_parse_json(t), '$', 'timestamp')",
    "CAST(concat('to', 'day') AS TIMESTAMP)",
    "CAST(concat('to', 'day') AS DATE)",
)
ALLOWED = (
    "CAST(n AS TIMESTAMP)",
    "to_timestamp(t, 'HH:mm')",
    "at > TIMESTAMP '2024-05-01 00:00:00'",
    "CAST(at AS STRING)",
    "from_json(t, 'a TIMESTAMP', map('timestampFormat', 'HH:mm'))",
    "CAST(t AS DATE)",
)


def made(sql: str) -> hr.description.Node:
    return TOPIC.with_column("made", sql).named("made")


@pytest.mark.parametrize("sql", WRITTEN)
def test_a_time_of_day_alone_is_null_wherever_a_text_is_cast(spark: SparkSession, sql: str) -> None:
    rows = pipeline_session(spark).createDataFrame([(text,) for text in TEXTS], "t STRING")
    read = {row["t"]: row["made"] for row in rows.select("t", expression_of(sql).alias("made")).collect()}
    assert read == TEXTS
    bound(spark, made(sql))


@pytest.mark.parametrize("sql", HIDDEN)
def test_what_makes_a_time_of_a_text_without_a_word_is_refused(spark: SparkSession, sql: str) -> None:
    with pytest.raises(
        hr.DescriptionError, match=r"Node 'made': .*(makes a TIMESTAMP of a text|may spell a time)"
    ):
        bound(spark, made(sql))


@pytest.mark.parametrize("sql", ALLOWED)
def test_what_no_day_can_alter_is_taken(spark: SparkSession, sql: str) -> None:
    bound(spark, made(sql))


def test_a_function_of_a_transform_is_refused_too(spark: SparkSession) -> None:
    def parse(rows: DataFrame) -> DataFrame:
        return rows.withColumn("made", F.to_timestamp("t"))

    with pytest.raises(hr.DescriptionError, match="makes a TIMESTAMP of a text"):
        bound(spark, TOPIC.transform(parse, columns="made TIMESTAMP").named("parsed"))


@pytest.mark.fast
@pytest.mark.parametrize("sql", ["TIMESTAMP '12:30'", "at > TIMESTAMP'T12'", "CAST('12:30' AS TIMESTAMP)"])
def test_a_literal_without_a_date_is_refused_when_it_is_described(sql: str) -> None:
    with pytest.raises(hr.DescriptionError, match="is a time without a date"):
        TOPIC.with_column("made", sql)


def test_stream_and_backfill_agree_about_a_time_of_day(drive: Drive) -> None:
    node = TOPIC.select("id", "CAST(t AS TIMESTAMP) AS made").named("made")
    driver = drive(node)
    for text in TEXTS:
        driver.pipe("texts", key="k", value={"t": text}, timestamp_ms=1_000)
    driver.cut()
    rows = sorted((row["made"] and row["made"].replace(tzinfo=None) for row in driver.rows("made")), key=str)
    assert rows == sorted(TEXTS.values(), key=str)
    driver.check("made")

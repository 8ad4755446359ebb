"""Whatever a platform, or whoever began the session, has set: a pipeline's rows are the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark import SparkConf
from pyspark.sql import SparkSession

import headrace as hr
from headrace.errors import TerminalError
from headrace.lake.paths import Lake
from headrace.observe.views import Views
from headrace.spark import session
from headrace.testing import TestDriver
from tests.laws import tables

HOSTILE = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    "spark.sql.session.timeZone": "Pacific/Chatham",
    "spark.sql.caseSensitive": "true",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.storeAssignmentPolicy": "LEGACY",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.jsonGenerator.ignoreNullFields": "false",
    "spark.sql.legacy.sizeOfNull": "false",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.legacy.castComplexTypesToString.enabled": "true",
    "spark.sql.legacy.negativeIndexInArrayInsert": "true",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.parser.quotedRegexColumnNames": "true",
    "spark.sql.function.concatBinaryAsString": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.databricks.delta.properties.defaults.enableDeletionVectors": "true",
    "spark.databricks.delta.properties.defaults.columnMapping.mode": "name",
    "spark.databricks.delta.properties.defaults.enableRowTracking": "true",
}
KEPT = {"spark.sql.optimizer.maxIterations": "77", "spark.sql.autoBroadcastJoinThreshold": "77"}
# A column of the results, and the step that computes it.
STEPS = {
    "divided": "n / (n - 1)",
    "wrapped": "n + 2147483647",
    "narrowed": "CAST(big AS INT)",
    "parsed": "CAST(s AS INT)",
    "said": "CAST(at AS STRING)",
    "hour": "date_format(at, 'yyyy-MM-dd HH')",
    "read": "to_timestamp('2024-5-1 7', 'yyyy-MM-dd HH')",
    "third": "CAST(d * d AS STRING)",
    "pairs": "to_json(str_to_map(s, ',', ':'))",
    "shown": "CAST(named_struct('a', n, 'b', CAST(NULL AS INT)) AS STRING)",
    "told": "to_json(named_struct('a', n, 'b', CAST(NULL AS INT)))",
    "size": "size(CAST(NULL AS ARRAY<INT>))",
    "inserted": "CAST(array_insert(array(1, 2), -1, n) AS STRING)",
    "literal": "concat(\"a\", 'b')",
    "pattern": r"regexp_replace(s, '\\d', '#')",
    "joined": "hex(CAST(concat(X'41', X'42') AS BINARY))",
    "kind": "typeof(TIMESTAMP '2024-05-01 12:00:00')",
    "name": "'${spark.app.name}'",
    "case": "SENSOR",
}


def node(name: str) -> Any:
    topic = hr.Topic(
        "readings", key="sensor STRING", value="n INT, big BIGINT, s STRING, at TIMESTAMP, d DECIMAL(38, 10)"
    )
    stream: Any = topic
    for column, expression in STEPS.items():
        stream = stream.with_column(column, expression)
    return stream.group_by("sensor").aggregate(**{column: hr.last(column) for column in STEPS}).named(name)


@contextmanager
def configured(settings: dict[str, str]) -> Iterator[None]:
    """As if Spark had been started with these settings: each new session has them."""
    new_session = SparkSession.newSession

    def with_defaults(spark: SparkSession) -> SparkSession:
        session = new_session(spark)
        for key, value in settings.items():
            session.conf.set(key, value)
        return session

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparkSession, "newSession", with_defaults)
        yield


def results(spark: SparkSession, name: str) -> tuple[Any, Any, Any]:
    driver = TestDriver([node(name)], spark)
    try:
        rows = [
            {"n": 1, "big": 3_000_000_000, "s": "1,2", "at": "2024-05-01T11:59:59Z", "d": "1.0000000001"},
            {"n": 3, "big": 7, "s": "7", "at": "1581-05-01T00:00:00Z", "d": "123456789012.1234567891"},
            {"n": 2, "big": 7, "s": "same,same", "at": "2024-05-01T11:59:59Z", "d": "1"},
        ]
        for number, value in enumerate(rows):
            driver.pipe("readings", key=f"sensor-{number}", value=value, timestamp_ms=number)
        driver.cut()
        read = tables.rows(driver.read(name).orderBy("sensor"))
        assert tables.rows(driver.views.recompute(driver._nodes[name]).orderBy("sensor")) == read
        return (
            read,
            len(driver.dead_letters("readings")),
            {row["fate"]: row["records"] for row in driver.ledger(name) if row["records"]},
        )
    finally:
        driver.close()


@pytest.mark.spark
def test_steps_in_sql_give_the_same_rows_under_hostile_defaults(spark: SparkSession) -> None:
    plain = results(spark, "plain")
    with configured(HOSTILE):
        assert spark.newSession().conf.get("spark.sql.ansi.enabled") == "true", "a platform's default"
        hostile = results(spark, "hostile")
    assert hostile == plain
    (rows, _, _) = plain
    first = {name: rows[0][name] for name in STEPS}
    assert first["divided"] is None, "n / 0"
    assert first["wrapped"] == -(2**31)
    assert first["narrowed"] == 3_000_000_000 - 2**32
    assert first["said"] == "2024-05-01 11:59:59"
    assert first["name"] == "${spark.app.name}"
    assert "sensor-2" not in {row["sensor"] for row in rows}, (
        "a map with a key twice is a dead letter of the node"
    )


@pytest.mark.spark
def test_a_session_is_pinned_once_and_what_only_makes_it_faster_stays(spark: SparkSession) -> None:
    theirs = spark.newSession()
    theirs.conf.set("spark.sql.ansi.enabled", "true")
    with configured(HOSTILE | KEPT):
        ours = session.pinned(theirs)
        views = Views(theirs, Lake("file:/nowhere"))
    assert ours is not theirs
    assert session.pinned(ours) is ours
    assert {key: ours.conf.get(key) for key in KEPT} == KEPT
    assert "spark.sql.legacy.timeParserPolicy" not in ours.conf.getAll
    assert {key: ours.conf.get(key) for key in session.SEMANTICS} == session.SEMANTICS
    assert ours.conf.get("spark.sql.legacy.timeParserPolicy") == "CORRECTED"
    assert views._spark.conf.get("spark.sql.ansi.enabled") == "false"
    assert theirs.conf.get("spark.sql.ansi.enabled") == "true", "theirs stays as it is"


@pytest.mark.spark
def test_every_setting_that_is_pinned_exists_and_can_be_set_while_spark_runs(spark: SparkSession) -> None:
    """A misspelt one would be set, and nobody would read it."""
    assert [key for key in session.SEMANTICS if not spark.conf.isModifiable(key)] == []


@pytest.mark.fast
def test_a_spark_without_delta_is_refused_with_what_to_set() -> None:
    conf = SparkConf(loadDefaults=False)
    with pytest.raises(TerminalError, match="without Delta") as refused:
        session._require_delta(conf)
    assert "spark.sql.extensions=io.delta" in str(refused.value)
    session._require_delta(conf.set("spark.sql.extensions", f"some.Other,{session.DELTA}"))
    session._require_delta(SparkConf(loadDefaults=False).set(session.DATABRICKS, "15.4"))

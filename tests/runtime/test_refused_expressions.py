"""What a description refuses of an expression, Spark refuses; what it leaves to Spark is refused in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F

import headrace as hr
from headrace.description.function_arguments import ARGUMENTS, MANY
from headrace.description.spark_functions import SPARK_FUNCTIONS
from headrace.preflight.steps import check_steps
from headrace.spark.session import pipeline_session
from tests.description.refusal import refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.lake.paths import Lake
    from tests.conftest import Drive

pytestmark = pytest.mark.spark
DDL = (
    "page STRUCT<url: STRING, words: INT>, ts BIGINT, name STRING, ok BOOLEAN, d DATE, x DOUBLE, "
    "tags ARRAY<STRUCT<tag: STRING>>, notes MAP<STRING, INT>"
)
TOPIC = hr.Topic("views", value=DDL)
REFUSED = [
    "page.ur = 'a'", "ts.day > 3", "name.first = 'a'", "tags.tagg IS NOT NULL", "page > 5", "5 < page", "tags = 'a'",
    "notes <=> 3", "ts", "name", "d", "x", "page", "page.words", "ts + 1", "-ts", "5", "'a'", "uper(name) = 'A'",
    "CAST(ts AS STRING)", "ok AND upper(name)", "ts AND ok", "ok OR page.words", "NOT ts", "IF(ok AND ts, 1, 2) = 1",
    "page['ur'] = 'a'", "tags['tagg'] IS NOT NULL", "page['words']", "notes.a", "notes['a'] OR ok",
    "round(ts, page.words) > 1", "bround(x, ts) > 1", "round(ok) > 1", "round(d) > 1", "bround(tags, 2) > 1",
]  # fmt: skip
OF_NUMBERS = {
    "WRONG_NUM_ARGS.WITHOUT_SUGGESTION",
    "WRONG_NUM_ARGS.WITH_SUGGESTION",
    "INVALID_PARAMETER_COUNT",
}
IGNORES_MORE = {"hour", "minute", "second"}  # Spark reads the first argument, and says nothing of others
WRONG, RIGHT = ("array_join(name, ',')", "wrong"), ("regexp_replace(name, 'a+', 'b')", "right")
LEFT_TO_SPARK = {
    "ok AND map_keys(name)": "where('ok AND map_keys(name)')",
    "map_keys(name) IS NULL": "map_keys",
    "array_join(name, ',') = 'a'": "array_join",
}


@pytest.mark.parametrize("expression", REFUSED)
def test_what_is_refused_spark_refuses(expression: str, spark: SparkSession) -> None:
    with pytest.raises(hr.DescriptionError):
        TOPIC.where(expression)
    frame = pipeline_session(spark).createDataFrame([], DDL)
    with pytest.raises(AnalysisException):
        frame.withColumn("refused", ~F.coalesce(F.expr(expression), F.lit(False)))


@pytest.mark.long
def test_functions_take_as_many_arguments_as_with_spark(spark: SparkSession) -> None:
    """The fewest and the most, one fewer and one more. `description/test_function_arguments.py` says when to run it again."""
    differences = []
    for name, (fewest, most) in ARGUMENTS.items():
        numbers = {fewest - 1, fewest} | ({most, most + 1} if most != MANY else {fewest + 3})
        for number in numbers - {-1}:
            takes = fewest <= number <= most
            if name in IGNORES_MORE and number > most:
                continue
            if takes != is_taken(spark, f"{name}({', '.join(['NULL'] * number)})"):
                differences.append(f"{name}: {number}")
    assert differences == []


def is_taken(spark: SparkSession, call: str) -> bool:
    """Whether Spark refuses a call for another reason than the number of its arguments, or not at all."""
    try:
        spark.sql(f"SELECT {call}")
    except PySparkException as error:
        return error.getCondition() not in OF_NUMBERS
    return True


def test_the_functions_are_those_of_spark(spark: SparkSession) -> None:
    shown = {row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    assert {name for name in shown if name[0].isalpha()} == SPARK_FUNCTIONS


@pytest.mark.parametrize("expression", LEFT_TO_SPARK)
def test_what_spark_alone_can_tell_names_the_node_the_step_and_the_fix(expression: str, drive: Drive) -> None:
    node = TOPIC.where(expression).select("name").named("names")
    with refused("Node 'names': where(", LEFT_TO_SPARK[expression], "Correct the expression"):
        drive(node)


def test_what_spark_alone_can_tell_is_asked_before_a_run(
    spark: SparkSession, lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    """`headrace config check` asks. Before, the mistake was told when the stream started, below a stack trace of Java."""
    wrong, right = (TOPIC.with_column("all", sql).select("ts").named(name) for sql, name in (WRONG, RIGHT))
    capfd.readouterr()
    findings = {
        finding.what: finding for finding in check_steps([wrong, right, TOPIC.named("raw")], lake.root)
    }
    assert [finding.ok for finding in findings.values()] == [False, True]
    refused = findings["steps of 'wrong' that only Spark computes"]
    assert refused.result.startswith("Node 'wrong': with_column('all', ")
    assert ": Spark refuses it. Cannot resolve" in refused.result
    assert "CAST(" in str(refused.fix)
    assert findings["steps of 'right' that only Spark computes"].result == f"with column all = {RIGHT[0]}"
    assert "\tat org.apache" not in "".join(capfd.readouterr())


def test_a_condition_of_a_table_is_named_too(drive: Drive) -> None:
    topic = hr.Topic("people", key="id STRING", value="name STRING")
    with refused("Node 'people_now': where('flatten(name) IS NULL')", "Spark refuses it"):
        drive(topic.table().where("flatten(name) IS NULL").named("people_now"))

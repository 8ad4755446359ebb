"""Which functions of Spark raise although ANSI mode is off, and what is said of it when they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from headrace.description.functions import TRY_FORMS
from headrace.spark.errors.step_errors import raised_for_a_row
from headrace.spark.session import pipeline_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

# By function: a call that raises for the value of `a`, and one of the form that does not.
CALLS = {
    "aes_decrypt": ("aes_decrypt(unhex(a), '0000111122223333')", "try_aes_decrypt(unhex(a), '0000111122223333')", "00"),
    "element_at": ("element_at(array(1), length(a))", "get(array(1), length(a))", ""),
    "parse_json": ("parse_json(a)", "try_parse_json(a)", "{"),
    "to_binary": ("to_binary(a, 'hex')", "try_to_binary(a, 'hex')", "zz"),
    "to_number": ("to_number(a, '999')", "try_to_number(a, '999')", "x"),
    "to_time": ("to_time(a)", "try_to_time(a)", "x"),
    "unbase64": ("unbase64(a)", "try_to_binary(a, 'base64')", "a"),
    "url_decode": ("url_decode(a)", "try_url_decode(a)", "%zz"),
    "validate_utf8": ("validate_utf8(unhex(a))", "try_validate_utf8(unhex(a))", "80"),
    "variant_get": ("variant_get(try_parse_json(a), '$', 'int')", "try_variant_get(try_parse_json(a), '$', 'int')", '"x"'),
}  # fmt: skip
# Their plain form gives null, or raises for the same inputs: a time zone or a pattern that does not exist.
SAME = {
    *("add", "avg", "divide", "mod", "multiply", "subtract", "sum"),
    *("make_interval", "make_timestamp", "make_timestamp_ltz", "make_timestamp_ntz"),
    *("parse_url", "reflect", "to_date", "to_timestamp"),
}


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    session = pipeline_session(spark, interpreted=True)
    session.conf.set("spark.sql.timeType.enabled", "true")
    return session


def rows(frame: DataFrame) -> int:
    return int(frame._jdf.queryExecution().toRdd().count())


def said_by(work: Callable[[], object]) -> str | None:
    with pytest.raises((PySparkException, Py4JJavaError)) as raised:
        work()
    return raised_for_a_row(raised.value)


def test_each_form_that_spark_has_is_known(session: SparkSession) -> None:
    names = {function.name for function in session.catalog.listFunctions()}
    forms = {name.removeprefix("try_") for name in names if name.startswith("try_")}
    assert forms - SAME == TRY_FORMS.keys() - {"unbase64"}


@pytest.mark.parametrize("function", TRY_FORMS)
def test_a_function_raises_and_its_other_form_does_not(session: SparkSession, function: str) -> None:
    raising, other, value = CALLS[function]
    one = session.range(1).select(F.get(F.array(F.lit(value)), F.col("id").cast("int")).alias("a"))
    assert said_by(lambda: rows(one.select(F.expr(raising))))
    assert rows(one.select(F.expr(other))) == 1


def test_what_a_python_function_raises_is_said_in_a_line(session: SparkSession) -> None:
    def raising(kind: type[Exception]) -> DataFrame:
        def work(number: int) -> int:
            raise kind(f"no {number}\nat all")

        return session.range(1).select(F.udf(work, "int")("id"))

    assert said_by(lambda: rows(raising(ValueError))) == "ValueError: no 0"
    for of_a_machine in (ConnectionError, MemoryError, ModuleNotFoundError, OSError):
        assert said_by(lambda kind=of_a_machine: rows(raising(kind))) is None  # type: ignore[misc]


def test_a_file_that_is_gone_is_not_of_a_row(
    session: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("gone")
    session.range(9).write.mode("overwrite").parquet(str(folder))
    read = session.read.parquet(str(folder))
    for file in folder.glob("*.parquet"):
        file.unlink()
    assert said_by(lambda: rows(read)) is None


def test_other_errors_are_not_of_a_row() -> None:
    assert raised_for_a_row(ValueError("no")) is None

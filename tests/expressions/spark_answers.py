"""What Spark makes of expressions: the types, values and nulls that terms are held against."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from headrace.spark.frames import arrow_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AT_ONCE = 100  # columns of a job
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def answers(spark: SparkSession, rows: pa.Table, texts: Sequence[str]) -> Iterator[tuple[str, pa.Array]]:
    """The values of each expression over rows; one that Spark refuses, or that raises for a row, is left out."""
    before = {key: str(spark.conf.get(key)) for key in INTERPRETED}
    for key, value in INTERPRETED.items():  # nothing is compiled for expressions that run once
        spark.conf.set(key, value)
    try:
        frame = arrow_frame(spark, rows).coalesce(1)
        known = [text for text in texts if _is_accepted(frame, text)]
        for first in range(0, len(known), AT_ONCE):
            yield from _computed(frame, known[first : first + AT_ONCE])
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


def _is_accepted(frame: DataFrame, text: str) -> bool:
    try:
        return bool(frame.select(F.expr(text).alias("value")).schema)
    except PySparkException:
        return False


def _computed(frame: DataFrame, texts: Sequence[str]) -> Iterator[tuple[str, pa.Array]]:
    """The values of some expressions; one by one if a row raises."""
    try:
        made = frame.select(*(F.expr(text).alias(f"e{n}") for n, text in enumerate(texts))).toArrow()
    except (
        PySparkException,
        Py4JJavaError,
        pa.ArrowInvalid,
    ):  # the last of a null record with fields that are never null
        if len(texts) > 1:
            half = len(texts) // 2
            yield from _computed(frame, texts[:half])
            yield from _computed(frame, texts[half:])
        return
    for text, column in zip(texts, made.combine_chunks().columns, strict=True):
        yield text, column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)

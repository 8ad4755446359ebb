"""A log's columns have Spark's types, told without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import types as T

import headrace as hr
from headrace.description import to_ddl
from headrace.sequence.log_columns import struct_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
PLAIN = [
    "STRING",
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "BINARY",
    "DATE",
    "TIMESTAMP",
    "TIMESTAMP_NTZ",
    "DECIMAL(38,6)",
]
NESTED = ["ARRAY<{0}>", "MAP<STRING, {0}>", "STRUCT<a: {0}, `b c`: ARRAY<STRUCT<d: {0} NOT NULL>>>"]


def test_each_type_is_the_one_that_spark_reads(spark: SparkSession) -> None:
    types = [each for of in PLAIN for each in (of, *(nested.format(of) for nested in NESTED))]
    topic = hr.Topic("any", value=", ".join(f"c{number} {of}" for number, of in enumerate(types)))
    read = T.StructType.fromDDL(to_ddl(topic.value_columns))
    assert isinstance(read, T.StructType)
    assert struct_of(topic.value_columns) == read.toNullable()

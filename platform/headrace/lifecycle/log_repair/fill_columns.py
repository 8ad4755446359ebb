"""Files of a log that comes back, with values in columns that the log has gained since (see `filled_columns`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T

from headrace.description.epoch_time import milliseconds
from headrace.engine.state_parquet import open_parquet
from headrace.lake import DataFileWriter, NewFile, open_table
from headrace.lake.files.sorted_rows import bounds_of
from headrace.log.decision_rows import ENCODING
from headrace.log.history.filled_columns import values_at
from headrace.sequence.log_columns import log_schema
from headrace.spark.one_task import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import SparkSession

    from headrace.description import Topic


def fill_commits(
    spark: SparkSession, uri: str, topic: Topic, files: Sequence[NewFile], after_ms: int, *, stray: bool
) -> Sequence[NewFile]:
    """The files of commits that were lost, with the values in columns that the log has gained since.

    In: uri       of the log
        after_ms  the commit time of the commit before them
        stray     each file is of one of these commits, as it was; else nobody knows more of their times than that the first
                  of them came next
    """
    log, schema = open_table(uri), arrow_schema(log_schema(topic))
    values = cast_values(spark, topic, values_at(log, after_ms + 1))
    if not values:
        return files
    found = []
    for file in files:
        gained = values_at(log, _commit_ms(f"{uri}/{file.path}")) if stray else values
        own = {name: value for name, value in values.items() if name in gained}
        found.append(_filled(uri, schema, file, own) if own else file)
    return found


def _commit_ms(uri: str) -> int:
    """The commit time of the rows of a file, which are of one commit."""
    bounds = bounds_of(uri, "ingested_at")
    assert bounds is not None
    latest: datetime = bounds[1]
    return milliseconds(latest)


def cast_values(spark: SparkSession, topic: Topic, values: Mapping[str, str]) -> dict[str, pa.Scalar]:
    """The values of columns as a log has them. In: values  as texts."""
    types = log_schema(topic)["value"].dataType
    assert isinstance(types, T.StructType)
    there = {name: text for name, text in values.items() if name in types.names}
    if not there:
        return {}
    cast = (F.lit(text).cast(types[name].dataType).alias(name) for name, text in there.items())
    row = spark.range(1).select(*cast).toArrow()
    return {name: row[name][0] for name in row.column_names}


def _filled(uri: str, schema: pa.Schema, file: NewFile, values: Mapping[str, pa.Scalar]) -> NewFile:
    """A file with the same rows and these values in columns of their value; the file before stays as it is.

    In: uri, schema  of the log's table
    """
    with open_parquet(f"{uri}/{file.path}", file.size, None) as parquet:
        rows = parquet.read().combine_chunks()
    value = rows["value"].combine_chunks() if "value" in rows.column_names and rows.num_rows else None
    if value is None or value.null_count == len(value):
        return file
    given = {field.name: value.field(at) for at, field in enumerate(value.type)}
    fields = list(schema.field("value").type)
    parts = [
        pa.repeat(values[field.name].cast(field.type), len(value))
        if field.name in values
        else given.get(field.name, pa.nulls(len(value), field.type)).cast(field.type)
        for field in fields
    ]
    columns = {name: rows[name] for name in rows.column_names}
    columns["value"] = pa.StructArray.from_arrays(parts, fields=fields, mask=value.is_null())
    writer = DataFileWriter(uri, schema, ENCODING)
    try:
        writer.write(columns, rows.num_rows)
        report = writer.close()
    except BaseException:
        writer.remove()
        raise
    assert report is not None
    return NewFile(report["path"], report["size"], file.stats)  # of columns that stay as they are

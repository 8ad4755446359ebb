"""The log's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.description import is_of_kafka
from headrace.description.arrow_types import arrow_type

if TYPE_CHECKING:
    from headrace.description import Column, Topic

RECORD, DEAD_LETTER, TICK, CONTROL = "record", "dead_letter", "tick", "control"
ERASED = "erased"  # the reason of a record that was erased: its place is left, and nothing of what it said
COMMIT = "commit"  # the action of the control row that each commit holds
DRAIN = "drain"  # the action of a control row that closes batches
SET_LIMITS = "set_limits"  # of one that sets limits of a suppression
LIMITS_ELSEWHERE = "limits_elsewhere"  # of one that says: another log sets them, this one ticks for them
COMPLETE = "complete"  # of one that says: the log has read the topic to where it ended when the log began
IDLE = "idle"  # of one that says: all partitions of the topic are read to their ends, and silent; a record ends that
BUSY = "busy"  # of a node's log: more may come, although no record has come yet
BEHIND = (
    "behind"  # of a node's log: how far stream time is behind the clock from its commit on, if that has grown
)

HEADERS = T.ArrayType(
    T.StructType([T.StructField("key", T.StringType()), T.StructField("value", T.BinaryType())])
)
# What Spark's Kafka source delivers, with `includeHeaders`; one row per record.
KAFKA = T.StructType(
    [
        T.StructField("key", T.BinaryType()),
        T.StructField("value", T.BinaryType()),
        T.StructField("topic", T.StringType()),
        T.StructField("partition", T.IntegerType()),
        T.StructField("offset", T.LongType()),
        T.StructField("timestamp", T.TimestampType()),
        T.StructField("headers", HEADERS),
    ]
)
# Delta keeps minima and maxima of these alone: they carry every file-skipping predicate.
SKIPPING = ("ingested_at", "partition", "offset", "timestamp", "stream_time", "kind")


def struct_of(columns: tuple[Column, ...]) -> T.StructType:
    """Spark's type of these columns; all that is in them may be null, for absence is checked when a record is decoded."""
    fields = pa.schema([(column.name, arrow_type(column.type)) for column in columns])
    return from_arrow_schema(fields, prefer_timestamp_ntz=True).toNullable()


def log_schema(topic: Topic) -> T.StructType:
    """The columns of a topic's log, one row per record, dead letter, tick or control entry.

    `key` and `value` are typed by the topic's schema; a topic without key columns has no `key` column. The log of a node
    has the `clock` of what caused each row, and its place (`cause`, L32); in a topic's log these are `stream_time` and the
    position.
    """
    fields: list[tuple[str, T.DataType]] = [
        ("ingested_at", T.TimestampType()),
        ("kind", T.StringType()),
        ("topic", T.StringType()),
        ("partition", T.IntegerType()),
        ("offset", T.LongType()),
        ("timestamp", T.TimestampType()),
        ("stream_time", T.TimestampType()),
        *([] if is_of_kafka(topic) else [("clock", T.TimestampType()), ("cause", T.BinaryType())]),
        *([("key", struct_of(topic.key_columns))] if topic.key_columns else []),
        ("value", struct_of(topic.value_columns)),
        ("headers", HEADERS),
        ("tombstone", T.BooleanType()),
        ("size_bytes", T.IntegerType()),
        ("root_topic", T.StringType()),
        ("root_partition", T.IntegerType()),
        ("root_offset", T.LongType()),
        ("ordinals", T.ArrayType(T.IntegerType())),
        ("path", T.StringType()),
        ("replay", T.BooleanType()),
        ("reason", T.StringType()),
        ("raw_key", T.BinaryType()),
        ("raw_value", T.BinaryType()),
        ("control", T.StringType()),
        *([("raw_timestamp", T.LongType())] if topic.has_bytes_in_log else []),
    ]
    return T.StructType([T.StructField(name, data_type, True) for name, data_type in fields])

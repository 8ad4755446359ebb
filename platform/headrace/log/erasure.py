"""Erasure of a key in the log: its records leave their places, and nothing of what they said.

Law: a row keeps what others rest on (kind, position, commit time, event time, stream time, the source chain and its
verdict), so offsets, stream time, the replay guard and the books stay as they are. Its key, value, headers, raw bytes
and size are null, its reason is `erased`. An operator sees a record that met the fate `erased`.
"""

from __future__ import annotations

import json
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import to_ddl
from headrace.errors import TerminalError
from headrace.log.columns import DEAD_LETTER, ERASED, RECORD, log_schema
from headrace.log.decode import CORRUPT, parse_key
from headrace.spark.frames import local_frame

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column as Expr
    from pyspark.sql import SparkSession

    from headrace.description import Topic

BLANKED = ("key", "value", "headers", "size_bytes", "raw_key", "raw_value")


def key_bytes(spark: SparkSession, topic: Topic, key: str) -> bytes:
    """A key as it is sent to Kafka.

    In:     key  the text of a one-column STRING key, else a JSON object
    Raises: TerminalError when the topic has no key, or this is none of it.
    """
    if not topic.key_columns:
        raise TerminalError(
            f"Topic '{topic.name}' has no key: records cannot be erased by one.",
            hint="Describe its key: hr.Topic(…, key=…).",
        )
    raw = key.encode()
    if not topic.scalar_key:
        names = [column.name for column in topic.key_columns]
        parsed = local_frame(spark, [(raw,)], "key BINARY").select(parse_key(F.col("key"), topic).alias("k"))
        row = parsed.select("k.*").first()
        if row is None or row[CORRUPT] is not None or all(row[name] is None for name in names):
            raise TerminalError(
                f"Topic '{topic.name}': {key!r} is no key of it.",
                hint=f"Give a JSON object with the columns {to_ddl(topic.key_columns)}.",
            )
    return raw


def is_of_key(topic: Topic, raw: bytes) -> Expr:
    """Whether a row of the log is a record of this key, or a dead letter that came under it."""
    wanted = parse_key(F.lit(raw), topic)
    typed = (F.col("kind") == RECORD) & F.col("key").isNotNull() & _same(F.col("key"), wanted, topic)
    came = F.col("raw_key")
    undecoded = (came == F.lit(raw)) | _same(parse_key(came, topic), wanted, topic)
    return typed | ((F.col("kind") == DEAD_LETTER) & came.isNotNull() & undecoded)


def blanked(topic: Topic) -> Mapping[str, Expr]:
    """What the columns of an erased row become; others stay."""
    schema = log_schema(topic)
    nothing = {name: F.lit(None).cast(schema[name].dataType) for name in BLANKED if name in schema.names}
    return nothing | {"reason": F.lit(ERASED)}


def key_values(topic: Topic, raw: bytes) -> Mapping[str, str]:
    """The columns of a key as they stand in JSON, by name."""
    if topic.scalar_key:
        return {topic.key_columns[0].name: raw.decode()}
    found = json.loads(raw)
    return {column.name: _text(found[column.name]) for column in topic.key_columns if column.name in found}


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _same(one: Expr, other: Expr, topic: Topic) -> Expr:
    return reduce(and_, (one[column.name].eqNullSafe(other[column.name]) for column in topic.key_columns))

"""Decode Kafka records: typed key and value, event time, or the reason why not.

Each kind of bad input has one reason, tried in this order; the first that applies is recorded.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import quote, to_ddl
from headrace.description.durations import format_duration
from headrace.log.chain import chain_columns, chain_pieces, chain_source, malformed_chain
from headrace.log.columns import DEAD_LETTER, RECORD, struct_of
from headrace.spark.frames import Selection
from headrace.spark.varying import varying

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame

    from headrace.description import Column, Topic

CORRUPT, LATEST = "__corrupt", "__latest_ms"
NOT_UTF8, NOT_AN_OBJECT, MORE_THAN_ONE = "not UTF-8", "not a JSON object", "more than one JSON object"
DOES_NOT_FIT = "not JSON, or a field does not fit "  # and the declared columns
BLANKS = " \t\r\n"  # JSON's white space
LAST_TIMESTAMP_MS = 253_402_300_799_999  # the end of the year 9999: beyond it no timestamp can be written


class Decoder:
    """Types the records of one topic. Its columns are made once: to make one anew costs a call or more into the JVM."""

    def __init__(self, topic: Topic) -> None:
        """Needs a running Spark."""
        self._topic = topic
        self._parsed = Selection(
            *(F.col(name) for name in ("topic", "partition", "offset", "headers")),
            F.col("key").alias("raw_key"),
            F.col("value").alias("raw_value"),
            F.unix_millis("timestamp").alias("__kafka_ms"),
            parse_key(F.col("key"), topic).alias("__key"),
            _parse_json(F.col("value"), topic.value_columns).alias("__value"),
            # For what parses Spark generates no code: all of it stands here, so that what follows is one stage, without a
            # copy of each row in between.
            *(
                _goes_on_behind_the_object(F.col(name).cast("string")).alias(f"__{name}_goes_on")
                for name, parsed in (("key", topic.key_columns and not topic.scalar_key), ("value", True))
                if parsed
            ),
            F.col("value").isNull().alias("tombstone"),
            (F.coalesce(F.length("key"), F.lit(0)) + F.coalesce(F.length("value"), F.lit(0))).alias(
                "size_bytes"
            ),
            *chain_source(topic),
        )
        self._found = Selection(F.col("*"), _event_ms(topic).alias("__event_ms"), *chain_pieces(topic))
        self._reason = Selection(F.col("*"), _reason(topic).alias("reason"))
        dead, event_ms = F.col("reason").isNotNull(), F.col("__event_ms")
        key = [_typed("__key", topic.key_columns, ~dead).alias("key")] if topic.key_columns else []
        self._decided = Selection(
            F.when(dead, DEAD_LETTER).otherwise(RECORD).alias("kind"),
            *(F.col(name) for name in ("topic", "partition", "offset", "__event_ms")),
            F.when(event_ms.between(0, LAST_TIMESTAMP_MS), F.timestamp_millis(event_ms)).alias("timestamp"),
            *key,
            _typed("__value", topic.value_columns, ~dead & ~F.col("tombstone")).alias("value"),
            *(F.col(name) for name in ("headers", "tombstone", "size_bytes", "reason")),
            F.when(dead, F.col("raw_key")).alias("raw_key"),
            F.when(dead, F.col("raw_value")).alias("raw_value"),
            *chain_columns(topic, ~dead),
        )

    def decode(self, raw: DataFrame, ingested_at_ms: int) -> DataFrame:
        """Type every record of a micro-batch.

        In:     raw  as Spark's Kafka source delivers it, one row per record
        Out:    the log's columns but `stream_time`, `ingested_at` and `replay`; `kind` is `record` or
                `dead_letter` (then `reason`, `raw_key`, `raw_value` are set); `__event_ms` is the event time in ms.
                The source chain is read if the topic has a guard, and is null in dead letters.
        Law:    a function of the row and of `ingested_at_ms`, which the log records.
        """
        latest_ms = varying(ingested_at_ms + self._topic.max_future_ms).alias(LATEST)
        return self._decided.of(self._reason.of(self._found.of(self._parsed.of(raw, latest_ms))))


def _parse_json(raw: Expr, columns: tuple[Column, ...]) -> Expr:
    schema = f"{to_ddl(columns)}, {CORRUPT} STRING"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    return F.from_json(raw.cast("string"), schema, options)


def parse_key(raw: Expr, topic: Topic) -> Expr:
    """The key columns as a struct, from the bytes of a key; of malformed JSON with `CORRUPT`."""
    if topic.scalar_key:
        return F.struct(raw.cast("string").alias(topic.key_columns[0].name))
    if topic.key_columns:
        return _parse_json(raw, topic.key_columns)
    return F.lit(None)


def _typed(source: str, columns: tuple[Column, ...], present: Expr) -> Expr:
    struct = F.struct(*(_field(source, column.name).alias(column.name) for column in columns))
    raw = {"__key": "raw_key", "__value": "raw_value"}[source]
    return F.when(present & F.col(raw).isNotNull(), struct).cast(struct_of(columns))


def _field(source: str, name: str) -> Expr:
    return F.col(f"{source}.{quote(name)}")


def _event_ms(topic: Topic) -> Expr:
    kafka_ms = F.col("__kafka_ms")
    if topic.timestamp is None:
        return kafka_ms
    field = _field("__value", topic.timestamp)
    event_ms = F.unix_millis(field) if topic.types[topic.timestamp].type == "TIMESTAMP" else field
    return F.when(F.col("tombstone"), kafka_ms).otherwise(event_ms)


def _reason(topic: Topic) -> Expr:
    event_ms = F.col("__event_ms")
    shown = F.coalesce(
        F.timestamp_millis(F.least(event_ms, F.lit(LAST_TIMESTAMP_MS))).cast("string"), F.lit("none")
    )
    ahead = f" lies more than {format_duration(topic.max_future_ms)} ahead of its ingestion"
    cases = [
        *_malformed("raw_key", "__key", "key", topic.key_columns, plain=topic.scalar_key),
        *_malformed("raw_value", "__value", "value", topic.value_columns, plain=False),
        *_disagreements(topic),
        (event_ms.isNull(), F.lit(f"timestamp: {topic.timestamp or 'the record timestamp'} is null")),
        (event_ms < 0, F.lit("timestamp: before 1970")),
        (event_ms > F.col(LATEST), F.concat(F.lit("timestamp: "), shown, F.lit(ahead))),
        *malformed_chain(topic),
    ]
    return reduce(
        lambda rest, case: F.when(case[0], case[1]).otherwise(rest),
        reversed(cases),
        F.lit(None).cast("string"),
    )


def _malformed(
    raw: str, parsed: str, what: str, columns: tuple[Column, ...], *, plain: bool
) -> list[tuple[Expr, Expr]]:
    if not columns:
        return []
    text = F.col(raw).cast("string")
    present = F.col(raw).isNotNull()
    cases = [(present & ~F.is_valid_utf8(text), F.lit(f"malformed {what}: {NOT_UTF8}"))]
    if not plain:
        cases += [
            (present & ~_looks_like_an_object(text), F.lit(f"malformed {what}: {NOT_AN_OBJECT}")),
            (
                present & F.col(f"{parsed}.{CORRUPT}").isNotNull(),
                F.lit(f"malformed {what}: {DOES_NOT_FIT}{to_ddl(columns)}"),
            ),
            (
                present & F.col(f"__{what}_goes_on"),
                F.lit(f"malformed {what}: {MORE_THAN_ONE}"),
            ),
        ]
    for column in columns:
        if not column.nullable:
            missing = present if what == "value" else F.lit(True)
            cases.append(
                (
                    missing & _field(parsed, column.name).isNull(),
                    F.lit(f"missing {what} field: {column.name} is NOT NULL"),
                )
            )
    return cases


def _looks_like_an_object(text: Expr) -> Expr:
    begins = F.startswith(text, F.lit("{")) | F.startswith(F.ltrim(text, F.lit(BLANKS)), F.lit("{"))
    ends = F.endswith(text, F.lit("}")) | F.endswith(F.rtrim(text, F.lit(BLANKS)), F.lit("}"))
    return begins & ends  # what most have costs least


def _goes_on_behind_the_object(text: Expr) -> Expr:
    """Spark's parser stops at the end of the first object and forgives what follows.

    Only a text with a brace closed before its end can hold more; as part of an array it is then parsed to its end.
    """
    first = F.locate("}", text)
    # Bytes are as many as characters or more, and known without counting.
    closes_early = (first < F.octet_length(text)) & (first < F.length(F.rtrim(text, F.lit(BLANKS))))
    in_an_array = F.from_json(F.concat(F.lit("["), text, F.lit(", 0]")), "array<string>")
    return F.when(closes_early, F.coalesce(F.size(in_an_array) != 2, F.lit(True))).otherwise(False)


def _disagreements(topic: Topic) -> list[tuple[Expr, Expr]]:
    in_value = {column.name.lower() for column in topic.value_columns}
    shared = [column.name for column in topic.key_columns if column.name.lower() in in_value]
    return [
        (
            _field("__key", name) != _field("__value", name),
            F.lit(f"disagreement: {name} differs between key and value"),
        )
        for name in shared
    ]

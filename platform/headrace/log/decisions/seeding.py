"""Begin a log with the rows of a table or of files.

1. The log records the version of the table, the offsets of its rows and where Kafka goes on, so a crash moves nothing.
2. The rows are appended as records, piece by piece. A log that was stopped on the way goes on where it stands.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.description import quote
from headrace.description.formats import PlainValue
from headrace.description.seed import EARLIEST, FILES
from headrace.errors import TerminalError, TransientError
from headrace.lake.storage import spark_uri
from headrace.sequence.log_columns import HEADERS
from headrace.sequence.readers.plain_values import written
from headrace.sequence.seed_pieces import SeedState
from headrace.spark.brokers.partitioner import target_partition
from headrace.spark.rows.json_rows import as_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Column
    from headrace.description.seed import Seed
    from headrace.log.sequencer import Sequencer

RECORDS_PER_COMMIT = 500_000
SHOWN = 3
_HELD_BY = {  # the types of Spark whose values a plain value of a type holds
    "STRING": ("string",),
    "BINARY": ("binary",),
    "INT": ("tinyint", "smallint", "int"),
    "BIGINT": ("tinyint", "smallint", "int", "bigint"),
    "FLOAT": ("float",),
    "DOUBLE": ("float", "double"),
}


class SeedUnderWayError(TransientError):
    """A seed is not read to its end."""


class Seeding:
    """The seed of one topic's log."""

    def __init__(self, spark: SparkSession, sequencer: Sequencer, seed: Seed) -> None:
        """Nothing is read yet."""
        self._spark, self._sequencer, self._seed = spark, sequencer, seed
        self._topic = sequencer.topic

    def begin(
        self,
        partitions: int,
        start: Callable[[str | Mapping[int, int]], Mapping[int, int]],
        require: Callable[[Mapping[int, int]], object] = lambda offsets: None,
        *,
        rows_max: int = RECORDS_PER_COMMIT,
    ) -> None:
        """Record the seed in a log that is empty.

        In:     partitions  of the topic
                start       gives each partition's offset of a word, a time or offsets; of partitions not named, the earliest
                require     raises where Kafka cannot be read from some offsets on
                rows_max    about as many rows are appended in one commit
        Raises: TerminalError when the table has other columns, or rows that cannot stand in the log
        """
        version = self._version()
        given = self._rows_at(version)
        then = None if self._seed.then is None else dict(start(_stated(self._seed.then)))
        records = self._records(given, partitions)
        bounds = self._bounds(records, partitions)
        first = {p: low for p, (low, _, _) in bounds.items()}
        last = {p: high for p, (_, high, _) in bounds.items()}
        if then is not None:
            first = {p: then[p] - rows for p, (_, _, rows) in bounds.items()}
            last = {p: then[p] - 1 for p in bounds}
        rows = sum(number for *_, number in bounds.values())
        starts = dict(start(EARLIEST)) if then is None else then
        require({**starts, **{p: offset + 1 for p, offset in last.items()}})
        pieces = max(1, -(-rows // rows_max))
        seed = SeedState(self._seed.uri, version, first, last, then, pieces)
        self._sequencer.start_at({**starts, **first}, seed)

    def run(self, partitions: int, *, ends: Callable[[], bool] = lambda: False) -> None:
        """Append what is left of it.

        In:     ends  whether to stop before the next piece
        Raises: SeedUnderWayError when it was to stop; it goes on from there
        """
        state = self._sequencer.state.seed
        if state is None:
            return
        if state.source != self._seed.uri:
            raise seed_forsaken(self._topic.name, state)
        if state.then is not None:
            partitions = len(state.then)  # as many as there were: rows that are appended stand by them
        records = self._placed(self._records(self._rows_at(state.version), partitions), state)
        for piece in state.left(self._sequencer.state.next_offsets):
            if ends():
                raise SeedUnderWayError(
                    f"Topic '{self._topic.name}': its seed is not read to the end.",
                    hint="Start it again: it goes on.",
                )
            # An archive that is written at least once may hold an offset twice.
            self._sequencer.append(records.where(_within(piece)).dropDuplicates(["partition", "offset"]))
        if self._sequencer.state.seed is not None:
            raise TerminalError(
                f"Topic '{self._topic.name}': rows of {state.source} with which its log begins are gone.",
                detail=f"The log ends before {self._sequencer.state.next_offsets}, the seed at {dict(state.last)}.",
                hint="Restore them, or delete this topic's log, and begin again.",
            )

    def _version(self) -> int | None:
        if self._seed.kind == FILES:
            return None
        if isinstance(self._seed.as_of, int):
            return self._seed.as_of
        history = self._spark.sql(f"DESCRIBE HISTORY delta.{quote(spark_uri(self._seed.uri))}")
        if self._seed.as_of is not None:
            history = history.where(F.col("timestamp") <= F.to_timestamp(F.lit(self._seed.as_of)))
        row = history.agg(F.max("version").alias("version")).first()
        if row is None or row["version"] is None:
            raise self._refused(
                f"it has no version as of {self._seed.as_of}", "Name a later time, or a version."
            )
        return int(row["version"])

    def _rows_at(self, version: int | None) -> DataFrame:
        """The rows as they stand there."""
        uri = spark_uri(self._seed.uri)
        if version is None:
            return self._spark.read.parquet(uri)
        return self._spark.read.format("delta").option("versionAsOf", version).load(uri)

    def _records(self, rows: DataFrame, partitions: int) -> DataFrame:
        """The rows as Spark's Kafka source would give them; of rows without positions the offset is null."""
        self._require_columns(rows)
        seed = self._seed
        at = F.timestamp_millis(F.lit(0)) if seed.timestamp is None else _moment(rows, seed.timestamp)
        if seed.raw:
            key, value = (F.col(name).cast("binary") for name in ("key", "value"))
        else:
            key, value = self._key(), self._value()
        if seed.position is None:
            place, offset = target_partition(F.col("key"), partitions), F.lit(None).cast("bigint")
        else:
            place, offset = (F.col(f"__{name}") for name in ("partition", "offset"))
        kept = (
            []
            if seed.position is None
            else [
                F.col(quote(name)).cast(of).alias(f"__{alias}")
                for name, alias, of in zip(
                    seed.position, ("partition", "offset"), ("int", "bigint"), strict=True
                )
            ]
        )
        headers = F.col("headers") if seed.raw and "headers" in rows.columns else F.lit(None).cast(HEADERS)
        found = rows.select(
            key.alias("key"), value.alias("value"), at.alias("timestamp"), headers.alias("headers"), *kept
        )
        return found.select(
            "key",
            "value",
            F.lit(self._topic.name).alias("topic"),
            place.alias("partition"),
            offset.alias("offset"),
            "timestamp",
            "headers",
        )

    def _key(self) -> Expr:
        names = _names(self._topic.key_columns)
        if not names:
            return F.lit(None).cast("binary")
        if isinstance(self._topic.key_format, PlainValue):
            return _plain(self._topic.key_format, names[0])
        if self._topic.scalar_key:
            return F.col(quote(names[0])).cast("binary")
        return as_json(names).cast("binary")

    def _value(self) -> Expr:
        names = _names(self._topic.value_columns)
        if isinstance(self._topic.format, PlainValue):
            return _plain(self._topic.format, names[0])
        return as_json(names).cast("binary")

    def _require_columns(self, rows: DataFrame) -> None:
        topic, seed = self._topic, self._seed
        needed = ["key", "value"] if seed.raw else [*topic.columns]
        needed += [*(seed.position or ())] + ([] if seed.timestamp is None else [seed.timestamp])
        missing = [name for name in dict.fromkeys(needed) if name not in rows.columns]
        if missing:
            raise self._refused(
                f"it has no column {', '.join(missing)}", f"It has {', '.join(rows.columns)}."
            )
        plain = (
            () if seed.raw else ((topic.key_format, topic.key_columns), (topic.format, topic.value_columns))
        )
        for of, columns in plain:
            if isinstance(of, PlainValue) and columns:
                self._require_plain(rows, of, columns[0].name)

    def _require_plain(self, rows: DataFrame, of: PlainValue, name: str) -> None:
        holds, wanted = rows.schema[name].dataType.simpleString(), of.column_type
        if holds not in _HELD_BY[wanted]:
            raise self._refused(
                f"its column {name} is {holds}, and {of.kind} is {wanted}", "Give it that type."
            )

    def _bounds(self, records: DataFrame, partitions: int) -> dict[int, tuple[int, int, int]]:
        """The first offset, the last one and the number of rows of each partition."""
        found = records.groupBy("partition").agg(
            F.min("offset").alias("low"),
            F.max("offset").alias("high"),
            F.count("*").alias("rows"),
            F.count_if(F.col("partition").isNull() | F.col("timestamp").isNull()).alias("nowhere"),
            F.count_if(F.col("offset").isNull() | (F.col("offset") < 0)).alias("unplaced"),
        )
        rows = found.collect()
        positions = self._seed.position is not None
        odd = sum(row["nowhere"] + (row["unplaced"] if positions else 0) for row in rows)
        if odd:
            raise self._refused(f"{odd:,} of its rows have no position or timestamp", "Leave these out.")
        unknown = [row["partition"] for row in rows if not 0 <= row["partition"] < partitions]
        if unknown:
            raise self._refused(
                f"it has rows of partitions {sorted(unknown)[:SHOWN]}, and the topic has {partitions}",
                "Add partitions to the topic, or leave these rows out.",
            )
        return {row["partition"]: (row["low"] or 0, row["high"] or 0, row["rows"]) for row in rows}

    def _placed(self, records: DataFrame, state: SeedState) -> DataFrame:
        """The same with offsets: rows without positions lie before Kafka's, by time, then by what they hold."""
        if state.then is None:
            return records
        order = Window.partitionBy("partition").orderBy("timestamp", "value", "key")
        first = F.create_map(*(F.lit(n) for pair in sorted(state.first.items()) for n in pair))
        offset = F.try_element_at(first, F.col("partition")) + F.row_number().over(order) - 1
        return records.withColumn("offset", offset.cast("bigint"))

    def _refused(self, why: str, hint: str) -> TerminalError:
        return TerminalError(
            f"Topic '{self._topic.name}': its log cannot begin with {self._seed.uri}: {why}.", hint=hint
        )


def _stated(then: str | tuple[tuple[int, int], ...]) -> str | Mapping[int, int]:
    return then if isinstance(then, str) else dict(then)


def _plain(of: PlainValue, column: str) -> Expr:
    """The bytes of a plain value; null for null, which is a tombstone."""
    kind = of.kind
    return F.udf(lambda value: None if value is None else written(kind, value), "binary")(
        F.col(quote(column))
    )


def _names(columns: tuple[Column, ...]) -> list[str]:
    return [column.name for column in columns]


def _moment(rows: DataFrame, name: str) -> Expr:
    """A column of times: TIMESTAMP, or a number of ms."""
    whole = rows.schema[name].dataType.typeName() in ("long", "integer")
    return F.timestamp_millis(F.col(quote(name))) if whole else F.col(quote(name)).cast("timestamp")


def _within(piece: Mapping[int, range]) -> Expr:
    return reduce(
        or_,
        (
            (F.col("partition") == p) & (F.col("offset") >= of.start) & (F.col("offset") < of.stop)
            for p, of in piece.items()
        ),
    )


def seed_forsaken(topic: str, seed: SeedState) -> TerminalError:
    """The error of a topic that is not described any more as its log has begun."""
    return TerminalError(
        f"Topic '{topic}': its log begins with rows of {seed.source}, and has not read all of them.",
        hint="Restore its `start`, or delete this topic's log, and begin again.",
    )

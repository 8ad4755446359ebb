"""Sinks that keep what they are given: one that only takes rows, and one that also says what it holds and takes corrections."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.spark.frames import local_frame

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node
    from headrace.sinks import Delivery

Key = tuple[Any, ...]
Row = dict[str, Any]


class Store:
    """Takes rows, as `KafkaSink` does: of each identity it holds the newest row."""

    name = "store"

    def __init__(self, node: Node) -> None:
        """In: node  whose rows it takes."""
        self.columns = node.columns
        self.rows: dict[Key, Row] = {}
        self.again = 0  # how often a row came that was not newer than the one held

    def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
        """See `Sink`."""
        self.take([row.asDict(recursive=True) for row in rows.collect()], delivery)

    def deliver_table(self, rows: pa.Table, delivery: Delivery) -> None:
        """See `TableSink`."""
        self.take(rows.to_pylist(), delivery)

    def take(self, rows: list[Row], delivery: Delivery) -> None:
        """Take the rows of a delivery."""
        taken = sorted(rows, key=_place)
        assert len({_place(row) for row in taken}) == len(taken), f"{delivery.node}: two rows at one place"
        for row in taken:
            key = _identity(row, delivery)
            if key in self.rows and _place(row) <= _place(self.rows[key]):
                self.again += 1
            if key not in self.rows or _place(row) >= _place(self.rows[key]):
                self.rows[key] = row

    def table(self) -> list[str]:
        """The rows that it holds, in a fixed order."""
        held = (row for row in self.rows.values() if not row["__deleted"])
        return sorted(shown({name: row[name] for name in self.columns}) for row in held)


class KeyedStore(Store):
    """Also says what it holds, and takes corrections, as `PostgresSink` does."""

    types: T.StructType | None = None  # of the rows that came last

    def identities(self, spark: SparkSession, delivery: Delivery) -> DataFrame:
        """See `ReadableSink`."""
        names = delivery.identity
        rows = [tuple(row[name] for name in names) for row in self.rows.values() if not row["__deleted"]]
        known = [T.StringType() if self.types is None else self.types[name].dataType for name in names]
        return local_frame(spark, rows, T.StructType([*map(T.StructField, names, known)]))

    def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
        """See `Sink`."""
        self.types = rows.schema
        super().deliver(rows, delivery)

    def deliver_table(self, rows: pa.Table, delivery: Delivery) -> None:
        """See `TableSink`."""
        self.types = from_arrow_schema(rows.schema)
        super().deliver_table(rows, delivery)

    def correct(self, rows: DataFrame, delivery: Delivery, through: int) -> None:
        """See `CorrectableSink`."""
        self.types = rows.schema
        for row in (row.asDict(recursive=True) for row in rows.collect()):
            key = _identity(row, delivery)
            if key not in self.rows or self.rows[key]["__sequence"] <= through:
                self.rows[key] = row


def shown(row: Row) -> str:
    """A row as text, whoever has read it."""
    return repr(_plain(row))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(of) for name, of in value.items()}
    if isinstance(value, list):
        return [*map(_plain, value)]
    if isinstance(value, dt.datetime):
        return (value if value.tzinfo is None else value.astimezone(dt.UTC)).replace(tzinfo=None).isoformat()
    return value


def _identity(row: Row, delivery: Delivery) -> Key:
    return tuple(repr(_plain(row[name])) for name in delivery.identity)


def _place(row: Row) -> Key:
    return row["__sequence"], bytes(row["__place"])

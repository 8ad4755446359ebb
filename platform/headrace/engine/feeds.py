"""The rows that an operator takes, on their way from Spark to a task.

SQL computes them, row by row (see `headrace.spark.row_steps`). All feeds of a node travel in one frame, so that one task can
have them all; of each feed the columns that its operator reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from headrace.description import Batches, Lookup, Relation, Suppressed, Table, quote
from headrace.engine.operators import RECORDS, Feed, feeds_of
from headrace.fold.contract import ROW_COLUMNS, TOPIC
from headrace.fold.relations.tree import leaves_of
from headrace.fold.tables.decide_records import PASSES
from headrace.sequence.log_columns import log_schema
from headrace.spark.frames import Selection, local_frame
from headrace.spark.one_task import arrow_schema
from headrace.spark.row_steps import rows_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from headrace.description import Node

FEED = "__feed"  # the number of a row's feed, where several travel together


@dataclass(frozen=True)
class FeedRows:
    """The rows of one feed.

    schema  as the operator takes them
    topic   the one topic that all of them have, so that they need not carry it; None: they do
    """

    schema: pa.Schema
    topic: str | None

    @property
    def carried(self) -> tuple[str, ...]:
        """The columns that travel."""
        return tuple(name for name in self.schema.names if name != TOPIC or self.topic is None)

    def of(self, columns: Mapping[str, pa.ChunkedArray], rows: int) -> pa.Table:
        """The rows, from the columns that travelled."""
        found = dict(columns)
        if self.topic is not None:
            found[TOPIC] = pa.chunked_array([pa.repeat(pa.scalar(self.topic, pa.string()), rows)])
        arrays = [found[field.name].cast(field.type) for field in self.schema]
        return pa.Table.from_arrays(arrays, schema=self.schema)


@dataclass(frozen=True)
class PackedFeeds:
    """How feeds travel in one frame. It goes to tasks."""

    feeds: Mapping[str, FeedRows]

    @property
    def names(self) -> list[str]:
        """The columns of the frame."""
        if len(self.feeds) == 1:
            return [*next(iter(self.feeds.values())).carried]
        feeds = enumerate(self.feeds.values())
        return [FEED, *(_packed(number, name) for number, feed in feeds for name in feed.carried)]

    def carrying(self, name: str) -> list[str]:
        """The columns of the frame that are a column of that name in some feed."""
        several = len(self.feeds) > 1
        feeds = enumerate(self.feeds.values())
        return [_packed(n, name) if several else name for n, feed in feeds if name in feed.carried]

    def empty(self) -> dict[str, pa.Table]:
        """No rows of each feed."""
        return {name: feed.schema.empty_table() for name, feed in self.feeds.items()}

    def unpacked(self, rows: pa.Table) -> dict[str, pa.Table]:
        """The rows of each feed."""
        rows = rows.combine_chunks()
        if len(self.feeds) == 1:
            ((name, feed),) = self.feeds.items()
            return {name: feed.of({each: rows[each] for each in feed.carried}, rows.num_rows)}
        found, number_of_row = {}, rows[FEED].to_numpy()
        for number, (name, feed) in enumerate(self.feeds.items()):
            own = rows.filter(pa.array(number_of_row == number))
            columns = {each: own[_packed(number, each)] for each in feed.carried}
            found[name] = feed.of(columns, own.num_rows)
        return found


class NodeRows:
    """The rows of one node's feeds as Spark gives them.

    columns  of each feed those of its stream, after its steps, that the operator reads
    packed   how they travel
    """

    def __init__(self, spark: SparkSession, node: Node) -> None:
        """Look at what columns the steps make."""
        self.node, self._feeds = node, feeds_of(node)
        empty = {topic.name: local_frame(spark, [], log_schema(topic)) for topic in node.topics}
        self.columns: dict[str, pa.Schema] = {}
        rows: dict[str, FeedRows] = {}
        self._selections: list[Selection] = []
        for name, feed in self._feeds.items():
            schema = arrow_schema(self._rows(feed, empty).schema)
            read = _spelled(schema, _columns_read(node, name))
            self.columns[name] = pa.schema([schema.field(each).with_nullable(True) for each in read])
            topic = feed.topics[0] if len(feed.topics) == 1 else None
            rows[name] = FeedRows(feed.schema(self.columns[name]), topic)
        self.packed = PackedFeeds(rows)
        for number, feed_rows in enumerate(rows.values()):
            self._selections.append(Selection(*self._packing(number, feed_rows)))

    def frame(self, logs: Mapping[str, DataFrame]) -> DataFrame:
        """The rows of all feeds as `packed` says. In: logs  for each topic's name, rows of its log."""
        frames = [
            selection.of(self._rows(feed, logs))
            for feed, selection in zip(self._feeds.values(), self._selections, strict=True)
        ]
        packed = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
        return packed if len(frames) == 1 else packed.select(*(F.col(quote(n)) for n in self.packed.names))

    def _rows(self, feed: Feed, logs: Mapping[str, DataFrame]) -> DataFrame:
        rows = rows_of({topic: logs[topic] for topic in feed.topics}, feed.stream)
        if not feed.conditions:
            return rows
        passes = (F.coalesce(F.expr(condition), F.lit(False)) for condition in feed.conditions)
        return rows.withColumn(PASSES, reduce(lambda one, other: one & other, passes))

    def _packing(self, number: int, rows: FeedRows) -> list[Column]:
        if len(self._feeds) == 1:
            return [F.col(quote(name)) for name in rows.carried]
        carried = (F.col(quote(name)).alias(_packed(number, name)) for name in rows.carried)
        return [F.lit(number).cast("tinyint").alias(FEED), *carried]


def _packed(number: int, name: str) -> str:
    return f"{number}:{name}"


def _columns_read(node: Node, feed: str) -> Sequence[str]:
    """The columns of a feed's stream that the operator of its node reads, in any spelling."""
    match node:
        case Lookup():
            assert node.stream.columns is not None
            return node.stream.columns if feed == RECORDS else node.table.columns
        case Suppressed():
            return _columns_read(node.updated, feed)
        case Batches():
            return (*node.by, *node.collect)
        case Relation():
            leaf = leaves_of(node)[feed]
            if isinstance(leaf, Table):
                return leaf.columns
            read = [aggregate.column for _, aggregate in leaf.aggregates if aggregate.column is not None]  # type: ignore[attr-defined]
            return (*leaf.by, *read)  # type: ignore[attr-defined]
    raise AssertionError(f"a node of another kind: {type(node)}")


def _spelled(schema: pa.Schema, wanted: Sequence[str]) -> list[str]:
    """These columns, each once, as a schema spells them: names are compared without case, if none is the same."""
    own = [name for name in schema.names if name not in (*ROW_COLUMNS.names, PASSES)]
    by_text = {name.lower(): name for name in reversed(own)}
    return [*dict.fromkeys(name if name in own else by_text[name.lower()] for name in wanted)]

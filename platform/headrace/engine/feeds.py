"""The rows that an operator takes, on their way to a task.

A task reads the log's files by itself where a stream has no steps. Otherwise SQL computes them, row by row (see
`headrace.spark.row_steps`), and they travel from Spark in one frame, with those of the node's other feeds. Only the columns
that the feed's operator reads travel.

Law: both ways give the same rows; their fates are told in one place (`headrace.sequence.operator_rows`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type

from headrace.description import (
    Batches,
    FlatMapped,
    Lookup,
    NamedStream,
    Processed,
    Relation,
    StreamJoin,
    Suppressed,
    Table,
    TableChanges,
    quote,
)
from headrace.description.feeds import LEFT, RECORDS, Feed, feeds_of, leaves_of, table_feed
from headrace.description.record_metadata import HEADERS
from headrace.engine.log_slices import LogSlice, Origin
from headrace.engine.operators import feed_schema
from headrace.engine.unusable import Unusable, decided_rows, marked, open_rows
from headrace.fold.aggregates.kind import whole
from headrace.fold.contract import ROW_COLUMNS, TOPIC
from headrace.fold.records import CHAIN
from headrace.fold.tables.decide_records import PASSES
from headrace.sequence.log_columns import HEADERS as LOG_HEADERS
from headrace.sequence.log_columns import log_schema
from headrace.sequence.operator_rows import RAW_COLUMNS, REFUSED, row_columns
from headrace.sequence.replays.hops import open_chains_of
from headrace.spark.frames import Selection, local_frame
from headrace.spark.one_task import arrow_schema
from headrace.spark.refusals import refusals_explained, refusals_of
from headrace.spark.row_steps import RAW, origins, refuse_generators, refuses, rows_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from headrace.description import Node

FEED = "__feed"  # the number of a row's feed, where several travel together


@dataclass(frozen=True)
class FeedRows:
    """The rows of one feed.

    schema   as the operator takes them
    topic    the one topic that all of them have, so that they need not carry it; None: they do
    refused  whether a `where` is among the steps
    chains   for each topic the header with the source chain; None: the chains do not matter
    origins  for each topic where its log has the columns, so that a task reads the log by itself; None: SQL computes some
    """

    schema: pa.Schema
    topic: str | None
    refused: bool
    origins: Mapping[str, Mapping[str, Origin]] | None
    chains: Mapping[str, str] | None = None

    @property
    def carried(self) -> tuple[str, ...]:
        """The columns that travel: those that SQL computes, and those by which a row's fate is told."""
        computed = (name for name in self.schema.names if name not in (*ROW_COLUMNS.names, CHAIN))
        raw = (name for name in RAW.values() if name != TOPIC or self.topic is None)
        headers = (HEADERS,) if self.chains is not None else ()
        return (*computed, *raw, *headers, *((REFUSED,) if self.refused else ()))

    def of(self, columns: Mapping[str, pa.ChunkedArray], rows: int) -> pa.Table:
        """The rows, from the columns that travelled."""
        found = dict(columns)
        if self.topic is not None:
            found[TOPIC] = pa.chunked_array([pa.repeat(pa.scalar(self.topic, pa.string()), rows)])
        raw = {name: found.pop(mark) for name, mark in RAW.items()}
        if self.chains is not None:
            read = (found.pop(HEADERS), raw["topic"], raw["partition"], raw["offset"])
            headers, *place = map(whole, read)
            found[CHAIN] = pa.chunked_array([open_chains_of(headers, self.chains, *place)])
        found |= row_columns(raw | {name: found[name] for name in (REFUSED,) if name in found}, rows)
        arrays = [found[field.name].cast(field.type) for field in self.schema]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def read(self, slices: Mapping[str, LogSlice]) -> pa.Table:
        """The rows, from the logs. In: slices  of each topic."""
        assert self.origins is not None
        parts = []
        for topic, columns in self.origins.items():
            rows = slices[topic].read(columns)
            parts.append(self.of(dict(zip(rows.column_names, rows.columns, strict=True)), rows.num_rows))
        return pa.concat_tables(parts).combine_chunks()


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


class Packer:
    """Packs the rows of feeds into one frame."""

    def __init__(self, packed: PackedFeeds) -> None:
        """Needs a running Spark."""
        self.packed = packed
        self._selections = [
            Selection(*self._columns(number, feed)) for number, feed in enumerate(packed.feeds.values())
        ]

    def pack(self, frames: Mapping[str, DataFrame]) -> DataFrame:
        """One frame with the rows of all feeds. In: frames  of each feed, as `rows_of` gives them, with PASSES."""
        both = _together(list(self.carried(frames).values()))
        return both if len(frames) == 1 else both.select(*(F.col(quote(n)) for n in self.packed.names))

    def carried(self, frames: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
        """The columns that travel, of some of the feeds."""
        selections = zip(self.packed.feeds, self._selections, strict=True)
        return {name: selection.of(frames[name]) for name, selection in selections if name in frames}

    def _columns(self, number: int, feed: FeedRows) -> list[Column]:
        if len(self.packed.feeds) == 1:
            return [F.col(quote(name)) for name in feed.carried]
        carried = (F.col(quote(name)).alias(_packed(number, name)) for name in feed.carried)
        return [F.lit(number).cast("tinyint").alias(FEED), *carried]


class NodeRows:
    """The rows of one node's feeds.

    columns   of each feed those of its stream, after its steps, that the operator reads
    packed    how all of them travel from Spark
    computed  the same for those that Spark has to compute when an increment is folded; tasks read the others by themselves
    """

    def __init__(self, spark: SparkSession, node: Node) -> None:
        """Look at what columns the steps make."""
        self.node, self._feeds = node, feeds_of(node)
        empty = {topic.name: local_frame(spark, [], log_schema(topic)) for topic in node.topics}
        self.columns: dict[str, pa.Schema] = {}
        rows: dict[str, FeedRows] = {}
        for name, feed in self._feeds.items():
            with refusals_of(node):
                frame = feed_frame(feed, empty)
            refuse_generators(frame, feed.stream)
            schema = arrow_schema(frame.schema)
            read = _spelled(schema, _columns_read(node, name))
            self.columns[name] = pa.schema([schema.field(each).with_nullable(True) for each in read])
            topic = feed.topics[0] if len(feed.topics) == 1 else None
            own = feed_schema(feed, self.columns[name])
            origins = _origins(feed, self.columns[name])
            rows[name] = FeedRows(own, topic, refuses(feed.stream), origins, _chain_headers(feed))
        self.packed = PackedFeeds(rows)
        self.computed = PackedFeeds({name: each for name, each in rows.items() if each.origins is None})
        self._packer, self._computed_packer = Packer(self.packed), Packer(self.computed)

    @cached_property
    def stepped(self) -> Mapping[str, Feed]:
        """The feeds in `computed`: those that have steps or conditions."""
        return {name: self._feeds[name] for name in self.computed.feeds}

    def logs(self, spark: SparkSession, slices: Mapping[str, LogSlice]) -> dict[str, DataFrame]:
        """The rows of the logs of these feeds, for each topic's name."""
        topics = {topic.name: topic for feed in self.stepped.values() for topic in feed.stream.topics}
        return {name: slices[name].frame(spark, topic) for name, topic in topics.items()}

    def frame(self, logs: Mapping[str, DataFrame], unusable: Sequence[Unusable]) -> DataFrame:
        """The rows of all feeds as `packed` says, with unusable records set apart.

        In: logs  for each topic's name, rows of its log
        """
        rows = {
            name: self.rows_apart(name, feed, logs, unusable)
            if name in self.stepped
            or any(each.feed == name for each in unusable)  # a processor sets records apart, too
            else feed_frame(feed, logs)
            for name, feed in self._feeds.items()
        }
        return self._packer.pack(rows)

    def computed_frame(
        self, spark: SparkSession, slices: Mapping[str, LogSlice], unusable: Sequence[Unusable] | None = None
    ) -> DataFrame | None:
        """The rows of the feeds in `computed`; None: there are none.

        In:  unusable  records that are set apart, and with them all rows whose fate is known; None: none are
        Law: if no step raises, operators make the same of both, for they read no columns of rows whose fate is known.
        """
        topics = {topic for feed in self.stepped.values() for topic in feed.topics}
        if not any(slices[name].files for name in topics):
            return None
        logs, feeds = self.logs(spark, slices), self.stepped.items()
        if unusable is None:
            rows = {name: feed_frame(feed, logs) for name, feed in feeds}
        else:
            rows = {name: self.rows_apart(name, feed, logs, unusable) for name, feed in feeds}
        return self._computed_packer.pack(rows)

    def evaluated(
        self, logs: Mapping[str, DataFrame], unusable: Sequence[Unusable], only: str | None = None
    ) -> DataFrame:
        """Those rows of the feeds in `computed` that steps are evaluated for: their fate is open, and they are usable.

        In: only  the name of a feed; None: all of them
        """
        feeds = {name: feed for name, feed in self.stepped.items() if only in (None, name)}
        rows = {
            name: feed_frame(feed, open_rows(feed, marked(name, feed, logs, unusable)))
            for name, feed in feeds.items()
        }
        return _together(list(self._computed_packer.carried(rows).values()))

    def rows_apart(
        self, name: str, feed: Feed, logs: Mapping[str, DataFrame], unusable: Sequence[Unusable]
    ) -> DataFrame:
        """The rows of a feed with unusable records set apart: steps are evaluated for none whose fate is known."""
        rows = marked(name, feed, logs, unusable)
        return _together([feed_frame(feed, open_rows(feed, rows)), *decided_rows(feed, rows)])


def feed_frame(feed: Feed, logs: Mapping[str, DataFrame]) -> DataFrame:
    """The rows of a feed as `rows_of` gives them, with PASSES if its table has conditions. In: logs  by topic."""
    rows = rows_of({topic: logs[topic] for topic in feed.topics}, feed.stream, headers=feed.reads_headers)
    if not feed.conditions:
        return rows
    passes = (F.coalesce(F.expr(condition), F.lit(False)) for condition in feed.conditions)
    with refusals_explained(", ".join(f"where({condition!r})" for condition in feed.conditions)):
        return rows.withColumn(PASSES, reduce(lambda one, other: one & other, passes))


def _together(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def _origins(feed: Feed, columns: pa.Schema) -> dict[str, dict[str, Origin]] | None:
    """For each topic where its log has the columns of a feed; None: SQL computes some."""
    topics = feed.stream.topics
    if feed.conditions or len({*topics}) < len(topics) or any(b.steps for b in feed.stream.branches):
        return None
    raw = {RAW[field.name]: Origin((field.name,), field.type) for field in RAW_COLUMNS}
    if feed.chained:
        raw[HEADERS] = Origin(("headers",), to_arrow_type(LOG_HEADERS))
    found = {}
    for topic in topics:
        sides = {name.lower(): (side, name) for name, side in origins(topic).items()}
        own = {field.name: Origin(sides[field.name.lower()], field.type) for field in columns}
        found[topic.name] = own | raw
    return found


def _chain_headers(feed: Feed) -> dict[str, str] | None:
    """For each topic the name of the header with the source chain; None: the chains of a feed do not matter."""
    if not feed.chained:
        return None
    return {topic.name: topic.chain_header for topic in feed.stream.topics}


def _packed(number: int, name: str) -> str:
    return f"{number}:{name}"


def _columns_read(node: Node, feed: str) -> Sequence[str]:
    """The columns of a feed's stream that the operator of its node reads, in any spelling."""
    match node:
        case Lookup():
            assert node.stream.columns is not None
            return node.stream.columns if feed == RECORDS else node.right.columns
        case StreamJoin():
            return (node.left if feed == LEFT else node.right).columns or ()
        case Suppressed():
            return _columns_read(node.updated, feed)
        case TableChanges():
            return _columns_read(node.changed, feed)
        case Batches():
            return (*node.by, *node.collect)
        case NamedStream():
            return node.columns
        case Processed():
            tables = {table_feed(each.name): each.table.columns for each in node.tables}
            return tables.get(feed, node.stream.columns or ())
        case FlatMapped():
            assert node.stream.columns is not None
            return node.stream.columns
        case Relation():
            leaf = leaves_of(node)[feed]
            if isinstance(leaf, Table):
                return leaf.columns
            read = [name for _, aggregate in leaf.aggregates for name in aggregate.columns]  # type: ignore[attr-defined]
            return (*leaf.by, *read)  # type: ignore[attr-defined]
    raise AssertionError(f"a node of another kind: {type(node)}")


def _spelled(schema: pa.Schema, wanted: Sequence[str]) -> list[str]:
    """These columns, each once, as a schema spells them: names are compared without case, if none is the same."""
    own = [name for name in schema.names if name not in (*RAW.values(), REFUSED, PASSES)]
    by_text = {name.lower(): name for name in reversed(own)}
    return [*dict.fromkeys(name if name in own else by_text[name.lower()] for name in wanted)]

"""The rows that an operator takes, on their way to a task.

A task reads the log's files by itself where a stream has no steps. Otherwise SQL computes them, row by row (see
`headrace.spark.row_steps`), and they travel from Spark in one frame, with those of the node's other feeds. Only the columns
that the feed's operator reads travel.

Law: both ways give the same rows; their fates are told in one place (`headrace.sequence.operator_rows`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type

from headrace.description import (
    quote,
)
from headrace.description.expressions import parse_expression
from headrace.description.feeds import Feed, feeds_of
from headrace.description.record_metadata import HEADERS
from headrace.engine.folding.operators import feed_schema
from headrace.engine.slices.feed_rows import FEED, FeedRows, PackedFeeds, packed_name
from headrace.engine.slices.log_slices import LogSlice, Origin
from headrace.engine.steps.arrow_steps import ArrowSteps
from headrace.engine.steps.unusable import Unusable, decided_rows, marked, open_rows
from headrace.fold.contract import CAUSE
from headrace.fold.tables.decide_records import PASSES
from headrace.sequence.log_columns import HEADERS as LOG_HEADERS
from headrace.sequence.log_columns import log_schema
from headrace.sequence.operator_rows import RAW_COLUMNS, REFUSED
from headrace.spark.errors.day_of_run import refuse_day_of_run
from headrace.spark.errors.refusals import refusals_explained, refusals_of
from headrace.spark.frames import Selection, local_frame
from headrace.spark.one_task import arrow_schema, nullable
from headrace.spark.row_steps import (
    RAW,
    expression_of,
    origins,
    raw_column,
    refuse_generators,
    refuses,
    rows_of,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from headrace.description import Node


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
        carried = (F.col(quote(name)).alias(packed_name(number, name)) for name in feed.carried)
        return [F.lit(number).cast("tinyint").alias(FEED), *carried]


class NodeRows:
    """The rows of one node's feeds.

    columns   of each feed those of its stream, after its steps, that the operator reads
    packed    how all of them travel from Spark
    computed  the same for those that Spark has to compute when an increment is folded; tasks read the others by themselves
    in_arrow  whether steps are evaluated without Spark where they can be
    """

    def __init__(self, spark: SparkSession, node: Node, *, in_arrow: bool = True) -> None:
        """Look at what columns the steps make. In: in_arrow  whether tasks evaluate the steps that they can evaluate."""
        self.node, self.in_arrow, self._feeds = node, in_arrow, feeds_of(node)
        self.columns: dict[str, pa.Schema] = {}
        rows: dict[str, FeedRows] = {}
        for name, feed in self._feeds.items():
            schema = (_schema_by_terms(feed) if in_arrow else None) or self._schema_by_spark(spark, feed)
            read = _spelled(schema, feed.columns_read)
            self.columns[name] = pa.schema([schema.field(each).with_nullable(True) for each in read])
            topic = feed.topics[0] if len(feed.topics) == 1 else None
            own = feed_schema(feed, self.columns[name])
            steps = _arrow_steps(feed, self.columns[name]) if in_arrow else {}
            origins = _origins(feed, self.columns[name], steps)
            rows[name] = FeedRows(own, topic, refuses(feed.stream), origins, _chain_headers(feed), steps)
        self.packed = PackedFeeds(rows)
        self.computed = PackedFeeds({name: each for name, each in rows.items() if each.origins is None})

    def _schema_by_spark(self, spark: SparkSession, feed: Feed) -> pa.Schema:
        """The columns after a feed's steps. Raises: DescriptionError when Spark refuses one."""
        with refusals_of(self.node):
            frame = feed_frame(
                feed,
                {topic.name: local_frame(spark, [], log_schema(topic)) for topic in feed.stream.topics},
            )
        refuse_generators(frame, feed.stream)
        if any(branch.steps for branch in feed.stream.branches) or feed.conditions:
            refuse_day_of_run(frame, f"Node '{self.node.name}'")
        return arrow_schema(frame.schema)

    @cached_property
    def _packer(self) -> Packer:
        return Packer(self.packed)

    @cached_property
    def _computed_packer(self) -> Packer:
        return Packer(self.computed)

    @cached_property
    def stepped(self) -> Mapping[str, Feed]:
        """The feeds in `computed`: those with steps or conditions that Spark has to evaluate."""
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
    own = {topic: logs[topic] for topic in feed.topics}
    rows = rows_of(
        own, feed.stream, headers=feed.reads_headers, clocks=feed.clocked, causes=feed.reads_causes
    )
    if not feed.conditions:
        return rows
    passes = (F.coalesce(expression_of(condition), F.lit(False)) for condition in feed.conditions)
    with refusals_explained(", ".join(f"where({condition!r})" for condition in feed.conditions)):
        return rows.withColumn(PASSES, reduce(lambda one, other: one & other, passes))


def _together(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def _origins(
    feed: Feed, columns: pa.Schema, steps: Mapping[str, ArrowSteps]
) -> dict[str, dict[str, Origin]] | None:
    """For each topic where its log has the columns of a feed, or those that its steps read; None: Spark computes some."""
    topics = feed.stream.topics
    stepped = {branch.topic.name for branch in feed.stream.branches if branch.steps or feed.conditions}
    if len({*topics}) < len(topics) or not stepped <= steps.keys():
        return None
    found = {}
    for topic in topics:
        raw = {
            RAW[field.name]: Origin((raw_column(field.name, topic, clocks=feed.clocked),), field.type)
            for field in RAW_COLUMNS
        }
        if feed.reads_causes:
            raw[CAUSE] = Origin(("cause",), pa.binary())
        if feed.reads_headers:
            raw[HEADERS] = Origin(("headers",), to_arrow_type(LOG_HEADERS))
        sides = {name.lower(): (side, name) for name, side in origins(topic).items()}
        read = steps[topic.name].columns if topic.name in steps else columns
        own = {field.name: Origin(sides[field.name.lower()], field.type) for field in read}
        found[topic.name] = own | raw
    return found


def _schema_by_terms(feed: Feed) -> pa.Schema | None:
    """The columns after a feed's steps, by the types that terms have; None: Spark has to be asked."""
    found: list[pa.Schema] = []
    for branch in feed.stream.branches:
        columns = {name.lower() for name in branch.topic.columns}
        steps = ArrowSteps.of(branch.topic, branch.steps, feed.conditions, columns, every=True)
        if steps is None:
            return None
        found.append(nullable(steps.columns_after))
    first, *others = found
    if any({*first} != {*other} for other in others):  # Spark makes one type of two
        return None
    return first


def _arrow_steps(feed: Feed, columns: pa.Schema) -> dict[str, ArrowSteps]:
    """For each topic with steps those that a task evaluates; a topic whose steps Spark has to evaluate is missing.

    In: columns  of the feed
    """
    found = {}
    for branch in feed.stream.branches:
        if not branch.steps and not feed.conditions:
            continue
        wanted = {name.lower() for name in columns.names}
        for sql in feed.conditions:
            wanted |= {name.lower() for name in parse_expression(sql, "a condition").columns}
        steps = ArrowSteps.of(branch.topic, branch.steps, feed.conditions, wanted)
        if steps is not None:
            found[branch.topic.name] = steps
    return found


def _chain_headers(feed: Feed) -> dict[str, str] | None:
    """For each topic the name of the header with the source chain; None: the chains of a feed do not matter."""
    if not feed.chained:
        return None
    return {topic.name: topic.chain_header for topic in feed.stream.topics}


def _spelled(schema: pa.Schema, wanted: Sequence[str]) -> list[str]:
    """These columns, each once, as a schema spells them: names are compared without case, if none is the same."""
    own = [name for name in schema.names if name not in (*RAW.values(), REFUSED, PASSES)]
    by_text = {name.lower(): name for name in reversed(own)}
    return [*dict.fromkeys(name if name in own else by_text[name.lower()] for name in wanted)]

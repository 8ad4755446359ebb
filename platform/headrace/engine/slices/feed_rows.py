"""The rows of a node's feeds as tasks read them from the log, or get them from Spark in one frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from headrace.description.record_metadata import HEADERS
from headrace.engine.slices.log_slices import LogSlice, Origin
from headrace.engine.steps.arrow_steps import ArrowSteps
from headrace.fold.aggregates.kind import whole
from headrace.fold.contract import ROW_COLUMNS, TOPIC
from headrace.fold.records import CHAIN
from headrace.sequence.operator_rows import REFUSED, row_columns
from headrace.sequence.replays.hops import open_chains_of
from headrace.spark.row_steps import RAW

FEED = "__feed"  # the number of a row's feed, where several travel together


@dataclass(frozen=True)
class FeedRows:
    """The rows of one feed.

    schema   as the operator takes them
    topic    the one topic that all of them have, so that they need not carry it; None: they do
    refused  whether a `where` is among the steps
    chains   for each topic the header with the source chain; None: the chains do not matter
    origins  for each topic where its log has the columns, so that a task reads the log by itself; None: Spark computes some
    steps    for each topic the steps that the task evaluates; a topic without steps is missing
    """

    schema: pa.Schema
    topic: str | None
    refused: bool
    origins: Mapping[str, Mapping[str, Origin]] | None
    chains: Mapping[str, str] | None = None
    steps: Mapping[str, ArrowSteps] = field(default_factory=dict)

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
            if topic in self.steps:
                rows = self.steps[topic].applied(rows)
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
        return [FEED, *(packed_name(number, name) for number, feed in feeds for name in feed.carried)]

    def carrying(self, name: str) -> list[str]:
        """The columns of the frame that are a column of that name in some feed."""
        several = len(self.feeds) > 1
        feeds = enumerate(self.feeds.values())
        return [packed_name(n, name) if several else name for n, feed in feeds if name in feed.carried]

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
            columns = {each: own[packed_name(number, each)] for each in feed.carried}
            found[name] = feed.of(columns, own.num_rows)
        return found


def packed_name(number: int, name: str) -> str:
    """The name of a feed's column in a frame of several feeds. In: number  of the feed."""
    return f"{number}:{name}"

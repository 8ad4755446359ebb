"""The evidence of some keys as this process reads it from logs of any size, part by part: the columns of a key first.

Law: it has the rows of `LocalEvidence` and of `SparkEvidence`. Rows of other keys are skipped once their key is read.
The node's tables are read only if they are asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa

from headrace.description import Where, WithColumn
from headrace.engine.log_parts import Wanted, at_place, nothing_of, parts_of
from headrace.engine.log_slices import Origin
from headrace.errors import TransientError
from headrace.expressions import SparkNeededError
from headrace.fold.contract import FATE, INGESTED, OFFSET, PARTITION, STREAM, TOPIC
from headrace.fold.fates import NOT_RECORDS, TICK, has_fate
from headrace.fold.values.columns import int64
from headrace.lake import open_table
from headrace.lifecycle.local_evidence import LocalEvidence, among, lowest, plain, usable_keys
from headrace.lifecycle.oracle_evidence import Evidence, Rows
from headrace.lifecycle.spark_evidence import SparkEvidence
from headrace.nodes.feed_tables import set_apart
from headrace.nodes.node_tables import read_progress, slices_of
from headrace.nodes.operator_frames import operator_of
from headrace.nodes.unusable_table import UnusableTable
from headrace.oracle.reader_time import BUSY, IDLE, Commit, commits_of
from headrace.sequence.log_columns import CONTROL, DEAD_LETTER, RECORD
from headrace.sequence.operator_rows import MOMENT
from headrace.spark.row_steps import raw_column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node, Topic
    from headrace.engine.feed_rows import FeedRows
    from headrace.engine.log_slices import LogSlice
    from headrace.engine.unusable import Unusable
    from headrace.lake.paths import Lake
    from headrace.nodes.bound_operator import BoundOperator

NEVER = -(1 << 63)
PLACED = (RECORD, DEAD_LETTER)  # the kinds of rows that have offsets


@dataclass(frozen=True)
class KeyedEvidence(Evidence):
    """See `Evidence`.

    In: slices  of each topic
        within  event times in µs between which the records of keys lie; None: any
    """

    lake: Lake
    slices: Mapping[str, LogSlice]
    unusable: Sequence[Unusable]
    within: tuple[int, int] | None = None

    @classmethod
    def read(cls, spark: SparkSession, lake: Lake, node: Node, of: BoundOperator) -> KeyedEvidence:
        """The evidence as of the node's last micro-batch; no row is read yet."""
        results = open_table(lake.table(node.required_name))
        version = results.version
        progress = read_progress(lake, node)
        upto_ms = {topic.name: progress.upto_ms.get(topic.name, 0) for topic in node.topics}
        slices, unusable = slices_of(lake, node, {}, upto_ms), UnusableTable(spark, lake, node).read()
        version = results.version if operator_of(node).appended else version
        return cls(spark, node, of, progress, version, lake, slices, unusable)

    def between(self, first_us: int, end_us: int) -> Self:
        """See `Evidence`."""
        return replace(self, within=(first_us, end_us))

    @property
    def feeds(self) -> Sequence[str]:
        """See `Evidence`."""
        return [*self.of.rows.packed.feeds]

    @property
    def table_columns(self) -> Sequence[str]:
        """See `Evidence`."""
        return self._stored.table_columns

    def table(self, by: Sequence[str], keys: pa.Table | None) -> Rows:
        """See `Evidence`."""
        return self._stored.table(by, keys)

    @cached_property
    def _stored(self) -> LocalEvidence:
        """The node's tables, without its logs."""
        stored = LocalEvidence.of_tables(self.spark, self.lake, self.node, self.of)
        if stored.progress != self.progress:
            raise TransientError(
                f"Node '{self.node.required_name}' has gone on while its tables were read.", hint="Ask again."
            )
        return stored

    @cached_property
    def _by_spark(self) -> SparkEvidence:
        return SparkEvidence.read(self.spark, self.lake, self.node, self.of)

    def sampled(self, feed: str, by: Sequence[str], number: int, seed: int) -> pa.Table:
        """See `Evidence`."""
        of = self.of.rows.packed.feeds[feed]
        assert of.origins is not None
        schema = pa.schema([self.columns(feed).field(name) for name in by])
        keys = self._stored.rows.select([*by]).cast(schema)
        for rows in self._rows(feed, dict.fromkeys(of.origins, Wanted())):
            keys = lowest(pa.concat_tables([keys, usable_keys(rows, by).cast(schema)]), number, seed)
        return keys if keys.num_rows <= number else lowest(keys, number, seed)

    def of_keys(
        self, feed: str, keys: pa.Table | None, *, controls: bool = False, before: bool = False
    ) -> Rows:
        """See `Evidence`."""
        if keys is None or before:
            return self._by_spark.of_keys(feed, keys, controls=controls, before=before)
        is_bounded = self.within is not None
        with suppress(SparkNeededError):
            return self._plain(feed, keys, self.within, controls=controls and not is_bounded)
        return self._by_spark.of_keys(feed, keys, controls=controls)

    def at(self, feed: str, topic: str, partition: int, offset: int) -> Rows:
        """See `Evidence`."""
        with suppress(SparkNeededError):
            return [
                row for rows in self._rows(feed, {topic: at_place(partition, offset)}) for row in plain(rows)
            ]
        return self._by_spark.at(feed, topic, partition, offset)

    def of_partitions(self, feed: str, keys: pa.Table) -> Rows:
        """See `Evidence`."""
        return self._by_spark.of_partitions(feed, keys)

    def history(self) -> list[Commit]:
        """See `Evidence`."""
        topics = {each.name: each for each in self.node.topics}.values()
        return commits_of([row for topic in topics for row in self._times(topic)] for _ in (0,))

    def _plain(self, feed: str, keys: pa.Table, within: tuple[int, int] | None, *, controls: bool) -> Rows:
        of = self.of.rows.packed.feeds[feed]
        assert of.origins is not None
        wanted = {topic: Wanted(_values_by_origin(of, topic, keys), within, controls) for topic in of.origins}
        found: Rows = []
        for rows in self._rows(feed, wanted):
            mine = among(rows, keys.column_names, keys).to_numpy(zero_copy_only=False)
            if controls:
                mine = mine | (has_fate(rows, *NOT_RECORDS) & ~has_fate(rows, TICK))
            found += plain(rows.filter(pa.array(mine)))
        return found

    def _rows(self, feed: str, wanted: Mapping[str, Wanted]) -> Iterator[pa.Table]:
        """The rows of a feed, part by part. In: wanted  by topic; of others none are."""
        nothing = {topic: nothing_of(each) for topic, each in self.slices.items()}
        for topic, rows in wanted.items():
            for part in parts_of(self.slices[topic], rows):
                read = self.of.rows.packed.feeds[feed].read({**nothing, topic: part})
                yield set_apart(feed, read, self.unusable)

    def _times(self, topic: Topic) -> Rows:
        """For each commit, partition and fate of a log the highest stream time, as a row of `commits_of`."""
        clock = raw_column("stream_time", topic, clocks=self.node.goes_by_clocks)
        columns = {
            INGESTED: Origin(("ingested_at",), MOMENT),
            PARTITION: Origin(("partition",), pa.int32()),
            STREAM: Origin((clock,), MOMENT),
            "kind": Origin(("kind",), pa.string()),
            "control": Origin(("control",), pa.string()),
        }
        runs = [
            _runs(rows)
            for part in parts_of(self.slices[topic.name], Wanted())
            if (rows := part.read(columns)).num_rows
        ]
        if not runs:
            return []
        by = [INGESTED, PARTITION, FATE, OFFSET]
        highest = pa.concat_tables(runs).group_by(by).aggregate([(STREAM, "max")])
        return [{**row, STREAM: row.pop(f"{STREAM}_max"), TOPIC: topic.name} for row in plain(highest)]


def _values_by_origin(feed: FeedRows, topic: str, keys: pa.Table) -> dict[Origin, pa.Array]:
    """The columns of a log that a feed has as they are, and the values of keys there."""
    assert feed.origins is not None
    steps = feed.steps[topic].steps if topic in feed.steps else ()
    if not all(isinstance(step, Where | WithColumn) for step in steps):
        return {}
    made = {step.name.lower() for step in steps if isinstance(step, WithColumn)}
    found = {}
    for name in keys.column_names:
        origin = feed.origins[topic].get(name)
        if origin is None or name.lower() in made or not _is_exact(origin.type):
            continue
        found[origin] = keys[name].cast(origin.type).combine_chunks()
    return found


def _is_exact(of: pa.DataType) -> bool:
    """Whether equal values have equal bytes: not so of floating numbers."""
    kinds = (pa.types.is_string, pa.types.is_binary, pa.types.is_integer, pa.types.is_boolean)
    return any(is_kind(of) for is_kind in (*kinds, pa.types.is_timestamp, pa.types.is_date))


def _runs(rows: pa.Table) -> pa.Table:
    """The rows of a log, those that follow one another with the same commit, partition and kind as one.

    An offset of 0 says that there is one.
    """
    kinds = rows["kind"].combine_chunks().dictionary_encode()
    numbers, names = kinds.indices.to_numpy(), kinds.dictionary.to_pylist()
    at_us, partition = int64(rows[INGESTED].cast(pa.int64())), rows[PARTITION].to_numpy()
    is_control = numbers == (names.index(CONTROL) if CONTROL in names else -1)
    changes = is_control.copy()
    for values in (at_us, partition, numbers):
        changes[1:] |= values[1:] != values[:-1]
    changes[0] = True
    firsts = np.flatnonzero(changes)
    highest_us = np.maximum.reduceat(int64(rows[STREAM].cast(pa.int64()), NEVER), firsts)
    of_first = rows.select([PARTITION, "kind", "control"]).take(pa.array(firsts)).to_pylist()
    return pa.table(
        {
            INGESTED: at_us[firsts] // 1_000,
            PARTITION: partition[firsts],
            FATE: pa.array([_fate(row["kind"], row["control"]) for row in of_first], pa.string()),
            OFFSET: pa.array([0 if row["kind"] in PLACED else None for row in of_first], pa.int64()),
            STREAM: pa.array(highest_us // 1_000, mask=highest_us == NEVER),
        }
    )


def _fate(kind: str, control: str | None) -> str | None:
    """That of ticks and of rows that begin and end idleness; others do not matter here."""
    if kind == TICK:
        return TICK
    action = json.loads(control)["action"] if kind == CONTROL and control else None
    return action if action in (IDLE, BUSY) else None

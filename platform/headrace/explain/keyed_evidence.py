"""The evidence of some keys as this process reads it from logs of any size, part by part: the columns of a key first.

Law: it has the rows of `LocalEvidence` and of `SparkEvidence`. Rows of other keys are skipped once their key is read.
The node's tables are read only if they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from headrace.description import Where, WithColumn
from headrace.engine.slices.log_parts import Wanted, at_place, nothing_of, parts_of
from headrace.errors import TransientError
from headrace.explain.log_history import rows_of_commits
from headrace.expressions import SparkNeededError
from headrace.fold.fates import is_control
from headrace.lake import open_table
from headrace.lifecycle.evidence.local_evidence import LocalEvidence, among, lowest, plain, usable_keys
from headrace.lifecycle.evidence.oracle_evidence import Evidence, Rows
from headrace.lifecycle.evidence.spark_evidence import SparkEvidence
from headrace.nodes.node_tables import read_progress, slices_of
from headrace.nodes.rows.feed_tables import set_apart
from headrace.nodes.unusable_table import UnusableTable
from headrace.oracle.reader_time import Commit, commits_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.engine.slices.feed_rows import FeedRows
    from headrace.engine.slices.log_slices import LogSlice, Origin
    from headrace.engine.steps.unusable import Unusable
    from headrace.lake.paths import Lake
    from headrace.nodes.bound_operator import BoundOperator


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
        version = results.version if node.has_days else version
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
        clocks, topics = self.node.goes_by_clocks, {each.name: each for each in self.node.topics}
        return commits_of(
            rows_of_commits(self.slices[name], topic, clocks=clocks) for name, topic in topics.items()
        )

    def _plain(self, feed: str, keys: pa.Table, within: tuple[int, int] | None, *, controls: bool) -> Rows:
        of = self.of.rows.packed.feeds[feed]
        assert of.origins is not None
        wanted = {topic: Wanted(_values_by_origin(of, topic, keys), within, controls) for topic in of.origins}
        found: Rows = []
        for rows in self._rows(feed, wanted):
            mine = among(rows, keys.column_names, keys).to_numpy(zero_copy_only=False)
            if controls:
                mine = mine | is_control(rows)
            found += plain(rows.filter(pa.array(mine)))
        return found

    def _rows(self, feed: str, wanted: Mapping[str, Wanted]) -> Iterator[pa.Table]:
        """The rows of a feed, part by part. In: wanted  by topic; of others none are."""
        nothing = {topic: nothing_of(each) for topic, each in self.slices.items()}
        for topic, rows in wanted.items():
            for part in parts_of(self.slices[topic], rows):
                read = self.of.rows.packed.feeds[feed].read({**nothing, topic: part})
                yield set_apart(feed, read, self.unusable)


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

"""The evidence of a comparison as this process reads it: for tests, and for logs that fit into memory.

Law: it has the rows of `SparkEvidence`. Spark starts only for steps that the expressions do not cover. Which keys are
sampled is another choice than Spark's: both go by hashes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.contract import FATE, INGESTED, OFFSET, PARTITION, STREAM, TOPIC
from headrace.fold.fates import is_control
from headrace.fold.hashing import xxh64
from headrace.fold.keys import combined, group, key_of_row
from headrace.fold.segments import HIGHEST, NO_TIME, before, begins, running_max
from headrace.fold.values.columns import int64
from headrace.lifecycle.evidence.oracle_evidence import BEFORE, TIMES_OF_ROWS, Evidence, Rows
from headrace.nodes.balances.older_rows import made_of
from headrace.nodes.node_tables import slices_of
from headrace.nodes.rows.feed_tables import feed_tables
from headrace.nodes.rows.stored_rows import stored_rows
from headrace.nodes.unusable_table import UnusableTable
from headrace.oracle.reader_time import Commit, commits_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake
    from headrace.nodes.bound_operator import BoundOperator

READ_BY_COMMITS = [INGESTED, TOPIC, PARTITION, OFFSET, STREAM, FATE]


@dataclass(frozen=True)
class LocalEvidence(Evidence):
    """See `Evidence`.

    In: tables  the rows of each feed
        rows    of the node's tables
    """

    tables: Mapping[str, pa.Table]
    rows: pa.Table

    @classmethod
    def read(cls, spark: SparkSession, lake: Lake, node: Node, of: BoundOperator) -> LocalEvidence:
        """The evidence as of the node's last micro-batch."""
        stored = cls.of_tables(spark, lake, node, of)
        upto_ms = {topic.name: stored.progress.upto_ms.get(topic.name, 0) for topic in node.topics}
        unusable = UnusableTable(spark, lake, node).read()
        return replace(stored, tables=feed_tables(spark, of, slices_of(lake, node, {}, upto_ms), unusable))

    @classmethod
    def of_tables(cls, spark: SparkSession, lake: Lake, node: Node, of: BoundOperator) -> LocalEvidence:
        """The node's tables alone, without its logs."""
        stored = stored_rows(lake, node, of)
        rows = made_of(node, stored.table) if node.has_days else stored.table
        times = [name for name in TIMES_OF_ROWS if name in rows.column_names]
        rows = rows.select([*node.columns, *times])
        return cls(spark, node, of, stored.progress, stored.version, {}, rows)

    @property
    def feeds(self) -> Sequence[str]:
        """See `Evidence`."""
        return [*self.tables]

    @property
    def table_columns(self) -> Sequence[str]:
        """See `Evidence`."""
        return [*self.rows.column_names]

    def table(self, by: Sequence[str], keys: pa.Table | None) -> Rows:
        """See `Evidence`."""
        return plain(self.rows if keys is None else self.rows.filter(among(self.rows, by, keys)))

    def sampled(self, feed: str, by: Sequence[str], number: int, seed: int) -> pa.Table:
        """See `Evidence`."""
        usable = usable_keys(self.tables[feed], by)
        return lowest(pa.concat_tables([usable, self.rows.select([*by]).cast(usable.schema)]), number, seed)

    def of_keys(
        self, feed: str, keys: pa.Table | None, *, controls: bool = False, before: bool = False
    ) -> Rows:
        """See `Evidence`."""
        rows = _with_stream_before(self.tables[feed]) if before else self.tables[feed]
        if keys is None:
            return plain(rows)
        mine = among(rows, keys.column_names, keys).to_numpy(zero_copy_only=False)
        if controls:
            mine = mine | is_control(rows)
        return plain(rows.filter(pa.array(mine)))

    def at(self, feed: str, topic: str, partition: int, offset: int) -> Rows:
        """See `Evidence`."""
        rows = self.tables[feed]
        places = zip((TOPIC, PARTITION, OFFSET), (topic, partition, offset), strict=True)
        is_it = reduce(pc.and_, (pc.equal(rows[name], value) for name, value in places))
        return plain(rows.filter(pc.fill_null(is_it, False)))

    def of_partitions(self, feed: str, keys: pa.Table) -> Rows:
        """See `Evidence`."""
        rows = self.tables[feed]
        own = pc.unique(rows.filter(among(rows, keys.column_names, keys))[PARTITION])
        theirs = pc.is_in(rows[PARTITION], own).to_numpy(zero_copy_only=False)
        return plain(rows.filter(pa.array(theirs | is_control(rows))))

    def history(self) -> list[Commit]:
        """See `Evidence`."""
        return commits_of(rows.select(READ_BY_COMMITS).to_pylist() for rows in self.tables.values())


def plain(rows: pa.Table) -> Rows:
    """Rows as dicts."""
    found: Rows = rows.to_pylist()
    return found


def among(rows: pa.Table, by: Sequence[str], keys: pa.Table) -> pa.Array:
    """Which rows have one of some keys. In: by  their columns. NaN is a value, and 0.0 is -0.0."""
    own = keys.rename_columns([*by]).cast(rows.select([*by]).schema)
    return pc.is_in(key_of_row(rows, by)[0], key_of_row(own, by)[0])


def usable_keys(rows: pa.Table, by: Sequence[str]) -> pa.Table:
    """The keys of the records that a node may take."""
    return rows.filter(pc.and_(rows[OFFSET].is_valid(), rows[FATE].is_null())).select([*by])


def lowest(keys: pa.Table, number: int, seed: int = 0) -> pa.Table:
    """So many of the keys, each once: those with the lowest hashes of a seed. Other keys and their order do not matter."""
    first = group(key_of_row(keys, keys.column_names)[0]).first
    bytes_of = key_of_row(keys.take(pa.array(first)), keys.column_names)[0]
    hashed = pa.table({"hash": xxh64(bytes_of, seed), "key": bytes_of})
    order = pc.sort_indices(hashed, [("hash", "ascending"), ("key", "ascending")])[:number]
    return keys.take(pa.array(first).take(order))


def _with_stream_before(rows: pa.Table) -> pa.Table:
    """Rows of logs with the stream time of their partition before them."""
    partition = combined(group(rows[TOPIC]).codes, int64(rows[PARTITION])).codes
    order = np.lexsort((int64(rows[OFFSET], HIGHEST), int64(rows[INGESTED]), partition))
    first, earlier = begins(partition[order]), np.empty(rows.num_rows, np.int64)
    stream_ms = int64(rows[STREAM], NO_TIME)[order]
    earlier[order] = before(first, running_max(first, stream_ms), NO_TIME)
    return rows.append_column(BEFORE, pa.array(earlier, mask=earlier == NO_TIME))

"""Waits where the oldest leave early: one pass over a partition's updates, in the log's order, on an executor.

Law: after each row, put first, what is due leaves, then the oldest (by timestamp, then by the entry's bytes) until the bound
in force at the row holds; a row that sets limits is such a row. What is due is older than what is not, so whatever leaves is
always the oldest.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F

from headrace.operators.suppression.timeline import PLACE
from headrace.operators.suppression.waits import WAIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame

    from headrace.description import UntilTimeLimit
    from headrace.operators.limits import InForce

HELD, UPDATE, OTHER = 0, 1, 2  # of what goes in; held waits come first; others are ticks and limits set
JOINS, LEAVES = 0, 1  # of what comes out
INPUT = {
    "__partition": "int", "__kind": "int", "__ingested_ms": "bigint", "__offset": "bigint", "__sub": "bigint",
    "__stream_ms": "bigint", "__after_ms": "bigint", "__key": "binary", "__size_bytes": "bigint", "__opened_ms": "bigint",
    "__opened_offset": "bigint",
}  # fmt: skip
OUTPUT = pa.schema(
    [
        ("__partition", pa.int32()),
        ("__what", pa.int32()),
        ("__key", pa.binary()),
        ("__opened_ms", pa.int64()),
        ("__opened_offset", pa.int64()),
        *((f"__{name}", pa.int64()) for name in ("ingested_ms", "offset", "sub", "stream_ms")),
        ("__early", pa.bool_()),
    ]
)
OUTPUT_DDL = (
    "__partition INT, __what INT, __key BINARY, __opened_ms BIGINT, __opened_offset BIGINT, __ingested_ms BIGINT, "
    "__offset BIGINT, __sub BIGINT, __stream_ms BIGINT, __early BOOLEAN"
)


def going_in(rows: DataFrame, kind: int, key: Expr) -> DataFrame:
    """Rows as the pass takes them; null where they have none of a column."""
    given = {**{name: F.col(name) for name in rows.columns}, "__kind": F.lit(kind), "__key": key}
    return rows.select(*(given.get(name, F.lit(None)).cast(of).alias(name) for name, of in INPUT.items()))


def joins(passed: DataFrame) -> DataFrame:
    """The wait of each update, by the update's place: `WAIT`, of which only when and where it was opened is known."""
    unknown = {name: F.lit(None).cast(of) for name, of in WAIT.items() if name not in passed.columns}
    found = passed.where(F.col("__what") == JOINS).withColumns(unknown)
    return found.select("__partition", "__offset", "__sub", *WAIT)


def leaves(passed: DataFrame) -> DataFrame:
    """Where each wait ended, `__left`, and whether a bound did that, `__early`; by `__key` and `__opened_offset`."""
    place = F.struct(*(F.col(f"__{name}").alias(name) for name in PLACE))
    ended = passed.where(F.col("__what") == LEAVES)
    return ended.select("__partition", "__key", "__opened_offset", "__early", place.alias("__left"))


def pass_over(rows: DataFrame, policies: InForce[UntilTimeLimit]) -> DataFrame:
    """Which wait each update joins, and where each wait ends.

    In:     rows  `INPUT`: updates, ticks and limits set with the expiry time after them, updates with their timestamp as
                  `__opened_ms`; and the waits that were open before
            policies  in force over these rows
    Out:    `OUTPUT`: for each update (`JOINS`) its place and the wait that it is in; for each wait that ended (`LEAVES`)
            the place that let it, and whether a bound did
    """
    bounds = [(0, policies.begun.bound), *((ms, policy.bound) for ms, policy in policies.changes)]
    step = partial(_through, bounds=[(ms, bound.max_records, bound.max_bytes) for ms, bound in bounds])
    ordered = (
        rows.select(*INPUT)
        .repartition("__partition")
        .sortWithinPartitions(
            "__partition",
            F.col("__kind") != HELD,
            "__ingested_ms",
            F.col("__offset").asc_nulls_last(),
            "__sub",
        )
    )
    return ordered.mapInArrow(step, OUTPUT_DDL)


@dataclass
class Buffer:
    """What waits in one partition: `queue` has the oldest first, `waiting` by key its timestamp, offset and size."""

    queue: list[tuple[int, bytes]] = field(default_factory=list)
    waiting: dict[bytes, tuple[int, int, int]] = field(default_factory=dict)
    size_bytes: int = 0

    def put(self, key: bytes, opened_ms: int, offset: int, size: int) -> tuple[int, int]:
        """Put an update into its wait, or open one; when and where that was opened."""
        known = self.waiting.get(key)
        if known is None:
            heapq.heappush(self.queue, (opened_ms, key))
        else:
            opened_ms, offset = known[:2]
            self.size_bytes -= known[2]
        self.waiting[key] = (opened_ms, offset, size)
        self.size_bytes += size
        return opened_ms, offset

    def leave(self) -> tuple[bytes, int, int]:
        """Take out the oldest: its key, and when and where its wait was opened."""
        opened_ms, key = heapq.heappop(self.queue)
        _, offset, size = self.waiting.pop(key)
        self.size_bytes -= size
        return key, opened_ms, offset


def _through(
    batches: Iterable[pa.RecordBatch], *, bounds: Sequence[tuple[int, int | None, int | None]]
) -> Iterator[pa.RecordBatch]:
    """The pass itself, over batches of sorted rows.

    In: bounds  from which commit time on how many records and bytes may wait, rising from 0
    """
    begins = [begin for begin, _, _ in bounds]
    buffers: dict[int, Buffer] = defaultdict(Buffer)
    for batch in batches:
        found: list[tuple[Any, ...]] = []
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            partition, kind, ingested, offset, sub, stream, after, key, size, opened_ms, opened_offset = row
            buffer = buffers[partition]
            if kind == HELD:
                buffer.put(key, opened_ms, opened_offset, size)
                continue
            place = (ingested, offset, sub, stream)
            if kind == UPDATE:
                found.append((partition, JOINS, key, *buffer.put(key, opened_ms, offset, size), *place, None))
            while buffer.queue and buffer.queue[0][0] <= after:
                found.append((partition, LEAVES, *buffer.leave(), *place, False))
            _, records_max, bytes_max = bounds[bisect_right(begins, ingested) - 1]
            while _too_full(buffer, records_max, bytes_max):
                found.append((partition, LEAVES, *buffer.leave(), *place, True))
        if found:
            columns = zip(*found, strict=True)
            arrays = [pa.array(column, known.type) for column, known in zip(columns, OUTPUT, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=OUTPUT)


def _too_full(buffer: Buffer, records_max: int | None, bytes_max: int | None) -> bool:
    return (records_max is not None and len(buffer.queue) > records_max) or (
        bytes_max is not None and buffer.size_bytes > bytes_max
    )

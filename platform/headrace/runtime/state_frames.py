"""Rows of a node's state as frames: tasks merge them, bucket by bucket, and make of them what is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.description import quote
from headrace.engine.state_layout import SHARED, TABLE, StateLayout
from headrace.fold.contract import HASH
from headrace.spark import workers
from headrace.spark.frames import bytes_read
from headrace.spark.one_task import ONE_TASK_BYTES, mapped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Tables = Mapping[str, pa.Table]


@dataclass(frozen=True)
class StateWork:
    """What a task does with rows of some state tables.

    make    of the tables by name, with BATCH, what is asked for
    merged  whether rows that stand for one another are merged first
    gives   the schema of what it makes
    """

    layout: StateLayout
    make: Callable[[Tables], pa.Table]
    merged: bool
    gives: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For `mapInArrow`: rows of the state table in, with SHARED and the columns of the state tables."""
        workers.settle()
        came = [*batches]
        if not came:
            return
        rows = pa.Table.from_batches(came)
        made = self.make({name: self._of(name, rows) for name in self.layout.tables})
        yield from made.select(self.gives.names).cast(self.gives).to_batches()

    def _of(self, name: str, rows: pa.Table) -> pa.Table:
        table = self.layout.tables[name]
        own = rows.filter(pa.compute.equal(rows[TABLE], name)).combine_chunks()
        unpacked = self.layout.unpacked(name, own) if own.num_rows else table.empty()
        return table.merge(unpacked) if self.merged else unpacked


def of_state(
    state: DataFrame, layout: StateLayout, make: Callable[[Tables], pa.Table], *, merged: bool = True
) -> DataFrame:
    """What is made of the rows of some state tables; rows of one key come together.

    In: layout  of these tables alone; make, merged: see `StateWork`
    """
    gives = make({name: table.empty() for name, table in layout.tables.items()}).schema
    gives = pa.schema([field.with_nullable(True) for field in gives])
    names = [*SHARED.names, *layout.tables]
    rows = state.where(F.col(TABLE).isin([*layout.tables])).select(*(F.col(quote(n)) for n in names))
    rows = rows.coalesce(1) if bytes_read(state) <= ONE_TASK_BYTES else _by_bucket(rows)
    return mapped(rows, StateWork(layout, make, merged, gives), names, from_arrow_schema(gives))


def _by_bucket(rows: DataFrame) -> DataFrame:
    """Rows of one range of hashes in one task (see `keys.bucket_of`)."""
    buckets = rows.sparkSession.sparkContext.defaultParallelism
    upper = F.shiftright(F.col(HASH), 32) + F.lit(1 << 31)
    return rows.repartitionById(buckets, F.floor(upper * buckets / F.lit(1 << 32)).cast("int"))

"""Rows of a node's state: tasks of Spark merge them, bucket by bucket, or this process does, and make what is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

import pyarrow as pa
from pyspark.sql import functions as F

from headrace.description import quote
from headrace.engine.state_files import StateSource
from headrace.engine.state_layout import SHARED, TABLE, StateLayout
from headrace.engine.state_reads import read_state
from headrace.fold.contract import HASH, Needs, as_they_are
from headrace.spark.frames import bytes_read
from headrace.spark.one_task import ONE_TASK_BYTES, made_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Tables = Mapping[str, pa.Table]
Make = Callable[[Tables], pa.Table]
T_co = TypeVar("T_co", covariant=True)


class StateRows(Protocol[T_co]):
    """The rows of a state, as of one micro-batch."""

    def made(self, layout: StateLayout, make: Make, *, merged: bool = True) -> T_co:
        """Make something of the rows of some state tables.

        In: layout  of these tables alone; make, merged: see `OfState`
        """


@dataclass(frozen=True)
class StateFrame:
    """A state as a frame of Spark."""

    frame: DataFrame

    def made(self, layout: StateLayout, make: Make, *, merged: bool = True) -> DataFrame:
        """See `StateRows`; rows of one key come together."""
        return of_state(self.frame, layout, make, merged=merged)


@dataclass(frozen=True)
class StateTables:
    """A state that this process reads."""

    source: StateSource

    def made(self, layout: StateLayout, make: Make, *, merged: bool = True) -> pa.Table:
        """See `StateRows`."""
        if not merged:
            tables = {name: replace(table, merge=as_they_are) for name, table in layout.tables.items()}
            layout = StateLayout(tables)
        return make(
            {
                name: read_state(self.source, layout, name, Needs(), remember=False).rows
                for name in layout.tables
            }
        )


@dataclass(frozen=True)
class OfState:
    """The work of a task on rows of some state tables.

    make    makes the result from the tables, by name, with BATCH
    merged  whether rows that replace or complete one another are merged first
    """

    layout: StateLayout
    make: Make
    merged: bool

    def __call__(self, rows: pa.Table) -> pa.Table:
        """In: rows  with SHARED and the columns of the state tables."""
        return self.make({name: self._table(name, rows) for name in self.layout.tables})

    def _table(self, name: str, rows: pa.Table) -> pa.Table:
        table = self.layout.tables[name]
        own = rows.filter(pa.compute.equal(rows[TABLE], name)).combine_chunks()
        unpacked = self.layout.unpacked(name, own) if own.num_rows else table.empty()
        return table.merge(unpacked) if self.merged else unpacked


def of_state(state: DataFrame, layout: StateLayout, make: Make, *, merged: bool = True) -> DataFrame:
    """A frame made from the rows of some state tables; rows of one key come together.

    In: layout  the layout of these tables alone; make, merged: see `OfState`
    """
    schema = make({name: table.empty() for name, table in layout.tables.items()}).schema
    names = [*SHARED.names, *layout.tables]
    rows = state.where(F.col(TABLE).isin([*layout.tables])).select(*(F.col(quote(n)) for n in names))
    rows = rows.coalesce(1) if bytes_read(state) <= ONE_TASK_BYTES else _by_bucket(rows)
    return made_of(rows, OfState(layout, make, merged), names, schema=schema, whole=True)


def _by_bucket(rows: DataFrame) -> DataFrame:
    """Rows of one range of hashes in one task (see `keys.bucket_of`)."""
    buckets = rows.sparkSession.sparkContext.defaultParallelism
    upper = F.shiftright(F.col(HASH), 32) + F.lit(1 << 31)
    return rows.repartitionById(buckets, F.floor(upper * buckets / F.lit(1 << 32)).cast("int"))

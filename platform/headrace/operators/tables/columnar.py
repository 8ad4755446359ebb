"""Tables by Arrow: what `TableOperator.fold` does, behind the fates that Spark decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from headrace.description import quote
from headrace.operators.columnar import Columnar, ColumnarFold, Found
from headrace.operators.columnar.fold import tallied
from headrace.operators.columnar.places import PLACE, as_position, numbers_of, sorted_topics, source
from headrace.operators.rows import KEPT
from headrace.spark.frames import Selection
from headrace.spark.keys import NONE, encoded, newest
from headrace.spark.one_task import CARRIED, COMPARED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column as Expr
    from pyspark.sql.types import StructType

    from headrace.description import Table
    from headrace.operators.columnar import HeldFiles
    from headrace.operators.progress import Progress
    from headrace.operators.tables.operator import TableOperator


def columnar_table(operator: TableOperator, state: StructType) -> Columnar | None:
    """How the increments of a node are folded; None: Spark has to.

    In: state  the schema of its state
    """
    table = columnar_rows(operator.node, state)
    if table is None:
        return None
    topics = sorted_topics([topic.name for topic in operator.node.topics])
    columns = Selection(*decided_columns(operator.node, topics))
    return Columnar(ColumnarTable(table, topics), lambda logs: columns.of(operator.decide(logs)))


def columnar_rows(node: Table, columns: StructType) -> LatestRows | None:
    """How the latest rows of a table are found; None: Spark has to."""
    of_key = all(isinstance(columns[name].dataType, COMPARED) for name in node.key)
    carried = all(isinstance(columns[name].dataType, CARRIED) for name in node.values)
    if node.stream.transformed or not of_key or not carried:
        return None
    return LatestRows(node.key, node.values, node.order_by == "timestamp")


def decided_columns(node: Table, topics: Sequence[str]) -> list[Expr]:
    """What is needed of each row that was decided; `topics` are numbered so."""
    return [
        *(F.col(quote(name)).alias(name) for name in (*node.key, *node.values)),
        F.col("__deleted"),
        source([topic.name for topic in node.topics], topics),
        *(F.col(name) for name in PLACE if name != "__source"),
        F.when(F.col("__fate") != KEPT, F.col("__fate")).alias("__fate"),
        *(F.col(name) for name in ("__event_ms", "__stream_ms")),
    ]


@dataclass(frozen=True)
class LatestRows:
    """The rows of a table that are the latest of their keys."""

    key: tuple[str, ...]
    values: tuple[str, ...]
    by_timestamp: bool

    def of_increment(self, rows: pa.Table) -> pa.Table:
        """Of the rows that are kept (see `latest_of_increment`).

        Out: the key, the values (null where deleted), `__deleted`, `__event_ms`, `PLACE`; one row per key
        """
        names = (*self.key, *self.values, "__deleted", "__event_ms", *PLACE)
        kept = rows["__fate"].is_null().to_numpy()
        return without_values(self.of(rows.select(names), kept), self.values)

    def of(self, rows: pa.Table, which: np.ndarray | None = None) -> pa.Table:
        """Of any rows with the columns that `of_increment` gives; `which` of them count, None: all."""
        rows = rows.combine_chunks()
        (key,), count = encoded([rows[name] for name in self.key])
        if which is not None:
            key = np.where(which, key, NONE)
        rank = numbers_of(rows, ("__event_ms", *PLACE) if self.by_timestamp else PLACE)
        return rows.take(pa.array(newest(key, count, rank)))


def without_values(rows: pa.Table, values: Sequence[str]) -> pa.Table:
    """The same rows, with nulls where one is deleted."""
    deleted = rows["__deleted"].to_numpy()
    if not deleted.any():
        return rows
    there = pa.array(np.arange(rows.num_rows), mask=deleted)
    for name in values:
        rows = rows.set_column(rows.column_names.index(name), name, rows[name].take(there))
    return rows


@dataclass(frozen=True)
class ColumnarTable(ColumnarFold):
    """A table as a node: an increment adds the latest row of each key."""

    table: LatestRows
    topics: tuple[str, ...]

    def fold(self, rows: pa.Table, upto_ms: Mapping[str, int], held: HeldFiles, progress: Progress) -> Found:
        """See `TableOperator.fold`."""
        after = progress.after(upto_ms, tallied(rows, self.topics), self.topics)
        found = self.table.of_increment(rows)
        return Found(None, [found.append_column("__at", as_position(found, self.topics))], after)

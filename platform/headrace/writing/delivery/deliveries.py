"""Give the rows of one micro-batch to a node's sinks, before the commit that says that they have them.

A throttled table gives the last change of each key alone, for its micro-batches begin at most once in an interval. Each such
row is one of L31, and the newest one of its key in this micro-batch; so the last row that a sink gets is the table's.

A sink that takes tables gets few rows from this process; others, and many rows, go through Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.description.sink import TableSink
from headrace.fold.changes.ordering import int64, last_of_each, order
from headrace.fold.contract import KEY
from headrace.fold.keys import group
from headrace.nodes.rows.current_results import newest
from headrace.nodes.rows.local_sink_rows import sink_rows_here
from headrace.nodes.rows.sink_rows import changed_rows, final_rows
from headrace.nodes.rows.stored_rows import rows_of
from headrace.operators.contract import ORDER_OF_CHANGES, SEQUENCE
from headrace.operators.registry import operator_for
from headrace.spark.lake_rows import rows_of_files
from headrace.writing.delivery.redeliver import delivery_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node
    from headrace.lake import NewFile
    from headrace.lake.paths import Lake
    from headrace.nodes.bound_operator import BoundOperator

HERE_BYTES, HERE_ROWS = 4 << 20, 20_000  # of Parquet; Spark's tasks make and send more rows sooner


@dataclass(frozen=True)
class MicroBatch:
    """The rows of a micro-batch that sinks get.

    node    with its sinks: an operator is bound once for nodes that differ in their sinks alone
    folder  URI of the folder of the files; files: with appended results, or with changes of current ones
    """

    spark: SparkSession
    node: Node
    of: BoundOperator
    folder: str
    files: Sequence[NewFile]

    def deliver(self, lake: Lake) -> None:
        """Give the rows to each sink; return when all have them."""
        try:
            for sink in self.node.sinks:
                delivery = delivery_of(lake, self.node, sink)
                if isinstance(sink, TableSink) and self._few:
                    sink.deliver_table(self._table, delivery)
                else:
                    sink.deliver(self._frame, delivery)
        finally:
            if "_frame" in vars(self):
                self._frame.unpersist()

    @cached_property
    def _table(self) -> pa.Table:
        """The rows as this process reads them."""
        node, appended = self.node, self._appended
        schema = self.of.result_schema if appended else self.of.change_schema
        rows = rows_of((f"{self.folder}/{file.path}" for file in self.files), schema)
        if self._newest_alone:
            rows = rows.take(pa.array(last_of_each(group(rows[KEY]).codes, order(int64(rows[SEQUENCE])))))
        return sink_rows_here(node, rows, operator_for(node).order if appended else ORDER_OF_CHANGES)

    @cached_property
    def _frame(self) -> DataFrame:
        """The rows as Spark reads them."""
        appended = self._appended
        types = self.of.results if appended else self.of.changes
        rows = rows_of_files(self.spark, self.folder, (file.path for file in self.files), types)
        if self._newest_alone:
            rows = newest(rows, age=SEQUENCE)
        return (final_rows if appended else changed_rows)(self.node, rows).persist()

    @property
    def _few(self) -> bool:
        return sum(file.size for file in self.files) <= HERE_BYTES and self._table.num_rows <= HERE_ROWS

    @property
    def _newest_alone(self) -> bool:
        return not self._appended and self.node.throttle_ms > 0

    @property
    def _appended(self) -> bool:
        return self.node.has_days

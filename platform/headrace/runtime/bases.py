"""The tables of current results and the parts beside them: what has changed since is folded into them off the hot path."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.lake import as_maintainer, open_table
from headrace.operators.operator import Held
from headrace.runtime.node_tables import base_of
from headrace.spark.lake_rows import read_table, rewrite
from headrace.spark.merge import upsert

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame, SparkSession

    from headrace.lake import LakeTable, TableWriter
    from headrace.operators.operator import CurrentOperator, Schemas
    from headrace.operators.progress import Progress
    from headrace.runtime.lake import Lake


class Bases:
    """Of one node: its result table, and its parts.

    folded  the micro-batch through which changes are in all of them
    """

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        operator: CurrentOperator[Any],
        schemas: Schemas,
        state: LakeTable,
    ) -> None:
        """The tables are there already."""
        self._spark, self._lake, self._operator, self._inputs = spark, lake, operator, schemas.inputs
        self._state = state
        self._name = name = operator.node.required_name
        self._results = open_table(lake.table(name))
        self.parts = {part: open_table(lake.part(name, part)) for part in schemas.parts}
        self.folded = base_of(spark, lake, operator.node).batch
        self._pins: dict[str, tuple[int, DataFrame]] = {}

    def held(self, changes: Callable[[int], DataFrame]) -> Held:
        """What is held, with the changes that are not folded; `changes` gives those after a micro-batch."""
        base = base_of(self._spark, self._lake, self._operator.node)  # a backfill may have mended it since
        assert base.version is not None
        parts = {part: self._pinned(self.parts[part], version) for part, (_, version) in base.parts.items()}
        return Held(self._pinned(self._results, base.version), changes(base.batch), parts=parts)

    def fold(self, held: Held, progress: Progress) -> None:
        """Merge what has changed into each; the results come last, and their record says how far all of them are folded.

        May run beside micro-batches: it folds what was done when it began, and every reader pairs the results with the
        changes beyond what these say is folded.
        """
        operator = self._operator
        fold = f"fold/{self._name}"
        record = {"writer": fold, "batch": progress.batch, "upto_ms": dict(progress.upto_ms)}
        for part, changes in operator.compacted_parts(held).items():
            identity = operator.parts[part]
            merge = partial(upsert, changes=changes, identity=identity, record=record)
            as_maintainer(self.parts[part], merge)
        changes = operator.compacted(held, self._inputs)
        merge = partial(upsert, changes=changes, identity=operator.identity, record=record)
        as_maintainer(self._results, merge, carries=[fold])
        self.folded = progress.batch
        for part, forgotten in operator.expired_parts(progress).items():
            expiry = partial(_expire, self._spark, forgotten=forgotten)
            as_maintainer(self.parts[part], expiry)

    def _pinned(self, table: LakeTable, version: int) -> DataFrame:
        pinned = self._pins.get(table.uri)
        if pinned is None or pinned[0] != version:
            pinned = version, read_table(self._spark, table.uri, version)
            self._pins[table.uri] = pinned
        return pinned[1]


def _expire(spark: SparkSession, writer: TableWriter, *, forgotten: Column) -> int:
    return rewrite(spark, writer, forgotten, {"writer": "expiry"})

"""Aggregates of streams as sides of a join: running totals, and windows as of now or when they are closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import RunningAggregate, WindowedAggregate
from headrace.operators.partials import kept_partials, partial_aggregates
from headrace.operators.relations.sides import Changes, Increment, Leaf
from headrace.operators.running import RunningOperator
from headrace.operators.tables.latest import columns, union
from headrace.operators.windows import WindowOperator
from headrace.operators.windows.merge import mergeable_windows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from headrace.operators.relations.store import Store


class TotalsSide(Leaf):
    """The totals of a running aggregate, which are held with their partials.

    Law: the totals after a micro-batch are the merge of those before and of its partials (see `headrace.operators.running`).
    """

    node: RunningAggregate
    operator: RunningOperator

    def __init__(self, node: RunningAggregate, part: str) -> None:
        """The rules of a running aggregate."""
        super().__init__(node, part)
        self.operator = RunningOperator(node)

    def increment(self, decided: DataFrame) -> DataFrame:
        """The partial of each group."""
        return self.operator.increment(decided)

    def changes(self, increments: Mapping[str, Increment], store: Store) -> Changes:
        """The totals of the groups that the micro-batch touches."""
        increment = increments[self.part]
        came = kept_partials(increment.rows)
        known = store.lookup(self.part, self.key, self.key, came.select(*columns(self.key)).distinct())
        totals = self.operator.merged(came if known is None else union([came, known]), increment.inputs)
        return Changes(store.keep(totals.withColumn("__deleted", F.lit(False))), {})


class WindowsSide(Leaf):
    """Tumbling or hopping windows, which are held with their partials.

    Law: which windows a record enters is told by its own row, so a window is the total of the records that enter it. If only
    final ones are wanted, one is there when the lowest stream time of its topics has reached its end and grace; no record
    enters it after that (see `headrace.operators.windows`).
    """

    node: WindowedAggregate
    operator: WindowOperator

    def __init__(self, node: WindowedAggregate, part: str) -> None:
        """The rules of a windowed aggregate."""
        super().__init__(node, part)
        self.operator = WindowOperator(node)

    @property
    def remembers(self) -> bool:
        """Windows that are not closed are held, and are not there."""
        return self.node.suppression is not None

    def increment(self, decided: DataFrame) -> DataFrame:
        """The partial of each group, pane and first window entered."""
        by = {"__pane": F.col("__pane"), "__from": F.col("__from")}
        return partial_aggregates(decided, self.node.by, self.node.aggregates, also_by=by, placed=True)

    def changes(self, increments: Mapping[str, Increment], store: Store) -> Changes:
        """The windows that the micro-batch touches, and those that it closes."""
        increment = increments[self.part]
        came = store.keep(mergeable_windows(kept_partials(increment.rows), self.node, increment.inputs))
        known = store.lookup(self.part, self.key, self.key, came.select(*columns(self.key)))
        rows = came
        if known is not None:
            rows = mergeable_windows(union([came, known]), self.node, increment.inputs, exploded=True)
        if not self.remembers:
            return Changes(store.keep(rows.withColumn("__deleted", F.lit(False))), {})
        is_open = self._is_open(increment.closed_ms)
        changes = [rows.withColumn("__deleted", is_open)]
        held = store.current(self.part, self.key)
        if held is not None:
            closing = held.where(F.col("__deleted") & ~is_open)
            untouched = closing.join(came.select(*columns(self.key)), [*self.key], "left_anti")
            changes.append(untouched.withColumn("__deleted", F.lit(False)))
        return Changes(store.keep(union(changes)), {})

    def _is_open(self, closed_ms: int | None) -> Column:
        if closed_ms is None:
            return F.lit(True)
        return F.unix_millis("window_end") + self.node.grace_ms > closed_ms

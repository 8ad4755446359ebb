"""What an aggregate or a table makes of each record: its updates, and how those of a key merge."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from headrace.description import RunningAggregate, Table, WindowedAggregate, quote
from headrace.operators.aggregates import in_groups
from headrace.operators.operator import Operator
from headrace.operators.partials import finished_columns, merged_columns, partial_columns
from headrace.operators.running import RunningOperator
from headrace.operators.tables import TableOperator
from headrace.operators.tables.latest import columns
from headrace.operators.windows import WindowOperator
from headrace.operators.windows.panes import last_window_start, time_windows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from headrace.description import Aggregate
    from headrace.description.suppressed import Updated
    from headrace.operators.aggregates import Over
    from headrace.operators.progress import Progress


class Updates(ABC):
    """The updates of one kind of node. The *entry* of an update is its key, with windows its key and window.

    highest  whether an update's timestamp is the highest of its entry so far, or its record's own
    """

    highest = True

    @property
    def several(self) -> bool:
        """Whether one record can make several updates."""
        return False

    def __init__(self, operator: Operator[Any]) -> None:
        """The updates that a node makes; its operator decides which records it makes them of."""
        self.operator = operator

    def decide(self, logs: Mapping[str, DataFrame]) -> DataFrame:
        """The rows of the logs, as the node itself sees them."""
        return self.operator.decide(logs)

    @property
    @abstractmethod
    def by(self) -> tuple[str, ...]:
        """The columns of the key."""

    @property
    def entry(self) -> tuple[str, ...]:
        """The columns of an entry."""
        return self.by

    @property
    @abstractmethod
    def inputs(self) -> tuple[str, ...]:
        """The columns of a record that its updates are made of, beside the entry's."""

    def first_update(self) -> Expr:
        """Of a record that is kept: which of its updates comes first."""
        return F.lit(0).cast("long")

    def exploded(self, kept: DataFrame) -> DataFrame:
        """One row for each update, with `__sub` BIGINT: the place among those of one record."""
        return kept.withColumn("__sub", self.first_update())

    @abstractmethod
    def partials(self, inputs: StructType) -> list[Expr]:
        """Aggregates over the updates of an entry, `__event_ms` among them; `inputs` is the schema of `decide`."""

    @abstractmethod
    def merged(self, inputs: StructType, over: Over = in_groups) -> list[Expr]:
        """What combines them, in groups or over a window that is ordered by the log."""

    @abstractmethod
    def finished(self, inputs: StructType) -> list[Expr]:
        """The node's columns, and `__deleted`, from merged partials."""

    @abstractmethod
    def forgotten(self, progress: Progress) -> Expr | None:
        """Which entries that do not wait no later update builds upon; None: none."""


class _Aggregated(Updates):
    """Updates that merge: an entry is worth all its records so far."""

    def __init__(self, node: RunningAggregate | WindowedAggregate, operator: Operator[Any]) -> None:
        """The updates that an aggregate makes."""
        super().__init__(operator)
        self.aggregates: Sequence[tuple[str, Aggregate]] = node.aggregates
        self._by = node.by

    @property
    def by(self) -> tuple[str, ...]:
        """The group columns."""
        return self._by

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that are aggregated, and the record's position."""
        named = (aggregate.column for _, aggregate in self.aggregates)
        return (*dict.fromkeys(name for name in named if name is not None and name not in self.by), "__topic")

    def partials(self, inputs: StructType) -> list[Expr]:
        """Partial aggregates."""
        return [*partial_columns(self.aggregates, inputs), F.max("__event_ms").alias("__event_ms")]

    def merged(self, inputs: StructType, over: Over = in_groups) -> list[Expr]:
        """Merged partials; the highest timestamp."""
        highest = over(F.max("__event_ms")).alias("__event_ms")
        return [*merged_columns(self.aggregates, inputs, over), highest]

    def _shown(self, inputs: StructType) -> list[Expr]:
        return [*finished_columns(self.aggregates, inputs), F.lit(False).alias("__deleted")]


class RunningUpdates(_Aggregated):
    """A record updates the totals of its group."""

    def finished(self, inputs: StructType) -> list[Expr]:
        """The group and its totals."""
        return [*columns(self.by), *self._shown(inputs)]

    def forgotten(self, progress: Progress) -> Expr | None:
        """A total is built upon for ever."""
        return None


class WindowUpdates(_Aggregated):
    """A record updates every window that it enters, in the order of their starts."""

    def __init__(self, node: WindowedAggregate) -> None:
        """The updates that a windowed aggregate makes."""
        super().__init__(node, WindowOperator(node))
        self.node, self.window = node, time_windows(node)

    @property
    def several(self) -> bool:
        """Windows may overlap."""
        return self.window.advance_ms < self.window.size_ms

    @property
    def entry(self) -> tuple[str, ...]:
        """Group and window."""
        return (*self.by, "__start")

    def first_update(self) -> Expr:
        """That of the first window that the record enters."""
        return F.col("__from")

    def exploded(self, kept: DataFrame) -> DataFrame:
        """One row for each window entered."""
        last, advance = (
            last_window_start(self.window, F.col("__event_ms")),
            F.lit(self.window.advance_ms),
        )
        windows = kept.withColumn("__start", F.explode(F.sequence("__from", last, advance)))
        return windows.withColumn("__sub", F.col("__start"))

    def finished(self, inputs: StructType) -> list[Expr]:
        """The group, the window and its totals."""
        end = F.col("__start") + self.window.size_ms
        bounds = [
            F.timestamp_millis("__start").alias("window_start"),
            F.timestamp_millis(end).alias("window_end"),
        ]
        return [*columns(self.by), *bounds, *self._shown(inputs)]

    def forgotten(self, progress: Progress) -> Expr | None:
        """Windows that are closed: every later record is late for them."""
        if progress.closed_ms is None:
            return None
        return F.col("__start") + (self.window.size_ms + self.node.grace_ms) <= progress.closed_ms


class TableUpdates(Updates):
    """A record replaces the row of its key; a tombstone, or a row that fails a condition, deletes it."""

    highest = False

    def __init__(self, node: Table) -> None:
        """The updates that a table makes."""
        super().__init__(TableOperator(node))
        self.node = node

    @property
    def by(self) -> tuple[str, ...]:
        """The key."""
        return self.node.key

    @property
    def inputs(self) -> tuple[str, ...]:
        """The values, and whether the record deletes."""
        return (*self.node.values, "__deleted")

    def partials(self, inputs: StructType) -> list[Expr]:
        """The last record."""
        alive = (F.when(~F.col("__deleted"), F.col(quote(name))).alias(name) for name in self.node.values)
        row = F.struct(*alive, "__deleted", "__event_ms")
        return self._last(row, in_groups)

    def merged(self, inputs: StructType, over: Over = in_groups) -> list[Expr]:
        """The last record of all."""
        return self._last(F.col("__row"), over)

    def finished(self, inputs: StructType) -> list[Expr]:
        """The key and the values, null where it was deleted."""
        values = (F.col(f"__row.{quote(name)}").alias(name) for name in self.node.values)
        return [*columns(self.by), *values, F.col("__row.__deleted").alias("__deleted")]

    def forgotten(self, progress: Progress) -> Expr:
        """A row that does not wait is replaced, not built upon."""
        return F.lit(True)

    def _last(self, row: Expr, over: Over) -> list[Expr]:
        newest = over(F.max_by(row, "__offset"))
        return [newest.alias("__row"), newest["__event_ms"].alias("__event_ms")]


def updates_of(node: Updated) -> Updates:
    """The updates that a node makes."""
    if isinstance(node, RunningAggregate):
        return RunningUpdates(node, RunningOperator(node))
    if isinstance(node, WindowedAggregate):
        return WindowUpdates(node)
    return TableUpdates(node)

"""The sides of a join: folds of logs, and joins again. Each says which of its rows a micro-batch changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import Join, Relation, Table, quote
from headrace.operators.relations.store import RESULT, Store
from headrace.operators.tables.latest import alive, columns, latest, rank, union
from headrace.operators.tables.operator import TableOperator

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from headrace.description import RunningAggregate, WindowedAggregate
    from headrace.operators.running import RunningOperator
    from headrace.operators.windows import WindowOperator

CAUSE = ("__event_ms", "__at")


@dataclass(frozen=True)
class Increment:
    """What a micro-batch brings to a leaf.

    rows       as the `increment` of its operator gives them
    inputs     the schema of the rows that were decided
    closed_ms  the lowest stream time of its topics afterwards; None: there is none yet
    kept       how many of the rows are kept; None: not counted
    """

    rows: DataFrame
    inputs: StructType
    closed_ms: int | None = None
    kept: int | None = None


@dataclass(frozen=True)
class Changes:
    """What a micro-batch changes: for each part below a side its rows, whole, as they stand after it; deleted ones too.

    at_most  how many rows there can be; None: not known
    """

    rows: DataFrame
    below: Mapping[str, DataFrame]
    at_most: int | None = None


class Side(ABC):
    """Current rows by key; `part` is the name under which a join holds them."""

    def __init__(self, node: Relation, part: str) -> None:
        """A table or join, held in this part."""
        self.node, self.part = node, part

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of its identity."""
        return self.node.identity

    @property
    def remembers(self) -> bool:
        """Whether its part keeps deleted rows, for an older record may come later."""
        return False

    @property
    @abstractmethod
    def leaves(self) -> Iterator[Leaf]:
        """The folds of logs that it is made of, in order."""

    @property
    @abstractmethod
    def parts(self) -> Iterator[Side]:
        """What has to be held: itself, and what its rows are computed from."""

    @abstractmethod
    def recomputed(self, store: Store) -> DataFrame:
        """All current rows, deleted ones too, from what is held of the leaves alone; the rows of `changes`."""

    @abstractmethod
    def changes(self, increments: Mapping[str, Increment], store: Store) -> Changes:
        """What a micro-batch changes.

        In:  increments  for each leaf by its part what the micro-batch brings
        Out: rows: the columns of the node, `__deleted`, `__event_ms`, `__at`; one row per key
        """


class Leaf(Side):
    """A fold of logs, by the rules of an operator without its storage."""

    node: Table | RunningAggregate | WindowedAggregate
    operator: TableOperator | RunningOperator | WindowOperator

    @property
    def leaves(self) -> Iterator[Leaf]:
        """Itself."""
        yield self

    @property
    def parts(self) -> Iterator[Side]:
        """Itself."""
        yield self

    def recomputed(self, store: Store) -> DataFrame:
        """The rows held."""
        rows = store.current(self.part, self.key)
        assert rows is not None
        return rows

    @abstractmethod
    def increment(self, decided: DataFrame) -> DataFrame:
        """What rows bring: per key or group, and a count of all by `__topic`, `__partition` and `__fate`."""


class TableSide(Leaf):
    """A table."""

    operator: TableOperator

    def __init__(self, node: Table, part: str) -> None:
        """The rules of a table."""
        super().__init__(node, part)
        self.operator, self._order = TableOperator(node), rank(node.order_by)

    @property
    def remembers(self) -> bool:
        """As a table of its own does."""
        return self.operator.remembers

    def increment(self, decided: DataFrame) -> DataFrame:
        """The latest row of each key (see `latest_of_increment`)."""
        return self.operator.increment(decided)

    def changes(self, increments: Mapping[str, Increment], store: Store) -> Changes:
        """The latest record of each key; where an older one can come later, the later of it and the current row."""
        at_most = increments[self.part].kept
        rows = self.operator.changes(increments[self.part].rows)
        if self.remembers:
            rows = store.keep(rows, at_most)
            known = store.lookup(self.part, self.key, self.key, rows.select(*columns(self.key)))
            rows = rows if known is None else latest(union([rows, known]), self.key, self._order)
        return Changes(store.keep(rows, at_most), {}, at_most)


class JoinSide(Side):
    """A join, of which both sides are held beside it."""

    node: Join

    def __init__(self, node: Join, part: str, left: Side, right: Side) -> None:
        """The join of both sides."""
        super().__init__(node, part)
        self.left, self.right = left, right

    @property
    def leaves(self) -> Iterator[Leaf]:
        """Those of the left side, then those of the right."""
        yield from self.left.leaves
        yield from self.right.leaves

    @property
    def parts(self) -> Iterator[Side]:
        """Itself, and those of both sides."""
        yield self
        yield from self.left.parts
        yield from self.right.parts

    def recomputed(self, store: Store) -> DataFrame:
        """The join of both sides' rows."""
        return self.joined(self.left.recomputed(store), self.right.recomputed(store))

    def changes(self, increments: Mapping[str, Increment], store: Store) -> Changes:
        """The results of the left rows that changed, and of those that refer to a right row that changed."""
        left, right = self.left.changes(increments, store), self.right.changes(increments, store)
        touched = self._touched(left.rows, right.rows, store)
        joined = self.joined(touched, self._referred(left, right, store))
        below = {**left.below, **right.below, self.left.part: left.rows, self.right.part: right.rows}
        return Changes(joined if self.part == RESULT else store.keep(joined), below)

    def joined(self, left: DataFrame, right: DataFrame) -> DataFrame:
        """Join current rows.

        In:  left, right  rows of the sides with `__deleted`, `__event_ms`, `__at`; one per key
        Out: the columns of the node, `__deleted`, `__event_ms`, `__at`; one row per left row. Position and time are the
             later ones of the two rows; of a row without a match its own.
        """
        node = self.node
        sides = left.select(
            F.struct(*columns(node.left.columns)).alias("left"), *self._internal("left"), *self._on()
        ).join(
            alive(right).select(
                F.struct(*columns(node.right.columns)).alias("right"),
                *self._internal("right"),
                *self._their_key(),
            ),
            self._on_names(),
            "left_outer",
        )
        matched = F.col("right").isNotNull()
        gone = F.col("__left_deleted") | (~matched if node.how == "inner" else F.lit(False))
        rows = sides.withColumn("__deleted", gone).withColumns(self.unambiguous)
        later = F.when(matched & (F.col("__right_at") > F.col("__left_at")), F.col("__right_at"))
        return rows.select(
            *self.keys,
            *self.computed,
            "__deleted",
            F.greatest("__left_event_ms", "__right_event_ms").alias("__event_ms"),
            F.coalesce(later, F.col("__left_at")).alias("__at"),
        )

    def orphans(self, store: Store) -> DataFrame:
        """The left rows that refer to a right row, with `__orphan`: that row does not exist.

        Out: the left key, `on`, `__orphan` BOOLEAN
        """
        shown = columns(dict.fromkeys((*self.key, *self.node.on)))
        refers = alive(self.left.recomputed(store)).select(*shown, *self._on())
        for number in range(len(self.node.on)):
            refers = refers.where(F.col(f"__on_{number}").isNotNull())
        known = alive(self.right.recomputed(store)).select(*self._their_key(), F.lit(True).alias("__known"))
        rows = refers.join(known, self._on_names(), "left_outer")
        return rows.select(*shown, F.col("__known").isNull().alias("__orphan"))

    def _touched(self, left: DataFrame, right: DataFrame, store: Store) -> DataFrame:
        """The left rows to join anew, as they stand now."""
        mine = [F.col(quote(n)).alias(on) for n, on in zip(self.right.key, self.node.on, strict=True)]
        known = store.lookup(self.left.part, self.left.key, self.node.on, right.select(*mine))
        if known is None:
            return left
        others = known.where(~F.col("__deleted")).join(
            left.select(*columns(self.left.key)), [*self.left.key], "left_anti"
        )
        return union([left, others])

    def _referred(self, left: Changes, right: Changes, store: Store) -> DataFrame:
        """The right rows that touched left rows may refer to, as they stand now."""
        key, rows = self.right.key, right.rows
        if self.node.broadcast:
            known = store.current(self.right.part, key)
        else:
            theirs = [F.col(quote(on)).alias(n) for n, on in zip(key, self.node.on, strict=True)]
            refers = left.rows.where(~F.col("__deleted")).select(*theirs).dropna().distinct()
            known = store.lookup(self.right.part, key, key, refers)
        if known is not None:
            rows = union([rows, known.join(rows.select(*columns(key)), [*key], "left_anti")])
        if self.node.broadcast:
            return F.broadcast(rows)
        if left.at_most is None or right.at_most is None:
            return rows  # which are asked for once: to count them would be a job more
        return store.keep(rows, left.at_most + right.at_most)

    def _internal(self, side: str) -> list[Column]:
        names = ("__deleted", *CAUSE) if side == "left" else CAUSE
        return [F.col(name).alias(f"__{side}_{name.removeprefix('__')}") for name in names]

    def _on_names(self) -> list[str]:
        return [f"__on_{number}" for number in range(len(self.node.on))]

    def _on(self) -> list[Column]:
        return [F.col(quote(name)).alias(f"__on_{number}") for number, name in enumerate(self.node.on)]

    def _their_key(self) -> list[Column]:
        return [F.col(quote(name)).alias(f"__on_{number}") for number, name in enumerate(self.right.key)]

    @property
    def keys(self) -> list[Column]:
        """The key of the left row, of columns `left` and `right` that hold the rows."""
        return [F.col(f"left.{quote(name)}").alias(name) for name in self.key]

    @property
    def unambiguous(self) -> dict[str, Column]:
        """For a selection the columns that can be named without their side; the right key stands behind the left columns."""
        if self.node.selection is None:
            return {}
        sides = {"right": self.node.right, "left": self.node.left}
        named = {
            name.lower(): F.col(f"{side}.{quote(name)}") for side, of in sides.items() for name in of.columns
        }
        hidden = {*sides, *self.node.ambiguous}
        return {name: column for name, column in named.items() if name not in hidden}

    @property
    def computed(self) -> list[Column]:
        """What is selected, of these columns and of those that are `unambiguous`; null where the row is deleted."""
        if self.node.selection is None:
            chosen = {name: F.col(f"left.{quote(name)}") for name in self.node.left.values}
            chosen |= {name: F.col(f"right.{quote(name)}") for name in self.node.right.values}
        else:
            selected = [e for e in self.node.selected if e.name not in self.key]
            chosen = {expression.name: F.expr(expression.sql) for expression in selected}
        return [F.when(~F.col("__deleted"), value).alias(name) for name, value in chosen.items()]

"""The base of tables, joins and aggregates: current rows by key, which can be joined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeGuard, TypeVar

from headrace.description.durations import Duration, duration_ms
from headrace.description.feeds import Feed, leaves_of
from headrace.description.grouping import On, columns_for_key
from headrace.description.node import Node
from headrace.description.schema import COMPUTED, Column
from headrace.description.shape import Shape
from headrace.description.steps import Select, Where, WithColumn
from headrace.description.wording import a_value
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.join import Join
    from headrace.description.refined import Refined, RowStep
    from headrace.description.regrouped import GroupedTable
    from headrace.description.stream import Stream
    from headrace.description.suppressed import Suppressed, Updated
    from headrace.description.suppression import UntilTimeLimit
    from headrace.description.table import Table
    from headrace.description.table_changes import TableChanges

R = TypeVar("R", bound="Relation")


class Relation(Node, kind="table"):
    """Current rows, one for each value of the key columns (`key`)."""

    @property
    def shape(self) -> Shape:
        """The columns, key first, and those of their types that are known."""
        known = {c.name: Column(c.name, c.type, True) for c in self.result_columns if c.type != COMPUTED}
        return Shape(self.columns, known)

    @property
    def values(self) -> tuple[str, ...]:
        """The columns that are not in the key."""
        return tuple(name for name in self.columns if name not in self.key)

    @property
    def parts(self) -> Mapping[str, Relation]:
        """The tables that it is made of, by their sides (see `feeds`); none: it folds a log itself."""
        return {}

    @property
    def feeds(self) -> Mapping[str, Feed]:
        """Those of the logs below it, by their parts."""
        return {part: leaf.feed for part, leaf in leaves_of(self).items()}

    @property
    def longest_wait_ms(self) -> int:
        """That of its tables: final windows wait to be closed."""
        return max((table.longest_wait_ms for table in self.parts.values()), default=0)

    @property
    def inputs(self) -> tuple[Stream | Node, ...]:
        """The tables that it is made of, or the stream of its log."""
        return tuple(self.parts.values()) or super().inputs

    @property
    def relation(self) -> Relation:
        """Itself."""
        return self

    @property
    def own_updates(self) -> Updated | None:
        """The table itself, if each partition has all records of its keys; None: its changes tell its updates."""
        return None

    @property
    def no_updates(self) -> tuple[str, str] | None:
        """Why its own updates cannot be held back, and what to do; None: they can."""
        return None

    @property
    def group(self) -> tuple[str, ...]:
        """The columns by which its records are brought together; a window is not among them."""
        return self.key

    @property
    def no_side(self) -> tuple[str, str] | None:
        """Why it cannot be joined or grouped, and what to write instead; None: it can."""
        return None

    @property
    def window_ms(self) -> int | None:
        """The length of its windows, which end so long after their start; None: it has none, or their lengths differ."""
        return None

    def throttle(self, every: Duration) -> Self:
        """Work the table out at most once in each interval of commit time; a drain brings it up to date.

        The table is written and read less often. A sink gets the newest row of each key that has changed since the last
        micro-batch, so a key's row at most once in an interval. A node that catches up, or is drained, does not wait.

        Raises: DescriptionError when the duration is zero or the table is throttled already.
        """
        every_ms = duration_ms(every, "throttle")
        if self.throttle_ms or not every_ms:
            found = "is throttled already" if self.throttle_ms else f"cannot be throttled to {a_value(every)}"
            raise DescriptionError(f"throttle: this table {found}.", hint="Write .throttle('1 minute') once.")
        return replace(self, throttle_ms=every_ms)

    def suppress(self, policy: UntilTimeLimit) -> Suppressed:
        """Emit a key's latest value when the policy says so, each a row for good, instead of keeping current rows.

        Where a partition may not hold all records of a key, as of joins and of groups of tables, it follows the table's
        changes (see `changes`).

        Raises: DescriptionError when the policy does not fit.
        """
        from headrace.description.suppressed import suppressed  # a suppressed node holds one of these

        return suppressed(self, policy)

    def changes(self) -> TableChanges:
        """The changes of the table as a stream: one record for each key and log commit that changes it.

        Where a key has gone, the record is a tombstone, so `.table()` after it is this table again.

        Raises: DescriptionError for a throttled table, and for windows that are no side of a join.
        """
        from headrace.description.table_changes import TableChanges  # its table is a relation itself

        return TableChanges(self)

    def group_by(self, *columns: str) -> GroupedTable:
        """Group the current rows by columns, for aggregates from which rows that go are taken out again.

        Raises: DescriptionError when a column does not exist, or none is named.
        """
        from headrace.description.regrouped import GroupedTable  # its result is a relation itself

        return GroupedTable(self, columns)

    def join(
        self,
        right: Relation,
        on: On,
        how: str = "inner",
        select: Sequence[str] | None = None,
    ) -> Join:
        """Join with the row of another table that columns of this one refer to.

        In:     on         the column, or columns, that hold the key of `right`, in order, or `{"buyer": "id"}`, each with
                           the column of the key that it holds; null refers to nothing
                how        "inner": only rows with a match; "left": all rows of this table; "outer": all rows of both, if
                           `on` is the key of this one
                select     SQL over the columns of both sides, as `left.name` and `right.name` where they clash; None: all
                           columns; windows of one length that are joined on `window_start` have one end
        Raises: DescriptionError naming what does not fit.
        """
        from headrace.description.join import Join, columns_of_windows  # a join is a relation itself

        columns = columns_for_key(on, getattr(right, "key", ()), "join")
        chosen: Any = (select,) if isinstance(select, str) else None if select is None else tuple(select)
        if select is None and self.window_ms is not None:
            chosen = columns_of_windows(self, right, columns, how)
        return Join(self, right, columns, how, chosen)

    def _and(self, step: RowStep) -> Refined:
        """The table by itself after one more step: windows, too, whose own steps give a stream."""
        from headrace.description.refined import Refined  # which is such a table itself

        return Refined(apart(self)[0], (step,))


class Refinable(Relation):
    """A table whose rows can be sent through row-wise steps; each step returns a new description."""

    def where(self, expression: str) -> Refinable:
        """Keep the rows for which the SQL expression is true; one for which it no longer is is deleted."""
        return self._and(Where(expression))

    def select(self, *expressions: str) -> Refined:
        """Keep the key, and the columns that the SQL expressions make: names, or "expression AS name"."""
        return self._and(Select(expressions))

    def with_column(self, name: str, expression: str) -> Refined:
        """Add a column made by the SQL expression, or replace the one of that name; not one of the key."""
        return self._and(WithColumn(name, expression))

    def transform(self, function: Callable[[Any], Any], columns: str) -> Table:
        """Apply a row-wise function from DataFrame to DataFrame to each change of the table.

        In:     columns  the DDL of what the function returns; the columns of the key are among them, as they were
        Law:    the function must treat each row by itself and depend on nothing else. Where a key is gone, the other columns
                that it gets are null, and what it makes of them does not matter.
        Raises: DescriptionError when a column of the key is missing, or the type of a column is known to Spark alone
        """
        from headrace.description.table_changes import transformed  # its result is such a table itself

        return transformed(self, function, columns)

    def _and(self, step: RowStep) -> Refined:
        from headrace.description.refined import Refined  # which is such a table itself

        plain, kept = apart(self)
        return Refined(plain, (step,), **kept)


def is_table(value: object) -> TypeGuard[Relation]:
    """Whether something is a table: current rows by key."""
    return value is not None and getattr(value, "relation", None) is value


def apart(table: R) -> tuple[R, dict[str, Any]]:
    """A table by itself, and what people call it and where it goes: the name, the words, the owners and the sinks."""
    kept = {
        "name": table.name,
        "description": table.description,
        "owners": table.owners,
        "sinks": table.sinks,
        "on_change": table.on_change,
        "renamed_from": table.renamed_from,
        "expectations": table.expectations,
    }
    return replace(table, name=None, description="", owners=(), sinks=(), expectations=()), kept


def require_side(side: Relation, what: str) -> None:
    """Raise DescriptionError for what cannot stand below a relation, of which all is worked out in every micro-batch."""
    if side.throttle_ms:
        raise DescriptionError(
            f"{what}: a throttled table cannot be joined or grouped: a join is worked out in every micro-batch.",
            hint="Leave out .throttle(…) there, and throttle the result.",
        )
    why = side.no_side
    if why is not None:
        raise DescriptionError(f"{what}: {why[0]}", hint=why[1])

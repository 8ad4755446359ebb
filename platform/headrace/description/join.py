"""Foreign-key joins of tables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headrace.description.expression_types import type_in
from headrace.description.expressions import parse_expression
from headrace.description.known_types import type_of_path
from headrace.description.pointing import pointing
from headrace.description.record_metadata import refuse_metadata
from headrace.description.relation import Refinable, Relation, is_table, require_side
from headrace.description.schema import COMPUTED, Column, ResultColumn, quote, refuse_repeats, refuse_reserved
from headrace.description.shape import Shape
from headrace.description.spark_steps import covers, rules_of_spark
from headrace.description.ways_on import what_is
from headrace.description.windows import END, START
from headrace.description.wording import listed, require_choice
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.description.expressions import Expression

INNER, LEFT, OUTER = "inner", "left", "outer"
HOWS = (INNER, LEFT, OUTER)
_SETTLE = "Say which: select=('…', 'left.{0} AS left_{0}', 'right.{0} AS right_{0}')."


@dataclass(frozen=True)
class Join(Refinable):
    """A foreign-key join: for each row of the left table the row of the right table that it refers to.

    In:  on         columns of the left table that hold the right table's key; one that is null refers to nothing
         how        "inner": rows without a match are left out; "left": they stay, with nulls; "outer": rows of the right
                    table without a match stay, too; `on` is then the key of the left table
         selection  SQL over both sides; None: all columns
    Out: the columns of the left table, then those of the right table that are not in its key. One row per left key; with
         "outer" one per key of either table.
    Law: a function of the latest left rows and the latest right rows, and so of the logs of its topics alone.
    Source: Kafka Streams, KIP-213; KTable.outerJoin.
    """

    left: Relation
    right: Relation
    on: tuple[str, ...]
    how: str = INNER
    selection: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for side, table in (("left", self.left), ("right", self.right)):
            if not is_table(table):
                raise DescriptionError(
                    f"join: {what_is(table)} on the {side} is no table.",
                    hint="Write topic.table(). A stream looks up a table's rows: stream.lookup(table, on='…').",
                )
            require_side(table, f"join: {side}")
        require_choice("join: how", self.how, HOWS)
        self._check_on()
        if self.selection is None:
            self._refuse_clashes()
        else:
            self._check_selection(self.selection)
        super().__post_init__()

    @property
    def parts(self) -> Mapping[str, Relation]:
        """Both sides."""
        return {"left": self.left, "right": self.right}

    @property
    def window_ms(self) -> int | None:
        """That of both tables, if they have windows of one length with one end (see `columns_of_windows`)."""
        one_end = self.selection is not None and self.selection[0] == _end(self.how)
        return self.left.window_ms if one_end and self.left.window_ms == self.right.window_ms else None

    @property
    def key(self) -> tuple[str, ...]:
        """The key of the left table."""
        return self.left.key

    @property
    def result_columns(self) -> tuple[ResultColumn, ...]:
        """The left key, then what is selected; without a selection the left columns, then the right values."""
        if self.selection is None:
            return (*self.left.result_columns, *self._right_values)
        key = {name: column for name, column in _by_name(self.left).items() if name in self.key}
        chosen = [self._column(expression) for expression in self.selected if expression.name not in key]
        return (*key.values(), *chosen)

    @property
    def selected(self) -> tuple[Expression, ...]:
        """The expressions of the selection."""
        return tuple(parse_expression(sql, "join: select") for sql in self.selection or ())

    @property
    def ambiguous(self) -> frozenset[str]:
        """Names, in lower case, that a column of the left table and a value of the right one share."""
        left = {name.lower() for name in self.left.columns}
        return frozenset(left & {name.lower() for name in self.right.values})

    @property
    def in_words(self) -> str:
        """One sentence for people."""
        which = {INNER: "that has a match", LEFT: "with its match or nulls", OUTER: "of either table"}[
            self.how
        ]
        return f"One row per {listed(self.key)} {which}, by {listed(self.on)}; always of the latest rows."

    @property
    def work(self) -> Sequence[tuple[str, bool]]:
        """The join, and what is selected."""
        joined = (f"{self.how} join on {listed(self.on)}", False)
        if self.selection is None:
            return (joined,)
        return joined, (f"select {listed(self.selection)}", self.selects_by_spark)

    def rules(self) -> dict[str, Any]:
        """Both sides, the columns, the kind and the selection; how it is computed is no part."""
        return {
            "left": self.left.rules(),
            "right": self.right.rules(),
            "on": self.on,
            "how": self.how,
            "select": self.selection,
            **rules_of_spark(needed=self.selects_by_spark),
        }

    @property
    def selects_by_spark(self) -> bool:
        """Whether only Spark computes the selection."""
        return not covers([each.sql for each in self.selected], self._columns_of_sides())

    @property
    def _right_values(self) -> tuple[ResultColumn, ...]:
        key = self.right.key
        return tuple(column for column in self.right.result_columns if column.name not in key)

    def _check_on(self) -> None:
        shape, key = self.left.shape, self.right.key
        object.__setattr__(self, "on", tuple(shape.resolve(name, "join: on") for name in self.on))
        if len(self.on) != len(key):
            raise DescriptionError(
                f"join: on names {listed(self.on)}, and the key of the right table is {listed(key)}.",
                hint="Name one column of the left table for each, in that order.",
            )
        for name, theirs in zip(self.on, key, strict=True):
            mine, other = shape.type_of(name), self.right.shape.type_of(theirs)
            if mine and other and mine.type != other.type:
                raise DescriptionError(
                    f"join: '{name}' is {mine.type} on the left and '{theirs}' is {other.type} on the right.",
                    hint=f"Cast it before: .with_column('{name}', 'CAST({name} AS {other.type})').table().",
                )
        if self.how == OUTER and self.on != self.left.key:
            raise DescriptionError(
                f"join: how='outer' is by the keys of both tables: on names {listed(self.on)}, and the key of the left "
                f"table is {listed(self.left.key)}.",
                hint="Name its columns in their order; by other columns join with how='left'.",
            )

    def _refuse_clashes(self) -> None:
        for column in self._right_values:
            if column.name.lower() in self.ambiguous:
                raise DescriptionError(
                    f"join: both tables have a column '{column.name}'.", hint=_SETTLE.format(column.name)
                )

    def _check_selection(self, selection: tuple[str, ...]) -> None:
        refuse_metadata(selection, "join: select")
        if not selection:
            raise DescriptionError("join: select names no columns.", hint="Leave it out to keep all.")
        for expression in self.selected:
            if not expression.name:
                raise DescriptionError(
                    f"join: select: {expression.sql!r} has no name.",
                    hint=f"Add a name: {expression.sql} AS name.",
                )
            for path in sorted(expression.paths):
                with pointing(expression.sql, path[path[0] in ("left", "right") and len(path) > 1]):
                    self._check_path(path, expression.sql, f"join: select({expression.sql!r})")
            is_key = expression.repeats in ((expression.name,), ("left", expression.name))
            if expression.name in self.key and not is_key:
                raise DescriptionError(
                    f"join: select: {expression.sql!r} takes the place of the key column '{expression.name}'.",
                    hint="Give it another name; the left key stays as it is.",
                )
        names = [expression.name for expression in self.selected]
        values = [name for name in names if name not in self.key]
        refuse_repeats([*self.key, *values], "join: select")
        refuse_reserved(names, "join: select")

    def _check_path(self, path: tuple[str, ...], sql: str, what: str) -> None:
        """A column by its side, or one that only one side has; the right key counts only where the left has none such.

        Fields after it have to be there, too.
        """
        sides = {"left": self.left, "right": self.right}
        if path[0] in sides:
            sides[path[0]].shape.require(path[1:2], what)
            type_of_path(path[1:], sides[path[0]].shape, what, sql)
            return
        Shape((*self.left.columns, *self.right.columns)).require(path[:1], what)
        if path[0].lower() in self.ambiguous:
            raise DescriptionError(
                f"{what}: both tables have a column '{path[0]}'.", hint=_SETTLE.format(path[0])
            )
        for side in sides.values():
            type_of_path(path, side.shape, what, sql)

    def _columns_of_sides(self) -> list[Column]:
        """The columns that a selection reads, as far as their types are known: by themselves, and as `left` and `right`."""
        sides = {"left": self.left.shape.types.values(), "right": self.right.shape.types.values()}
        plain = [column for side in reversed(sides.values()) for column in side]
        structs = [
            Column(name, f"STRUCT<{', '.join(f'{quote(c.name)}: {c.type}' for c in side)}>", nullable=True)
            for name, side in sides.items()
        ]
        return [*plain, *structs]

    def _column(self, expression: Expression) -> ResultColumn:
        """The column that an expression makes; its type and meaning are known where it repeats one."""
        left, right = _by_name(self.left), _by_name(self.right)
        known: ResultColumn | None = None
        match expression.repeats:
            case ("left", name):
                known = left.get(name)
            case ("right", name):
                known = right.get(name)
            case (name,):
                known = left.get(name, right.get(name))
        if known is None:
            found = type_in(expression.sql, self._columns_of_sides())
            return ResultColumn(expression.name, found or COMPUTED, expression.sql)
        return replace(known, name=expression.name)


def columns_of_windows(
    left: Relation, right: Relation, on: tuple[str, ...], how: str
) -> tuple[str, ...] | None:
    """A selection of all columns with one `window_end`, of two tables of windows that have one length and one start.

    Out: None: they are not such tables
    """
    if left.window_ms != getattr(right, "window_ms", None) or START not in left.key:
        return None
    starts = [mine for mine, theirs in zip(on, right.key, strict=False) if theirs == START]
    if [name.lower() for name in starts] != [START]:
        return None
    others = [name for name in (*left.values, *right.values) if name != END]
    return (_end(how), *map(quote, others))


def _end(how: str) -> str:
    """The end of joined windows: those of the left table, and with "outer" also those that the right one has alone."""
    return f"coalesce(left.{END}, right.{END}) AS {END}" if how == OUTER else f"left.{END} AS {END}"


def _by_name(table: Relation) -> dict[str, ResultColumn]:
    return {column.name: column for column in table.result_columns}

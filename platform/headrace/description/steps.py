"""Row-wise steps: each makes one row, or none, of one record.

Law: a step is a function of its record alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from headrace.description.code_identity import code_of
from headrace.description.expression_types import type_in
from headrace.description.expressions import Expression, parse_expression
from headrace.description.known_types import require_condition, require_expression
from headrace.description.record_metadata import CHAIN, runnable
from headrace.description.schema import Column, parse_type, refuse_repeats, refuse_reserved
from headrace.description.shape import Shape, shape_of
from headrace.description.wording import a_value
from headrace.errors import DescriptionError


@dataclass(frozen=True)
class Where:
    """Keep the records for which the expression is true."""

    expression: str

    def __post_init__(self) -> None:
        predicate(self.expression, "where")

    def applied_to(self, shape: Shape) -> Shape:
        """The same columns; raises DescriptionError when the expression reads others."""
        require_condition(predicate(self.expression, "where"), shape, f"where({self.expression!r})")
        return shape

    def replaces(self, name: str) -> bool:
        """Whether the column of that name is another one afterwards."""
        return False

    @property
    def reads(self) -> frozenset[str]:
        """The columns that it reads."""
        return predicate(self.expression, "where").columns

    @property
    def texts(self) -> tuple[str, ...]:
        """Its SQL."""
        return (self.expression,)


@dataclass(frozen=True)
class Select:
    """Keep the columns that the expressions make, in their order."""

    expressions: tuple[str, ...]

    def __post_init__(self) -> None:
        if isinstance(self.expressions, str) or not self.expressions:
            raise DescriptionError(
                f"select: {a_value(self.expressions)} names no columns.",
                hint="Write .select('sensor_id', 'value').",
            )
        object.__setattr__(self, "expressions", tuple(self.expressions))
        for parsed in self._parsed():
            if not parsed.name:
                raise DescriptionError(
                    f"select: {parsed.sql!r} has no name.", hint=f"Add a name: {parsed.sql} AS name."
                )
        names = [parsed.name for parsed in self._parsed()]
        refuse_repeats(names, "select")
        refuse_reserved(names, "select")

    def applied_to(self, shape: Shape) -> Shape:
        """The columns that the expressions name; a type is known where a column is merely repeated, or cast."""
        columns, types = [], {}
        for parsed in self._parsed():
            require_expression(parsed, shape, f"select({parsed.sql!r})")
            columns.append(parsed.name)
            types.update(_typed_as(parsed, parsed.name, shape))
        return Shape(tuple(columns), types)

    def replaces(self, name: str) -> bool:
        """Whether the column of that name is another one afterwards."""
        return any(_replaces(parsed, parsed.name, name) for parsed in self._parsed())

    @property
    def reads(self) -> frozenset[str]:
        """The columns that it reads."""
        return frozenset().union(*(parsed.columns for parsed in self._parsed()))

    @property
    def texts(self) -> tuple[str, ...]:
        """Its SQL."""
        return self.expressions

    def _parsed(self) -> list[Expression]:
        return [parse_expression(expression, "select") for expression in self.expressions]


@dataclass(frozen=True)
class WithColumn:
    """Add a column, or replace the one of that name in its place."""

    name: str
    expression: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise DescriptionError(
                f"with_column: {a_value(self.name)} is not a column name.",
                hint="Write .with_column('name', 'expression').",
            )
        refuse_reserved([self.name], "with_column")
        _refuse_alias(self._parsed(), f"with_column('{self.name}')")

    def applied_to(self, shape: Shape) -> Shape:
        """The columns with this one; its type is known where it repeats another, or is cast."""
        parsed = self._parsed()
        require_expression(parsed, shape, f"with_column('{self.name}', {self.expression!r})")
        types = {name: column for name, column in shape.types.items() if name.lower() != self.name.lower()}
        types.update(_typed_as(parsed, self.name, shape))
        return Shape(self._columns(shape.columns), types)

    def replaces(self, name: str) -> bool:
        """Whether the column of that name is another one afterwards."""
        return _replaces(self._parsed(), self.name, name)

    @property
    def reads(self) -> frozenset[str]:
        """The columns that it reads."""
        return self._parsed().columns

    @property
    def texts(self) -> tuple[str, ...]:
        """Its SQL."""
        return (self.expression,)

    def _columns(self, before: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if before is None:
            return None
        if self.name.lower() not in [column.lower() for column in before]:
            return (*before, self.name)
        return tuple(self.name if column.lower() == self.name.lower() else column for column in before)

    def _parsed(self) -> Expression:
        return parse_expression(self.expression, f"with_column('{self.name}')")


@dataclass(frozen=True)
class Transform:
    """Apply a function from DataFrame to DataFrame; `columns` is what it returns, None when not declared."""

    function: Callable[[Any], Any]
    columns: tuple[Column, ...] | None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise DescriptionError(
                f"transform: {a_value(self.function)} is not a function.",
                hint="Pass a function that takes a DataFrame and returns one.",
            )
        assert self.code

    @cached_property
    def code(self) -> Mapping[str, Any]:
        """The function's code, as of its description."""
        return code_of(self.function, "transform")

    def applied_to(self, shape: Shape) -> Shape:
        """The declared columns, or none known."""
        return Shape(None) if self.columns is None else shape_of(self.columns)

    def replaces(self, name: str) -> bool:
        """Nobody can see it."""
        return False

    @property
    def reads(self) -> None:
        """Nobody can see it: any column."""
        return


def reads_headers(step: Step) -> bool:
    """True if a step's SQL reads the headers of the record."""
    return not isinstance(step, Transform) and any(runnable(sql).reads_headers for sql in step.texts)


def reads_chain(step: Step) -> bool:
    """Whether a step reads the source chains of its records."""
    return not isinstance(step, Transform) and any(CHAIN in runnable(sql).functions for sql in step.texts)


Step = Where | Select | WithColumn | Transform


def _typed_as(parsed: Expression, name: str, shape: Shape) -> dict[str, Column]:
    """The column that an expression makes, if its type is known."""
    known = shape.type_of(parsed.source) if parsed.source else None
    if known is not None:
        return {name: replace(known, name=name)}
    found = type_in(parsed.sql, shape.types.values()) or parsed.type
    return {name: Column(name, parse_type(found, f"the type of '{name}'"), nullable=True)} if found else {}


def _replaces(parsed: Expression, made: str, name: str) -> bool:
    return made.lower() == name.lower() and (parsed.source or "").lower() != name.lower()


def predicate(expression: str, what: str) -> Expression:
    """A condition, read; raises DescriptionError when it is none, or names a column."""
    parsed = parse_expression(expression, what)
    _refuse_alias(parsed, what)
    return parsed


def _refuse_alias(parsed: Expression, what: str) -> None:
    if parsed.aliased:
        raise DescriptionError(f"{what}: {parsed.sql!r} names a column.", hint="Leave out the name after AS.")

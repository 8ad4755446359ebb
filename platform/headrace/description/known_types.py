"""Mistakes in an expression that the types of columns tell, before Spark reads it.

Law: Spark refuses whatever this module refuses (tests/runtime/test_refused_expressions.py), but for `binary_keys`. Spark
decides the rest.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from sqlglot import exp

from headrace.description.binary_keys import refuse_binary_keys
from headrace.description.expression_types import type_in
from headrace.description.expressions import Expression, path_of, syntax_tree
from headrace.description.pointing import marked_name, pointing
from headrace.description.rounding_calls import refuse_rounding
from headrace.description.schema import fields_of_struct
from headrace.description.wording import did_you_mean, listed
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.shape import Shape

_COMPARED = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_NESTED = ("STRUCT<", "ARRAY<", "MAP<")
# Read alone, again and again: a node is asked for its rules whenever its progress is read.
_tree = lru_cache(maxsize=1024)(syntax_tree)


def require_expression(parsed: Expression, shape: Shape, what: str) -> None:
    """Raise DescriptionError for a column or a nested field that does not exist, or a comparison that cannot be."""
    for name in sorted(parsed.columns):
        with pointing(parsed.sql, name):
            shape.resolve(name, what)
    for path in sorted(parsed.paths):
        type_of_path(path, shape, what, parsed.sql)
    if parsed.compares:
        for each in _tree(parsed.sql, what).find_all(*_COMPARED):
            with pointing(parsed.sql, _first_name(each)):
                _require_comparable(each, shape, what)
    if parsed.connects:
        for connector in _tree(parsed.sql, what).find_all(exp.Connector, exp.Not):
            if connector.find_ancestor(exp.Lambda) is None:  # there a name may be a parameter, and no column
                for side in (connector.this, connector.args.get("expression")):
                    with pointing(parsed.sql, _first_name(side)):
                        _require_connectable(side, shape, what)
    refuse_binary_keys(parsed, shape, what)
    refuse_rounding(parsed, shape, what)


def require_condition(parsed: Expression, shape: Shape, what: str) -> None:
    """As `require_expression`, and for an expression that is known not to be BOOLEAN."""
    require_expression(parsed, shape, what)
    found = type_in(parsed.sql, shape.types.values()) or parsed.type
    if found in (None, "BOOLEAN"):
        return
    raise DescriptionError(
        f"{what}: the expression is {found}, and no condition.",
        hint=f"Compare it, for example {parsed.sql} > 0, or {parsed.sql} IS NOT NULL.",
    )


def type_of_path(path: tuple[str, ...], shape: Shape, what: str, sql: str = "") -> str | None:
    """The type of a column, or of a field within it; None: not known. Fields of an array's elements are an ARRAY.

    In:     sql  the expression with it; an error marks the field there
    Raises: DescriptionError when there is no such field
    """
    known = shape.type_of(path[0]) if path else None
    if known is None:
        return None
    try:
        return _type_of_field(known.type, path, 1, what)
    except _FieldError as error:
        error.detail = marked_name(sql, error.field)
        raise


class _FieldError(DescriptionError):
    """A field that a path names, and that does not exist."""

    def __init__(self, message: str, field: str, hint: str | None) -> None:
        super().__init__(message, hint=hint)
        self.field = field


def _type_of_field(type: str, path: tuple[str, ...], at: int, what: str) -> str | None:
    if at == len(path):
        return type
    above = ".".join(path[:at])
    if type.startswith("MAP<"):
        return None
    if type.startswith("ARRAY<"):
        element = type.removeprefix("ARRAY<").removesuffix(">")
        if not element.startswith("STRUCT<"):
            raise _FieldError(
                f"{what}: '{above}' is {type}, and has no field '{path[at]}'.",
                path[at],
                hint=f"An element of it is {above}[0].",
            )
        found = _type_of_field(element, path, at, what)
        return None if found is None or at + 1 < len(path) else f"ARRAY<{found}>"
    fields = fields_of_struct(type, what)
    if not fields:
        raise _FieldError(
            f"{what}: '{above}' is {type}, and has no field '{path[at]}'.",
            path[at],
            hint=f"Leave .{path[at]} out, or describe '{above}' as STRUCT<{path[at]}: …>.",
        )
    for field in fields:
        if field.name.lower() == path[at].lower():
            return _type_of_field(field.type, path, at + 1, what)
    raise _FieldError(
        f"{what}: '{above}' has no field '{path[at]}'; its fields are {listed(f.name for f in fields)}.",
        path[at],
        hint=did_you_mean(path[at], [field.name for field in fields]),
    )


def _first_name(tree: exp.Expr | None) -> str:
    """The last part of the first column in a part of an expression, as a mark's place; empty: there is none."""
    column = None if tree is None else tree.find(exp.Column)
    return "" if column is None else str(column.parts[-1].name)


def _require_connectable(side: exp.Expr | None, shape: Shape, what: str) -> None:
    """Raise DescriptionError for a side of AND, OR or NOT that is known not to be BOOLEAN."""
    if side is None or isinstance(side, (exp.Connector, exp.Not)):
        return  # BOOLEAN; the caller asks for its own sides. As text, each side of a long chain has all before it.
    sql = side.sql(dialect="spark")
    known = type_in(sql, shape.types.values()) if sql else None
    if known not in (None, "BOOLEAN"):
        raise DescriptionError(
            f"{what}: {sql} is {known}, and no condition.",
            hint=f"Compare it, for example {sql} > 0, or {sql} IS NOT NULL.",
        )


def _require_comparable(compared: exp.Expr, shape: Shape, what: str) -> None:
    sides = (compared.this, compared.expression)
    for side, other in (sides, sides[::-1]):
        if isinstance(other, exp.Null) and not isinstance(compared, exp.NullSafeEQ):
            name = side.sql(dialect="spark")
            raise DescriptionError(
                f"{what}: {compared.sql(dialect='spark')} is never true: a comparison with NULL is null.",
                hint=f"Write {name} IS {'NOT ' if isinstance(compared, exp.NEQ) else ''}NULL.",
            )
        if not (isinstance(side, exp.Column) and isinstance(other, exp.Literal)):
            continue
        path = path_of(side)
        found = type_of_path(path, shape, what) or ""
        if found.startswith(_NESTED):
            name, literal = ".".join(path), other.sql(dialect="spark")
            fields = [f"{name}.{field.name}" for field in fields_of_struct(found, what)]
            raise DescriptionError(
                f"{what}: '{name}' is {found}, and cannot be compared with {literal}.",
                hint=f"Compare one of its fields: {listed(fields)}."
                if fields
                else "Compare one of its elements.",
            )

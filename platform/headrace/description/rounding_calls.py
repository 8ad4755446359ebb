"""The arguments of `round` and `bround`: a number, and a number of decimal places that is the same for all records.

Law: Spark refuses whatever this module refuses (tests/runtime/test_refused_expressions.py).
Source: Spark 4.1, `RoundBase.checkInputDataTypes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from headrace.description.expression_types import type_in
from headrace.description.expressions import Expression, syntax_tree
from headrace.description.pointing import marked_name
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.shape import Shape

_NO_NUMBERS = ("BOOLEAN", "BINARY", "DATE", "TIMESTAMP", "STRUCT<", "ARRAY<", "MAP<")


def refuse_rounding(parsed: Expression, shape: Shape, what: str) -> None:
    """Raise DescriptionError for a call that rounds no number, or to a number of places that a column holds."""
    if "round" not in parsed.sql.lower():
        return
    for call in syntax_tree(parsed.sql, what).find_all(exp.Round, exp.Anonymous):
        if isinstance(call, exp.Round):
            _refuse("round", [call.this, call.args.get("decimals")], parsed, shape, what)
        elif str(call.this).lower() == "bround":
            _refuse("bround", [*call.expressions, None], parsed, shape, what)


def _refuse(name: str, arguments: list[exp.Expr | None], parsed: Expression, shape: Shape, what: str) -> None:
    value, places = arguments[:2]
    text = "" if value is None else value.sql(dialect="spark")
    column = None if places is None else places.find(exp.Identifier)
    if column is not None:
        raise DescriptionError(
            f"{what}: {name} takes its number of decimal places from '{column.name}'; it has to be a constant.",
            detail=marked_name(parsed.sql, column.name),
            hint=f"Write a number, for example {name}({text}, 2).",
        )
    known = type_in(text, shape.types.values()) if text else None
    if known is not None and known.startswith(_NO_NUMBERS):
        raise DescriptionError(
            f"{what}: {name} rounds {text}, which is {known} and no number.",
            detail=marked_name(parsed.sql, name),
            hint="Use date_trunc to round a time down."
            if known in ("DATE", "TIMESTAMP")
            else "Round a number.",
        )

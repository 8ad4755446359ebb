"""JSON of maps with binary keys: Spark writes the address of each key, another one in each run.

Law: no result depends on the run. A map of a known type is judged by it; else by columns and casts within the argument.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from headrace.description.expression_types import type_in
from headrace.description.expressions import Expression, syntax_tree
from headrace.description.record_metadata import runnable
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.shape import Shape

_BINARY_KEYS = "MAP<BINARY"


def refuse_binary_keys(parsed: Expression, shape: Shape, what: str) -> None:
    """Raise DescriptionError when `to_json` gets a map with BINARY keys, as far as types are known."""
    if "to_json" not in parsed.sql.lower():
        return
    for call in syntax_tree(runnable(parsed.sql).sql, what).find_all(exp.JSONFormat):
        if _has_binary_keys(call.this, shape):
            raise DescriptionError(
                f"{what}: to_json writes the keys of a map as text, and these are BINARY.",
                detail="Spark writes the address of such a key, which differs from run to run.",
                hint="Make the keys text first: transform_keys(m, (k, v) -> hex(k)).",
            )


def _has_binary_keys(argument: exp.Expr, shape: Shape) -> bool:
    known = type_in(argument.sql(dialect="spark"), shape.types.values())
    if known is not None:
        return _BINARY_KEYS in known
    if argument.find(exp.Transform, exp.Anonymous) is not None and "transform_keys" in argument.sql().lower():
        return False
    columns = (shape.type_of(column.parts[0].name) for column in argument.find_all(exp.Column))
    if any(_BINARY_KEYS in column.type for column in columns if column is not None):
        return True
    keys = [made.args.get("keys") for made in argument.find_all(exp.Map, exp.VarMap)]
    casts = [cast for each in keys if each is not None for cast in each.find_all(exp.Cast)]
    return any(cast.to.this == exp.DataType.Type.BINARY for cast in casts)

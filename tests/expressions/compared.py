"""Holds a term against the column that Spark made of the same text."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from sqlglot import parse_one

from headrace import expressions
from headrace.expressions import Rows, SparkNeededError, Term
from tests.expressions.boundary_rows import SCHEMA

COLUMNS = {field.name: field.type for field in SCHEMA}
EQUAL, TYPED, UNKNOWN, LEFT_TO_SPARK = "equal", "typed", "type not known", "left to Spark"


@dataclass(frozen=True)
class Difference(Exception):
    """What differs, in words."""

    words: str


def term_of(text: str) -> Term | None:
    """The term of a text over the columns of `boundary_rows`."""
    spelled = expressions.spelled_for_sqlglot(text)
    return expressions.term_of(parse_one(f"SELECT {spelled}", dialect="spark").expressions[0], COLUMNS)


def compared(text: str, rows: pa.Table, theirs: pa.Array) -> str:
    """How far the expression is covered. In: theirs  the values that Spark gave for `rows`.

    Raises: Difference when type, value (by its bits) or null differ
    """
    term = term_of(text)
    if term is None:
        return UNKNOWN
    if not _same_type(term.type, theirs.type):
        raise Difference(f"{text}: the type is {term.type}, Spark's is {theirs.type}")
    if term.evaluate is None:
        return TYPED
    try:
        ours = term.over(Rows.of(rows))
    except SparkNeededError:
        return LEFT_TO_SPARK
    if (words := differing_row(ours, theirs)) is not None:
        raise Difference(f"{text}: {words}")
    return EQUAL


def differing_row(ours: pa.Array, theirs: pa.Array) -> str | None:
    """The first row in which two columns differ, in words; None: there is none. Bits are compared, and nulls."""
    if not _same_type(ours.type, theirs.type):
        return f"the type is {ours.type}, Spark's is {theirs.type}"
    for row, (one, other) in enumerate(zip(_plain(ours), _plain(theirs), strict=True)):
        if not _same(one, other):
            return f"row {row} has {one!r}, Spark has {other!r}"
    return None


def _same_type(one: pa.DataType, other: pa.DataType) -> bool:
    """True of equal types; whether parts may be null does not matter."""
    if pa.types.is_list(one) and pa.types.is_list(other):
        return _same_type(one.value_type, other.value_type)
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        names = [field.name for field in one] == [field.name for field in other]
        return names and all(_same_type(a.type, b.type) for a, b in zip(one, other, strict=True))
    if pa.types.is_map(one) and pa.types.is_map(other):
        return _same_type(one.key_type, other.key_type) and _same_type(one.item_type, other.item_type)
    return bool(one == other)


def _plain(values: pa.Array) -> list[object]:
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    plain: list[object] = values.to_pylist()
    return plain


def _same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return repr(one) == repr(other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and one == other

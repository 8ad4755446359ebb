"""Rows of any types as rows that Spark can compare, group and sort. It refuses to do so with MAPs, wherever they stand.

Law: two MAPs are equal if they hold the same entries, in any order, as in the kernel (`headrace.fold.values.encode`). A MAP
becomes the array of its entries, sorted by key; everything else stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from headrace.description import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame


def comparable_rows(frame: DataFrame, names: Sequence[str] | None = None) -> DataFrame:
    """Some columns of a frame, comparable; None: all of them."""
    of = frame.schema
    columns = (comparable(F.col(quote(n)), of[n].dataType).alias(n) for n in names or frame.columns)
    return frame.select(*columns)


def comparable(value: Column, of: T.DataType) -> Column:
    """A value, comparable. In: of  its type."""
    if not _holds_map(of):
        return value
    match of:
        case T.MapType(keyType=keys, valueType=values):
            entries = T.StructType([T.StructField("key", keys), T.StructField("value", values)])
            return F.array_sort(_each(F.map_entries(value), entries))
        case T.ArrayType(elementType=elements):
            return _each(value, elements)
        case T.StructType(fields=fields):
            parts = (comparable(value.getField(f.name), f.dataType).alias(f.name) for f in fields)
            return F.when(value.isNotNull(), F.struct(*parts))
    raise AssertionError(f"a type of another kind: {of}")


def _each(array: Column, of: T.DataType) -> Column:
    return F.transform(array, lambda element: comparable(element, of))


def _holds_map(of: T.DataType) -> bool:
    match of:
        case T.MapType():
            return True
        case T.ArrayType(elementType=elements):
            return _holds_map(elements)
        case T.StructType(fields=fields):
            return any(_holds_map(field.dataType) for field in fields)
    return False

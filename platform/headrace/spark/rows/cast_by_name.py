"""Values as another type, the fields of structs by their names.

Law: each field of a struct gets the value of the field of that name. Spark's own cast of a struct goes by position: it puts
a latitude where the longitude belongs if the fields have another order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

if TYPE_CHECKING:
    from pyspark.sql import Column


def cast_by_name(value: Column, before: T.DataType, wanted: T.DataType) -> Column:
    """A value as a type: structs, also within arrays and maps, field by field. A field that is new is null.

    In: before  the value's own type
    """
    if before == wanted or not isinstance(before, T.StructType | T.ArrayType | T.MapType):
        return value.cast(wanted)
    return _nested(value, before, wanted)


def _nested(value: Column, before: T.DataType, wanted: T.DataType) -> Column:
    match before, wanted:
        case T.StructType(), T.StructType():
            parts = (_field(value, before, field) for field in wanted.fields)
            return F.when(value.isNotNull(), F.struct(*parts))
        case T.ArrayType(), T.ArrayType():
            return F.transform(value, lambda each: cast_by_name(each, before.elementType, wanted.elementType))
        case T.MapType(), T.MapType():
            entries = F.transform(
                F.map_entries(value),
                lambda each: F.struct(
                    cast_by_name(each["key"], before.keyType, wanted.keyType).alias("key"),
                    cast_by_name(each["value"], before.valueType, wanted.valueType).alias("value"),
                ),
            )
            return F.map_from_entries(entries)
    return value.cast(wanted)


def _field(value: Column, before: T.StructType, field: T.StructField) -> Column:
    if field.name not in before.names:
        return F.lit(None).cast(field.dataType).alias(field.name)
    return cast_by_name(value.getField(field.name), before[field.name].dataType, field.dataType).alias(
        field.name
    )

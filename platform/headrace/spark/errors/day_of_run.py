"""Expressions of which Spark would complete a value by the date of the run: they are refused before anything runs.

Law: no result depends on the day of the run. Spark reads the text '12:30' as a TIMESTAMP of today. Casts and functions that
say TIMESTAMP make null of such a text (see `description.times_of_day`). Everything else that makes a TIMESTAMP of a text is
refused: a cast that Spark adds by itself, a cast within arrays or structs, a value of JSON, CSV, XML or a VARIANT, a
function of a transform. So is a text without columns that is cast to a date or a time: it may spell 'now'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T

from headrace.description.times_of_day import TIME_ALONE
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

_PARSERS = ("JsonToStructs", "CsvToStructs", "XmlToStructs")
_FORMAT = "timestampFormat"


def refuse_day_of_run(rows: DataFrame, what: str) -> None:
    """Raise DescriptionError when a value of some rows could depend on the day. In: what  the node, as errors name it."""
    for expression in _expressions(rows._jdf.queryExecution().analyzed()):
        _refuse(expression, what)


def _expressions(plan: Any) -> Iterator[Any]:
    yield from _each(plan.expressions())
    for child in _each(plan.children()):
        yield from _expressions(child)


def _refuse(expression: Any, what: str) -> None:
    children = [*_each(expression.children())]
    name = expression.getClass().getSimpleName() if children else ""
    if name == "CaseWhen" and TIME_ALONE in str(children[0].toString()):
        _refuse_word(children[1], what)
        children = [*_each(children[1].children())]
    elif name == "Cast":
        before, wanted = _type(children[0]), _type(expression)
        if _makes_times(before, wanted):
            text = expression.sql()
            raise _error(what, text, f"Write {text} in the SQL of a step: such a text is null there.")
        _refuse_word(expression, what)
    elif name == "ParseToTimestamp" and len(children) == 1 and isinstance(_type(children[0]), T.StringType):
        raise _error(what, expression.sql(), "Give a format, or write it in the SQL of a step.")
    elif name == "VariantGet" and _has_time(_type(expression)):
        raise _error(what, expression.sql(), "Take a STRING, and cast it: such a text is null there.")
    elif name in _PARSERS and _has_time(_type(expression)) and not expression.options().contains(_FORMAT):
        raise _error(what, expression.sql(), f"Take a STRING and cast it, or give map('{_FORMAT}', …).")
    for child in children:
        _refuse(child, what)


def _refuse_word(cast: Any, what: str) -> None:
    """Refuse a constant that is put together: 'now' in one word is refused where the text is read."""
    children = [*_each(cast.children())]
    made = isinstance(_type(cast), T.DateType | T.TimestampType | T.TimestampNTZType)
    if made and len(children) == 1 and children[0].foldable():
        is_text = isinstance(_type(children[0]), T.StringType)
        if is_text and children[0].getClass().getSimpleName() != "Literal":
            raise DescriptionError(
                f"{what}: {cast.sql()} is a constant that may spell a time of the run, as 'now' does.",
                hint="Write the date or the time as one literal.",
            )


def _error(what: str, text: str, hint: str) -> DescriptionError:
    return DescriptionError(
        f"{what}: {text} makes a TIMESTAMP of a text.",
        detail="A text such as '12:30' would get the date of the run.",
        hint=hint,
    )


def _makes_times(before: T.DataType, wanted: T.DataType) -> bool:
    """True if a cast makes a TIMESTAMP of a text or a VARIANT somewhere in a value."""
    match before, wanted:
        case T.StructType(), T.StructType():
            pairs = zip(before.fields, wanted.fields, strict=False)
            return any(_makes_times(one.dataType, other.dataType) for one, other in pairs)
        case T.ArrayType(), T.ArrayType():
            return _makes_times(before.elementType, wanted.elementType)
        case T.MapType(), T.MapType():
            return _makes_times(before.keyType, wanted.keyType) or _makes_times(
                before.valueType, wanted.valueType
            )
        case T.VariantType(), _:
            return _has_time(wanted)
    return isinstance(before, T.StringType) and isinstance(wanted, T.TimestampType)


def _has_time(of: T.DataType) -> bool:
    match of:
        case T.StructType():
            return any(_has_time(field.dataType) for field in of.fields)
        case T.ArrayType():
            return _has_time(of.elementType)
        case T.MapType():
            return _has_time(of.keyType) or _has_time(of.valueType)
    return isinstance(of, T.TimestampType)


def _type(expression: Any) -> T.DataType:
    return T._parse_datatype_json_string(expression.dataType().json())


def _each(seq: Any) -> Iterator[Any]:
    return (seq.apply(number) for number in range(seq.size()))

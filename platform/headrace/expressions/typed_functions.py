"""Functions that only Spark computes; their types are known here.

Law: a type is that of Spark for every call that Spark accepts, or it is not known.
Source: Spark 4.1, the expressions of `catalyst`; the differential test compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from headrace.expressions import arithmetic, rounding
from headrace.expressions.arguments import Arguments
from headrace.expressions.literals import type_named
from headrace.expressions.term import Term
from headrace.expressions.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    is_atomic,
    is_decimal,
    is_floating,
    is_integral,
    is_numeric,
    list_of,
    map_of,
    tightest,
    widest,
)

Made = Callable[[Arguments], Term | None]


def _same(of: Arguments) -> Term | None:
    return Term(of.first.type)


def _of_number(to: pa.DataType) -> Made:
    return lambda of: Term(to) if is_numeric(of.first.type) else None


def _same_number(of: Arguments) -> Term | None:
    return Term(of.first.type) if is_numeric(of.first.type) else None


def _bits(of: Arguments) -> Term | None:
    left, right = of["this"].type, of["expression"].type
    common = tightest(left, right)
    return Term(common) if common is not None and is_integral(common) else None


def _shifted(of: Arguments) -> Term | None:
    value = of.first.type
    return Term(BIGINT if value == BIGINT else INT) if is_integral(value) else None


def _tried(sign: str) -> Made:
    """A `try_` form of arithmetic; that of dates and intervals is Spark's."""

    def made(of: Arguments) -> Term | None:
        left, right = of[0 if of.is_anonymous else "this"], of[1 if of.is_anonymous else "expression"]
        if not (is_numeric(left.type) and is_numeric(right.type)):
            return None
        found = arithmetic.arithmetic(sign, left, right)
        return None if found is None else Term(found.type)

    return made


def _zero_if_null(of: Arguments) -> Term | None:
    common = tightest(of.first.type, INT)
    return Term(common) if common is not None and not is_decimal(of.first.type) else None


def _text_or_bytes(of: Arguments) -> Term | None:
    return Term(BINARY if of["this"].type == BINARY else STRING) if is_atomic(of["this"].type) else None


def _padded(of: Arguments) -> Term | None:
    fill = of.get("fill_pattern")
    is_bytes = of["this"].type == BINARY and (fill is None or fill.type == BINARY)
    return Term(BINARY if is_bytes else STRING)


def _overlaid(of: Arguments) -> Term | None:
    bytes_of = [of[name].type == BINARY for name in ("this", "expression")]
    if any(bytes_of):
        return Term(BINARY) if all(bytes_of) else None
    return Term(STRING)


def _reversed(of: Arguments) -> Term | None:
    return Term(of["this"].type) if pa.types.is_list(of["this"].type) else _plain(STRING, of["this"])


def _plain(to: pa.DataType, *terms: Term) -> Term | None:
    return Term(to) if all(is_atomic(term.type) for term in terms) else None


def common_type(types: Sequence[pa.DataType]) -> pa.DataType | None:
    """The type of values that may be any of these; None: not known."""
    if types and all(of == types[0] for of in types):
        return types[0]
    return widest(types) if types and all(map(is_atomic, types)) else None


def _list(of: Arguments) -> Term | None:
    return Term(of.first.type) if pa.types.is_list(of.first.type) else None


def _list_and_value(of: Arguments) -> Term | None:
    """A list and a value of its elements' type. A value of another type may make the list wider."""
    first = of.first.type
    value = of[1] if of.is_anonymous else of["expression"]
    fits = pa.types.is_list(first) and value.type in (first.value_type, NULL)
    return Term(first) if fits else None


def _lists(of: Arguments) -> Term | None:
    names = () if of.is_anonymous else ("this", "expression")
    types = [of[name].type for name in names if of.tree.args.get(name) is not None]
    types += [term.type for term in of.listed]
    return Term(types[0]) if pa.types.is_list(types[0]) and all(each == types[0] for each in types) else None


def _element_of(of: Arguments) -> Term | None:
    return Term(of.first.type.value_type) if pa.types.is_list(of.first.type) else None


def _inner_list(of: Arguments) -> Term | None:
    first = of.first.type
    return Term(first.value_type) if pa.types.is_list(first) and pa.types.is_list(first.value_type) else None


def _sequence(of: Arguments) -> Term | None:
    types = [of[name].type for name in ("start", "end")]
    common = tightest(*types)
    fits = common is not None and is_integral(common) and of.tree.args.get("step") is None
    return Term(list_of(common)) if fits and common is not None else None


def _transformed(of: Arguments) -> Term | None:
    first = of["this"].type
    made = of.of_lambda("expression", first.value_type, INT) if pa.types.is_list(first) else None
    return Term(list_of(made.type)) if made is not None and made.type != NULL else None


def _reduced(of: Arguments) -> Term | None:
    first, total = of["this"].type, of["initial"].type
    if not pa.types.is_list(first) or of.of_lambda("merge", total, first.value_type).type != total:
        return None
    finish = of.tree.args.get("finish")
    return Term(total) if finish is None else of.of_lambda("finish", total)


def _map(of: Arguments) -> Term | None:
    parts = [of.tree.args[name].expressions for name in ("keys", "values")]
    types = [common_type([of.term(each).type for each in part]) for part in parts]
    known = [each for each in types if each is not None and each != NULL]
    return Term(map_of(*known)) if len(known) == len(types) else None


def _map_of_lists(of: Arguments) -> Term | None:
    types = [of[name].type for name in ("keys", "values")]
    return Term(map_of(*(each.value_type for each in types))) if all(map(pa.types.is_list, types)) else None


def _map_of_entries(of: Arguments) -> Term | None:
    first = of["this"].type
    if not pa.types.is_list(first) or not pa.types.is_struct(first.value_type):
        return None
    fields = [field.type for field in first.value_type]
    return Term(map_of(*fields)) if len(fields) == 2 else None


def _maps(of: Arguments) -> Term | None:
    types = [term.type for term in of.listed]
    return (
        Term(types[0]) if types and pa.types.is_map(types[0]) and all(t == types[0] for t in types) else None
    )


def _of_map(part: Callable[[pa.MapType], pa.DataType]) -> Made:
    return lambda of: Term(part(of.first.type)) if pa.types.is_map(of.first.type) else None


def _filtered_map(of: Arguments) -> Term | None:
    return _of_map(lambda each: each)(of)


def _from_json(of: Arguments) -> Term | None:
    """The schema is a literal: a list of fields, or one type."""
    schema = of.tree.args.get("expression")
    if not isinstance(schema, exp.Literal) or not schema.is_string:
        return None
    for text in (f"STRUCT<{schema.this}>", str(schema.this)):
        try:
            made = type_named(parse_one(f"CAST(NULL AS {text})", dialect="spark").args["to"])
        except (SqlglotError, KeyError):
            continue
        if made is not None and not is_atomic(made):
            return Term(made)
    return None


def _entries(of: pa.MapType) -> pa.DataType:
    return list_of(pa.struct([("key", of.key_type), ("value", of.item_type)]))


def _names(names: str, made: Made) -> dict[str, Made]:
    return dict.fromkeys(names.split(), made)


TYPE_OF: Mapping[str, Made] = {
    "bround": rounding.rounded_type,
    **_names("BitwiseAnd BitwiseOr BitwiseXor", _bits),
    **_names("BitwiseLeftShift BitwiseRightShift", _shifted),
    **_names("BitwiseNot nullifzero", _same),
    **_names("positive Negative", _same_number),
    **_names("Sqrt Pow Exp Ln Log Sign hypot Rint Cot", _of_number(DOUBLE)),
    "pmod": _tried(arithmetic.REMAINDER),
    "SafeAdd": _tried(arithmetic.ADD),
    "SafeSubtract": _tried(arithmetic.SUBTRACT),
    "SafeMultiply": _tried(arithmetic.MULTIPLY),
    "SafeDivide": _tried(arithmetic.DIVIDE),
    "Nanvl": lambda of: (
        _same(of) if is_floating(of.first.type) and of["expression"].type == of.first.type else None
    ),
    "zeroifnull": _zero_if_null,
    "Left": _text_or_bytes,
    "Right": lambda of: _plain(STRING, of["this"]),
    "Pad": _padded,
    "Overlay": _overlaid,
    "Reverse": _reversed,
    **_names("SortArray ArrayDistinct ArrayCompact ArrayFilter ArraySlice ArraySort ArrayReverse", _list),
    **_names("ArrayRemove ArrayAppend ArrayPrepend ArrayInsert", _list_and_value),
    **_names("ArrayExcept ArrayIntersect array_union", _lists),
    **_names("ArrayMax ArrayMin get", _element_of),
    "Flatten": _inner_list,
    "array_repeat": lambda of: Term(list_of(of[0].type)) if of[0].type != NULL else None,
    "GenerateSeries": _sequence,
    "Transform": _transformed,
    "Reduce": _reduced,
    "VarMap": _map,
    "Map": _map_of_lists,
    "MapFromEntries": _map_of_entries,
    "map_concat": _maps,
    "map_filter": _filtered_map,
    "MapKeys": _of_map(lambda of: list_of(of.key_type)),
    "map_values": _of_map(lambda of: list_of(of.item_type)),
    "map_entries": _of_map(_entries),
    "FromJson": _from_json,
}
# Their types do not depend on their arguments.
_BY_TYPE: Mapping[pa.DataType, str] = {
    STRING: """RegexpReplace RegexpExtract Initcap Repeat Translate MD5 SHA SHA2 TimeToStr JSONExtractScalar Hex Soundex
        Format Chr ToChar SubstringIndex ArrayToString JSONFormat UnixToStr ToBase64 RegexpSubstr btrim Space bin conv
        format_number printf Typeof ParseUrl url_encode mask Dayname Monthname Decode""",
    BOOLEAN: "RegexpLike ILike Escape arrays_overlap Exists EqualNull MapContainsKey luhn_check",
    INT: """StrPosition Levenshtein Ascii Unicode hash BitLength octet_length RegexpCount RegexpInstr find_in_set
        json_array_length UnixDate BitwiseCount""",
    BIGINT: "xxhash64 crc32 StrToUnix TimeToUnix ArrayPosition TimestampDiff Factorial",
    DOUBLE: "MonthsBetween Degrees Radians Sin Cos Tan Atan Atan2 Asin Acos log1p expm1 Cbrt",
    DATE: "make_date LastDay NextDay AddMonths DateTrunc TsOrDsTrunc DateFromUnixDate try_to_date",
    TIMESTAMP: "StrToTime make_timestamp TimestampFromParts AtTimeZone FromTimeZone try_to_timestamp",
    BINARY: "Unhex Encode",
    list_of(STRING): "Split RegexpSplit RegexpExtractAll",
    map_of(STRING, STRING): "StrToMap",
}
FIXED = {name: of for of, names in _BY_TYPE.items() for name in names.split()}

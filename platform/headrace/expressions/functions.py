"""Functions that sqlglot reads in other ways than they are written, and those of which only the type is known here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
from sqlglot import exp

from headrace.expressions import logic, moments, nested, texts
from headrace.expressions.term import Term
from headrace.expressions.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    is_atomic,
    is_decimal,
    is_floating,
    is_integral,
    is_numeric,
    tightest,
    widest,
)

Columns = Mapping[str, pa.DataType]
Bind = Callable[[exp.Expr, Columns], Term | None]


def call(tree: exp.Expr, columns: Columns, bind: Bind) -> Term | None:
    """The term of a function's call; None: only Spark knows its type."""
    name = _name(tree)
    if name in _TYPED:
        return Term(_TYPED[name])
    made = _CALLS.get(name)
    if made is None:
        return None
    arguments = _Arguments(tree, columns, bind)
    try:
        return made(arguments)
    except _UnknownError:
        return None


def _name(tree: exp.Expr) -> str:
    return str(tree.this).lower() if isinstance(tree, exp.Anonymous) else type(tree).__name__


class _UnknownError(Exception):
    """An argument of which only Spark knows the type."""


class _Arguments:
    """The arguments of a call, by their names or places in the syntax tree."""

    def __init__(self, tree: exp.Expr, columns: Columns, bind: Bind) -> None:
        self.tree, self._columns, self._bind = tree, columns, bind

    def __getitem__(self, which: str | int) -> Term:
        term = self.get(which)
        if term is None:
            raise _UnknownError
        return term

    def get(self, which: str | int) -> Term | None:
        """An argument; None: there is none."""
        if isinstance(which, int):
            tree = self.tree.expressions[which] if which < len(self.tree.expressions) else None
        else:
            tree = self.tree.args.get(which)
        if tree is None:
            return None
        term = self._bind(_undated(tree), self._columns)
        if term is None:
            raise _UnknownError
        return term

    @property
    def listed(self) -> list[Term]:
        """All arguments of a call that has a list of them."""
        return [self[number] for number in range(len(self.tree.expressions))]

    def unit(self, which: str = "unit") -> str:
        """A unit of time, in upper case, without the S of a plural."""
        of = self.tree.args.get(which)
        return str(of.name if of is not None else "").upper().removesuffix("S")

    @property
    def is_plural(self) -> bool:
        """Whether the unit has the S of a plural; where Spark knows none, only Spark says what comes of it."""
        of = self.tree.args.get("unit")
        return of is not None and of.name.upper().endswith("S")


def _undated(tree: exp.Expr) -> exp.Expr:
    """An argument as it is written: sqlglot puts functions around dates."""
    while isinstance(tree, exp.TsOrDsToDate | exp.TimeStrToTime) and not tree.args.get("safe"):
        tree = tree.this
    return tree


def _part(unit: str) -> Callable[[_Arguments], Term | None]:
    return lambda of: moments.part_of(of["this"], unit)


def _extract(of: _Arguments) -> Term | None:
    unit = str(of.tree.this.name).upper()
    plain = {"YEARS": "YEAR", "MONTHS": "MONTH", "DAYS": "DAY", "HOURS": "HOUR", "MINUTES": "MINUTE"}
    unit = plain.get(unit, unit)
    return None if unit in ("SECOND", "SECONDS") else moments.part_of(of["expression"], unit)


def _substring(of: _Arguments) -> Term | None:
    return texts.substring(of["this"], of["start"], of.get("length"))


def _trim(of: _Arguments) -> Term | None:
    if of.tree.args.get("expression") is not None:
        return Term(STRING)
    side = of.tree.args.get("position")
    return texts.trimmed(of["this"], str(side) if side and str(side) != "BOTH" else None)


def _struct(of: _Arguments) -> Term | None:
    names, terms = [], []
    for each in of.tree.expressions:
        if not isinstance(each, exp.PropertyEQ):
            return None
        names.append(each.this.name)
        term = of._bind(each.expression, of._columns)
        if term is None or not names[-1]:
            return None
        terms.append(term)
    return nested.struct_of(names, terms)


def _element(of: _Arguments) -> Term | None:
    if len(of.tree.expressions) != 1:
        return None
    return nested.element(of["this"], of[0], offset=int(of.tree.args.get("offset") or 0))


def _round(of: _Arguments) -> Term | None:
    value, scale = of["this"], of.get("decimals")
    if is_integral(value.type) or is_floating(value.type):
        return Term(value.type)
    if not is_decimal(value.type) or (scale is not None and not isinstance(scale.constant, int)):
        return Term(DOUBLE) if value.type == STRING else None
    kept = min(value.type.scale, scale.constant if scale is not None else 0)
    if kept < 0:
        return None
    return Term(pa.decimal128(min(value.type.precision - value.type.scale + kept + 1, 38), kept))


def _rounded_whole(of: _Arguments) -> Term | None:
    value = of["this"].type
    if of.tree.args.get("decimals") is not None:
        return None
    if is_integral(value) or is_floating(value):
        return Term(BIGINT)
    if is_decimal(value):
        return Term(
            pa.decimal128(value.precision if value.scale == 0 else value.precision - value.scale + 1, 0)
        )
    return None


def _bits(of: _Arguments) -> Term | None:
    left, right = of["this"].type, of["expression"].type
    common = tightest(left, right)
    return Term(common) if common is not None and is_integral(common) else None


def _same(of: _Arguments) -> Term | None:
    return Term(of["this"].type)


def _element_of(of: _Arguments) -> Term | None:
    first = of["this"].type if of.tree.args.get("this") is not None else of[0].type
    return Term(first.value_type) if pa.types.is_list(first) else None


def _array(of: _Arguments) -> Term | None:
    types = [term.type for term in of.listed]
    if not types:
        return None
    common = (
        types[0]
        if all(each == types[0] for each in types)
        else (widest(types) if all(map(is_atomic, types)) else None)
    )
    return nested.array_of_terms(of.listed, common)


def _nvl2(of: _Arguments) -> Term | None:
    there = logic.negated(logic.is_null(of["this"]))
    assert there is not None
    return logic.case([(there, of["true"])], of["false"])


def _of_number(to: pa.DataType) -> Callable[[_Arguments], Term | None]:
    return lambda of: Term(to) if is_numeric(of["this"].type) else None


# Their result has the type of their first argument.
_OF_THE_SAME = """SortArray ArrayDistinct ArrayCompact ArrayExcept ArrayFilter ArrayRemove ArraySlice ArraySort Reverse
    ArrayReverse"""
_CALLS: Mapping[str, Callable[[_Arguments], Term | None]] = {
    "Substring": _substring,
    "Left": lambda of: Term(STRING),
    "Right": lambda of: Term(STRING),
    "Trim": _trim,
    "ConcatWs": lambda of: texts.concat_with(of[0], of.listed[1:]) if len(of.tree.expressions) > 1 else None,
    "SplitPart": lambda of: texts.split_part(of["this"], of["delimiter"], of["part_index"]),
    "Replace": lambda of: (
        texts.replaced(of["this"], of["expression"], of["replacement"])
        if of.tree.args.get("replacement") is not None
        else Term(STRING)
    ),
    "isnull": lambda of: logic.is_null(of[0]),
    "isnotnull": lambda of: logic.negated(logic.is_null(of[0])),
    "Nvl2": _nvl2,
    "Year": _part("YEAR"),
    "Quarter": _part("QUARTER"),
    "Month": _part("MONTH"),
    "Day": _part("DAY"),
    "DayOfMonth": _part("DAY"),
    "DayOfYear": _part("DAYOFYEAR"),
    "DayOfWeek": _part("DAYOFWEEK"),
    "WeekOfYear": _part("WEEK"),
    "weekday": lambda of: moments.part_of(of[0], "WEEKDAY"),
    "Hour": _part("HOUR"),
    "Minute": _part("MINUTE"),
    "Second": _part("SECOND"),
    "Extract": _extract,
    "UnixSeconds": lambda of: moments.since_1970(of["this"], "SECOND"),
    "UnixMillis": lambda of: moments.since_1970(of["this"], "MILLISECOND"),
    "UnixMicros": lambda of: moments.since_1970(of["this"], "MICROSECOND"),
    "timestamp_seconds": lambda of: moments.moment_from(of[0], "SECOND"),
    "timestamp_millis": lambda of: moments.moment_from(of[0], "MILLISECOND"),
    "timestamp_micros": lambda of: moments.moment_from(of[0], "MICROSECOND"),
    "TimestampTrunc": lambda of: (
        Term(TIMESTAMP) if of.is_plural else moments.truncated(of["this"], of.unit())
    ),
    "TsOrDsToDate": lambda of: (
        moments.as_date(of["this"]) if of.tree.args.get("format") is None else Term(DATE)
    ),
    "DateDiff": lambda of: (
        moments.days_between(of["this"], of["expression"])
        if of.tree.args.get("unit") is None
        else Term(BIGINT)
    ),
    "TsOrDsAdd": lambda of: moments.days_later(of["this"], of["expression"]) if of.unit() == "DAY" else None,
    "Struct": _struct,
    "Array": _array,
    "Bracket": _element,
    "ArraySize": lambda _: Term(INT),  # sqlglot does not tell `size` from `array_size`, which is null of null
    "cardinality": lambda of: nested.size(of[0]),
    "Round": _round,
    "Ceil": _rounded_whole,
    "Floor": _rounded_whole,
    "BitwiseAnd": _bits,
    "BitwiseOr": _bits,
    "BitwiseXor": _bits,
    "BitwiseNot": _same,
    **dict.fromkeys(_OF_THE_SAME.split(), _same),
    "ArrayMax": _element_of,
    "ArrayMin": _element_of,
    "Sqrt": _of_number(DOUBLE),
    "Pow": _of_number(DOUBLE),
    "Exp": _of_number(DOUBLE),
    "Ln": _of_number(DOUBLE),
}
# Only Spark computes these; their types do not depend on their arguments.
_BY_TYPE: Mapping[pa.DataType, str] = {
    STRING: """RegexpReplace RegexpExtract Initcap Repeat Pad Translate MD5 SHA SHA2 TimeToStr JSONExtractScalar Hex Soundex
        Format Chr ToChar SubstringIndex Overlay""",
    BOOLEAN: "RegexpLike ILike Escape ArrayContains",
    INT: "StrPosition Levenshtein Ascii Unicode hash BitLength octet_length",
    BIGINT: "xxhash64 crc32 StrToUnix TimeToUnix",
    DOUBLE: "MonthsBetween Degrees Radians Sin Cos Tan Atan Atan2 Asin Acos log1p expm1 Cbrt",
    DATE: "make_date LastDay NextDay AddMonths DateTrunc TsOrDsTrunc",
    TIMESTAMP: "StrToTime make_timestamp AtTimeZone FromTimeZone",
    BINARY: "Unhex Encode",
    pa.list_(pa.field("element", STRING)): "Split RegexpSplit",
}
_TYPED = {name: of for of, names in _BY_TYPE.items() for name in names.split()}

"""Functions that sqlglot reads in other ways than they are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

import pyarrow as pa
from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError

from headrace.expressions import logic, moments, nested, rounding, texts
from headrace.expressions.arguments import Arguments, Bind, Columns, UnknownError
from headrace.expressions.term import Term
from headrace.expressions.typed_functions import FIXED, TYPE_OF, common_type
from headrace.expressions.types import (
    BIGINT,
    DATE,
    INT,
    STRING,
    TIMESTAMP,
    is_temporal,
)


def tokens_of(sql: str) -> list[Token]:
    """The words of an expression; none if a quotation mark is not closed, which is told where it is parsed."""
    try:
        return Dialect.get_or_raise("spark").tokenize(sql)
    except SqlglotError:
        return []


def spelled_for_sqlglot(sql: str) -> str:
    """The same expression, with `size` as `cardinality`: sqlglot has one word for `size` and `array_size`.

    With null `size` gives -1, and `array_size` gives null.
    """
    if "size" not in sql.lower():
        return sql
    made, end = "", 0
    for token, following in pairwise(tokens_of(sql)):
        is_call = following.token_type == TokenType.L_PAREN and token.token_type == TokenType.VAR
        if is_call and token.text.lower() == "size":
            made += sql[end : token.start] + "cardinality"
            end = token.end + 1
    return made + sql[end:]


def call(tree: exp.Expr, columns: Columns, bind: Bind) -> Term | None:
    """The term of a function's call; None: only Spark knows its type."""
    name = _name(tree)
    if name in FIXED:
        return Term(FIXED[name])
    made = _CALLS.get(name)
    if made is None:
        return None
    arguments = Arguments(tree, columns, bind)
    try:
        return made(arguments)
    except UnknownError:
        return None


def _name(tree: exp.Expr) -> str:
    return str(tree.this).lower() if isinstance(tree, exp.Anonymous) else type(tree).__name__


def _part(unit: str) -> Callable[[Arguments], Term | None]:
    return lambda of: moments.part_of(of["this"], unit)


def _extract(of: Arguments) -> Term | None:
    return _part_named(str(of.tree.this.name).upper(), of["expression"])


def _date_part(of: Arguments) -> Term | None:
    unit = of[0].constant
    return _part_named(unit.upper(), of[1]) if isinstance(unit, str) else None


def _part_named(unit: str, term: Term) -> Term | None:
    plain = {"YEARS": "YEAR", "MONTHS": "MONTH", "DAYS": "DAY", "HOURS": "HOUR", "MINUTES": "MINUTE"}
    unit = plain.get(unit, unit)
    if unit in ("SECOND", "SECONDS"):
        return Term(pa.decimal128(8, 6)) if is_temporal(term.type) else None
    return moments.part_of(term, unit)


def _substring(of: Arguments) -> Term | None:
    return texts.substring(of["this"], of["start"], of.get("length"))


def _trim(of: Arguments) -> Term | None:
    if of.tree.args.get("expression") is not None:
        return Term(STRING)
    side = of.tree.args.get("position")
    return texts.trimmed(of["this"], str(side) if side and str(side) != "BOTH" else None)


def _struct(of: Arguments) -> Term | None:
    names, terms = [], []
    for each in of.tree.expressions:
        if not isinstance(each, exp.PropertyEQ):
            return None
        names.append(each.this.name)
        term = of._bind(each.expression, of._columns)
        if term is None or not names[-1]:
            return None
        terms.append(term)
    return nested.struct_of(names, terms) if names else None


def _element(of: Arguments) -> Term | None:
    if len(of.tree.expressions) != 1:
        return None
    return nested.element(of["this"], of[0], offset=int(of.tree.args.get("offset") or 0))


def _array(of: Arguments) -> Term | None:
    return nested.array_of_terms(of.listed, common_type([term.type for term in of.listed]))


def _nvl2(of: Arguments) -> Term | None:
    there = logic.negated(logic.is_null(of["this"]))
    assert there is not None
    return logic.case([(there, of["true"])], of["false"])


_CALLS: Mapping[str, Callable[[Arguments], Term | None]] = {
    "Substring": _substring,
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
    "date_part": _date_part,
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
    "Round": rounding.rounded,
    "Ceil": rounding.ceiling,
    "Floor": rounding.floor,
    "ArrayContains": lambda of: nested.contains(of["this"], of["expression"]),
    "ArraySize": lambda _: Term(INT),  # see `spelled_for_sqlglot`
    "cardinality": lambda of: nested.size(of[0]),
    **TYPE_OF,
}

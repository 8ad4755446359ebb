"""Great Expectations' claims about single rows, as SQL of Spark.

Law: a condition is true or false for each row, never null. As in Great Expectations, a null meets every claim but the one
that nulls are absent (and in a pair, one null fails a claim that both are equal).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlglot import exp

from headrace.description.schema import quote

Given = Mapping[str, Any]
# Arguments that change nothing of what a row has to be.
NEUTRAL = {"column", "column_A", "column_B", "mostly", "catch_exceptions"}


def condition_of(kind: str, given: Given) -> str | None:
    """SQL that is true for rows that meet an expectation of this class; None: a row alone does not tell."""
    known = CONDITIONS.get(kind)
    if known is None or given.get("mostly", 1) != 1:
        return None
    build, arguments = known
    if set(given) - NEUTRAL - arguments:  # such as row_condition: it would make another claim
        return None
    return build(given)


def words_of(kind: str, given: Given) -> str:
    """An expectation in words, as `n: values to be between, min_value 0`."""
    subject = " and ".join(str(given[name]) for name in ("column", "column_A", "column_B") if name in given)
    verb = "".join(f" {c.lower()}" if c.isupper() else c for c in kind.removeprefix("Expect")).strip()
    if subject:
        verb = verb.removeprefix("column ")
    rest = [
        f"{name} {_plain(value)}"
        for name, value in given.items()
        if name not in ("column", "column_A", "column_B")
    ]
    return ", ".join([f"{subject}: {verb}" if subject else verb, *rest])


def _plain(value: Any) -> Any:
    """A number without the fraction that Great Expectations gives it."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _literal(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).upper() if value is not None else "NULL"
    if isinstance(value, int | float):
        return repr(value)
    return exp.Literal.string(str(value)).sql(dialect="spark")


def _unless_null(column: str, condition: str) -> str:
    return f"{quote(column)} IS NULL OR coalesce({condition}, false)"


def _bounds(value: str, given: Given) -> str:
    low, high = given.get("min_value"), given.get("max_value")
    more, less = ">" if given.get("strict_min") else ">=", "<" if given.get("strict_max") else "<="
    sides = [f"{value} {more} {_literal(low)}"] if low is not None else []
    sides += [f"{value} {less} {_literal(high)}"] if high is not None else []
    return " AND ".join(sides) or "true"


def _between(given: Given) -> str:
    return _unless_null(given["column"], _bounds(quote(given["column"]), given))


def _lengths(given: Given) -> str:
    return _unless_null(given["column"], _bounds(f"length({quote(given['column'])})", given))


def _length(given: Given) -> str:
    return _unless_null(given["column"], f"length({quote(given['column'])}) = {_literal(given['value'])}")


def _in_set(given: Given, negated: str = "") -> str:
    values: Sequence[Any] = given.get("value_set") or ()
    listed = ", ".join(map(_literal, values)) or "NULL"
    inside = f"coalesce({quote(given['column'])} IN ({listed}), false)"
    return _unless_null(given["column"], f"{negated}{inside}")


def _matches(given: Given, negated: str = "") -> str:
    return _unless_null(
        given["column"], f"{negated}({quote(given['column'])} RLIKE {_literal(given['regex'])})"
    )


def _pair_equal(given: Given) -> str:
    one, other = quote(given["column_A"]), quote(given["column_B"])
    return f"{one} <=> {other}"


def _pair_greater(given: Given) -> str:
    one, other = quote(given["column_A"]), quote(given["column_B"])
    sign = ">=" if given.get("or_equal") else ">"
    return f"{one} IS NULL OR {other} IS NULL OR coalesce({one} {sign} {other}, false)"


_RANGE = {"min_value", "max_value", "strict_min", "strict_max"}
# By class: how its condition is made, and the arguments that this takes.
CONDITIONS: Mapping[str, tuple[Callable[[Given], str], set[str]]] = {
    "ExpectColumnValuesToNotBeNull": (lambda given: f"{quote(given['column'])} IS NOT NULL", set()),
    "ExpectColumnValuesToBeNull": (lambda given: f"{quote(given['column'])} IS NULL", set()),
    "ExpectColumnValuesToBeBetween": (_between, _RANGE),
    "ExpectColumnValuesToBeInSet": (_in_set, {"value_set"}),
    "ExpectColumnValuesToNotBeInSet": (lambda given: _in_set(given, "NOT "), {"value_set"}),
    "ExpectColumnValuesToMatchRegex": (_matches, {"regex"}),
    "ExpectColumnValuesToNotMatchRegex": (lambda given: _matches(given, "NOT "), {"regex"}),
    "ExpectColumnValueLengthsToBeBetween": (_lengths, _RANGE),
    "ExpectColumnValueLengthsToEqual": (_length, {"value"}),
    "ExpectColumnPairValuesToBeEqual": (_pair_equal, set()),
    "ExpectColumnPairValuesAToBeGreaterThanB": (_pair_greater, {"or_equal"}),
}

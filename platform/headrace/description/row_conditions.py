"""Great Expectations' claims about single rows, as SQL of Spark.

Law: a condition is true or false for each row, never null. As in Great Expectations, a null meets every claim but the one
that nulls are absent (and in a pair, one null fails a claim that both are equal).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlglot import exp

from headrace.description.schema import quote

Arguments = Mapping[str, Any]
# Arguments that change nothing of what a row has to be.
NEUTRAL = {"column", "column_A", "column_B", "mostly", "catch_exceptions"}


def condition_of(kind: str, named: Arguments) -> str | None:
    """SQL that is true for rows that meet an expectation of this class; None: a row alone does not tell."""
    known = CONDITIONS.get(kind)
    if known is None or named.get("mostly", 1) != 1:
        return None
    build, arguments = known
    if set(named) - NEUTRAL - arguments:  # such as row_condition: it would make another claim
        return None
    return build(named)


def words_of(kind: str, arguments: Arguments) -> str:
    """An expectation in words, as `n: values to be between, min_value 0`."""
    subject = " and ".join(
        str(arguments[name]) for name in ("column", "column_A", "column_B") if name in arguments
    )
    verb = "".join(f" {c.lower()}" if c.isupper() else c for c in kind.removeprefix("Expect")).strip()
    if subject:
        verb = verb.removeprefix("column ")
    rest = [
        f"{name} {_plain(value)}"
        for name, value in arguments.items()
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


def _unless_null(claim: Callable[[str, Arguments], str]) -> Callable[[Arguments], str]:
    """The condition that a value is null or as claimed. In: claim  takes the column, quoted."""

    def condition(arguments: Arguments) -> str:
        column = quote(arguments["column"])
        return f"{column} IS NULL OR coalesce({claim(column, arguments)}, false)"

    return condition


def _bounds(value: str, arguments: Arguments) -> str:
    low, high = arguments.get("min_value"), arguments.get("max_value")
    more, less = ">" if arguments.get("strict_min") else ">=", "<" if arguments.get("strict_max") else "<="
    sides = [f"{value} {more} {_literal(low)}"] if low is not None else []
    sides += [f"{value} {less} {_literal(high)}"] if high is not None else []
    return " AND ".join(sides) or "true"


def _in_set(value: str, arguments: Arguments) -> str:
    values: Sequence[Any] = arguments.get("value_set") or ()
    return f"coalesce({value} IN ({', '.join(map(_literal, values)) or 'NULL'}), false)"


def _matches(value: str, arguments: Arguments) -> str:
    return f"({value} RLIKE {_literal(arguments['regex'])})"


def _pair_equal(arguments: Arguments) -> str:
    one, other = quote(arguments["column_A"]), quote(arguments["column_B"])
    return f"{one} <=> {other}"


def _pair_greater(arguments: Arguments) -> str:
    one, other = quote(arguments["column_A"]), quote(arguments["column_B"])
    sign = ">=" if arguments.get("or_equal") else ">"
    return f"{one} IS NULL OR {other} IS NULL OR coalesce({one} {sign} {other}, false)"


_RANGE = {"min_value", "max_value", "strict_min", "strict_max"}
# By class: how its condition is made, and the arguments that this takes.
CONDITIONS: Mapping[str, tuple[Callable[[Arguments], str], set[str]]] = {
    "ExpectColumnValuesToNotBeNull": (lambda arguments: f"{quote(arguments['column'])} IS NOT NULL", set()),
    "ExpectColumnValuesToBeNull": (lambda arguments: f"{quote(arguments['column'])} IS NULL", set()),
    "ExpectColumnValuesToBeBetween": (_unless_null(_bounds), _RANGE),
    "ExpectColumnValuesToBeInSet": (_unless_null(_in_set), {"value_set"}),
    "ExpectColumnValuesToNotBeInSet": (_unless_null(lambda x, of: f"NOT {_in_set(x, of)}"), {"value_set"}),
    "ExpectColumnValuesToMatchRegex": (_unless_null(_matches), {"regex"}),
    "ExpectColumnValuesToNotMatchRegex": (_unless_null(lambda x, of: f"NOT {_matches(x, of)}"), {"regex"}),
    "ExpectColumnValueLengthsToBeBetween": (_unless_null(lambda x, of: _bounds(f"length({x})", of)), _RANGE),
    "ExpectColumnValueLengthsToEqual": (
        _unless_null(lambda x, of: f"length({x}) = {_literal(of['value'])}"),
        {"value"},
    ),
    "ExpectColumnPairValuesToBeEqual": (_pair_equal, set()),
    "ExpectColumnPairValuesAToBeGreaterThanB": (_pair_greater, {"or_equal"}),
}

"""Event time by an expression over a record's value and headers, which the sequencer evaluates once.

Law: a function of the record. The functions are few, because no Spark runs where records are sequenced; each is Spark's of
that name. A value that they cannot read is null, and a record without event time is a dead letter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from headrace.description.expressions import syntax_tree
from headrace.description.record_metadata import HEADER_OF_NAME
from headrace.description.schema import Column, fields_of_struct, is_integral
from headrace.description.wording import did_you_mean, listed
from headrace.errors import DescriptionError

TO_TIMESTAMP, COALESCE = "to_timestamp", "coalesce"
# Of each function over a whole number how many ms one is, or how many of them one ms is, as a negative number.
UNITS: Mapping[str, int] = {"timestamp_seconds": 1_000, "timestamp_millis": 1, "timestamp_micros": -1_000}
TO_NUMBER = "bigint"  # a text, or a whole number, as BIGINT
_OPERATORS: Mapping[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.IntDiv: "DIV"}
_HINT = (
    "The sequencer knows fields (meta.at), to_timestamp(text), timestamp_seconds, timestamp_millis and timestamp_micros "
    "of whole numbers, + - * DIV and CAST(… AS BIGINT) of these, CAST(record_header('name') AS STRING), and coalesce."
)


@dataclass(frozen=True)
class Field:
    """A field of the value: a column, or a field within structs.

    type  as DDL
    """

    path: tuple[str, ...]
    type: str


@dataclass(frozen=True)
class Header:
    """The last header of a name, as text."""

    name: str


@dataclass(frozen=True)
class Number:
    """A whole number that the expression states."""

    value: int


@dataclass(frozen=True)
class Arithmetic:
    """Two whole numbers and what is between them: "+", "-", "*" or "DIV". It wraps as BIGINT does in Spark."""

    operator: str
    left: EventTime
    right: EventTime


@dataclass(frozen=True)
class Call:
    """A function of event times, or of one value."""

    function: str
    of: tuple[EventTime, ...]


EventTime = Field | Header | Number | Arithmetic | Call


def event_time(sql: str, columns: Sequence[Column], what: str) -> EventTime:
    """Read the expression of a topic's `timestamp`; a column's name stands for the column.

    Out:    its value is a TIMESTAMP, or a whole number of ms since 1970
    Raises: DescriptionError when a field does not exist or has a type that is no time, or the sequencer lacks a function
    """
    column = next((column for column in columns if column.name == sql), None)
    if column is not None:
        found: EventTime = Field((sql,), column.type)
        _require_time(found, what, f"timestamp column '{sql}'")
        return found
    if not sql.replace("_", "").isalnum():
        found = _read(syntax_tree(sql, f"{what}: timestamp"), columns, f"{what}: timestamp({sql!r})")
        _require_time(found, what, f"timestamp {sql!r}")
        return found
    names = [column.name for column in columns]
    raise DescriptionError(
        f"{what}: timestamp column {sql!r} does not exist in the value; columns are {listed(names)}.",
        hint=did_you_mean(sql, names),
    )


def of_headers(event_time: EventTime) -> bool:
    """Whether an event time reads a header."""
    match event_time:
        case Header():
            return True
        case Arithmetic():
            return of_headers(event_time.left) or of_headers(event_time.right)
        case Call():
            return any(map(of_headers, event_time.of))
    return False


def _require_time(event_time: EventTime, what: str, name: str) -> None:
    of = _type(event_time)
    if of not in ("TIMESTAMP", "BIGINT"):
        raise DescriptionError(
            f"{what}: {name} is {of}.", hint="Declare it TIMESTAMP, or BIGINT in epoch milliseconds."
        )


def _type(event_time: EventTime) -> str:
    match event_time:
        case Field():
            return event_time.type
        case Header():
            return "STRING"
        case Number(value):
            return "INT" if -(1 << 31) <= value < 1 << 31 else "BIGINT"
        case Arithmetic():
            return "BIGINT"
    if event_time.function == COALESCE:
        return " or ".join(sorted({_type(each) for each in event_time.of}))
    return "BIGINT" if event_time.function == TO_NUMBER else "TIMESTAMP"


def _read(tree: exp.Expr, columns: Sequence[Column], what: str) -> EventTime:
    match tree:
        case exp.Paren():
            return _read(tree.this, columns, what)
        case exp.Coalesce():
            of = (_read(each, columns, what) for each in (tree.this, *tree.expressions))
            return Call(COALESCE, tuple(of))
        case exp.Column() | exp.Dot():
            return _field(_path(tree), columns, what)
        case exp.Cast() if "TIMESTAMP" in str(tree.to.sql(dialect="spark")):
            return Call(TO_TIMESTAMP, (_argument(tree.this, columns, what, texts=True),))
        case exp.Cast() if _is_header(tree.this) and tree.to.is_type("text"):
            return Header(tree.this.expressions[0].this)
        case exp.Cast() if tree.to.is_type("bigint"):
            return Call(TO_NUMBER, (_read(tree.this, columns, what),))
        case exp.Literal() if tree.is_int:
            return Number(int(tree.this))
        case exp.Neg():
            return Arithmetic("-", Number(0), _read(tree.this, columns, what))
        case exp.Add() | exp.Sub() | exp.Mul() | exp.IntDiv():
            return _arithmetic(tree, columns, what)
        case exp.Anonymous() if str(tree.this).lower() in UNITS and len(tree.expressions) == 1:
            argument = _argument(tree.expressions[0], columns, what, texts=False)
            return Call(str(tree.this).lower(), (argument,))
    raise DescriptionError(f"{what}: no Spark runs where event times are decided.", hint=_HINT)


def _argument(tree: exp.Expr, columns: Sequence[Column], what: str, *, texts: bool) -> EventTime:
    found = _read(tree, columns, what)
    of = _type(found)
    if of == "STRING" if texts else is_integral(of):
        return found
    wanted = "texts" if texts else "whole numbers"
    raise DescriptionError(f"{what}: the function takes {wanted}, and {_sql(tree)} is {of}.", hint=_HINT)


def _arithmetic(tree: exp.Expr, columns: Sequence[Column], what: str) -> Arithmetic:
    sides = [tree.this, tree.expression]
    left, right = (_argument(each, columns, what, texts=False) for each in sides)
    types = [_type(left), _type(right)]
    if "BIGINT" not in types and not isinstance(tree, exp.IntDiv):
        raise DescriptionError(
            f"{what}: {_sql(tree)} is {types[0]}, whose numbers are too small for times.",
            hint=f"Write CAST({_sql(sides[isinstance(left, Number)])} AS BIGINT) there.",
        )
    return Arithmetic(_OPERATORS[type(tree)], left, right)


def _is_header(tree: exp.Expr) -> bool:
    is_call = isinstance(tree, exp.Anonymous) and str(tree.this).lower() == HEADER_OF_NAME
    return is_call and [each.is_string for each in tree.expressions] == [True]


def _sql(tree: exp.Expr) -> str:
    return str(tree.sql(dialect="spark"))


def _path(tree: exp.Expr) -> tuple[str, ...]:
    if isinstance(tree, exp.Dot):
        return (*_path(tree.this), tree.expression.name)
    return tuple(part.name for part in tree.parts) if isinstance(tree, exp.Column) else (tree.name,)


def _field(path: tuple[str, ...], columns: Sequence[Column], what: str) -> Field:
    """A field as it is declared; Spark compares names without case."""
    spelled: list[str] = []
    of = ""
    for name in path:
        column = next((column for column in columns if column.name.lower() == name.lower()), None)
        if column is None:
            known = [column.name for column in columns]
            place = f"'{'.'.join(spelled)}' has" if spelled else "columns are"
            raise DescriptionError(
                f"{what}: field '{name}' does not exist in the value; {place} {listed(known)}.",
                hint=did_you_mean(name, known),
            )
        spelled.append(column.name)
        of = column.type
        columns = fields_of_struct(of, what)
    return Field(tuple(spelled), of)

"""Event time by an expression over a record's value, which the sequencer evaluates once.

Law: a function of the value. The functions are few, because no Spark runs where records are sequenced; each is Spark's of
that name. A value that they cannot read is null, and a record without event time is a dead letter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from headrace.description.expressions import syntax_tree
from headrace.description.schema import Column, fields_of_struct, is_integral
from headrace.description.wording import did_you_mean, listed
from headrace.errors import DescriptionError

TO_TIMESTAMP, COALESCE = "to_timestamp", "coalesce"
# Of each function over a whole number how many ms one is, or how many of them one ms is, as a negative number.
UNITS: Mapping[str, int] = {"timestamp_seconds": 1_000, "timestamp_millis": 1, "timestamp_micros": -1_000}
_HINT = (
    "The sequencer knows fields (meta.at), to_timestamp(text), timestamp_seconds, timestamp_millis and timestamp_micros "
    "of whole numbers, and coalesce."
)


@dataclass(frozen=True)
class Field:
    """A field of the value: a column, or a field within structs.

    type  as DDL
    """

    path: tuple[str, ...]
    type: str


@dataclass(frozen=True)
class Call:
    """A function of event times, or of one field."""

    function: str
    of: tuple[EventTime, ...]


EventTime = Field | Call


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


def _require_time(event_time: EventTime, what: str, name: str) -> None:
    of = _type(event_time)
    if of not in ("TIMESTAMP", "BIGINT"):
        raise DescriptionError(
            f"{what}: {name} is {of}.", hint="Declare it TIMESTAMP, or BIGINT in epoch milliseconds."
        )


def _type(event_time: EventTime) -> str:
    if isinstance(event_time, Field):
        return event_time.type
    if event_time.function != COALESCE:
        return "TIMESTAMP"
    types = {_type(each) for each in event_time.of}
    return " or ".join(sorted(types))


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
        case exp.Anonymous() if str(tree.this).lower() in UNITS and len(tree.expressions) == 1:
            argument = _argument(tree.expressions[0], columns, what, texts=False)
            return Call(str(tree.this).lower(), (argument,))
    raise DescriptionError(f"{what}: no Spark runs where event times are decided.", hint=_HINT)


def _argument(tree: exp.Expr, columns: Sequence[Column], what: str, *, texts: bool) -> Field:
    found = _read(tree, columns, what)
    if isinstance(found, Field) and (found.type == "STRING" if texts else is_integral(found.type)):
        return found
    wanted = "a field of texts" if texts else "a field of whole numbers"
    is_field = f", and '{'.'.join(found.path)}' is {found.type}" if isinstance(found, Field) else ""
    raise DescriptionError(f"{what}: the function takes {wanted}{is_field}.", hint=_HINT)


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

"""Columns and their types, written as Spark's DDL: "sensor_id STRING, value DOUBLE NOT NULL"."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from headrace.description.ddl import DdlReader, quote
from headrace.description.wording import a_value
from headrace.errors import DescriptionError

__all__ = [
    "Column", "ResultColumn", "is_decimal", "is_floating", "is_integral", "is_numeric", "parse_ddl", "quote",
    "refuse_repeats", "refuse_reserved", "to_ddl",
]  # fmt: skip

RESERVED_PREFIX = "__"
COMPUTED = "computed"  # the type of a result column that only Spark knows
UNFIT = {"Cc": "the control character", "Cs": "half of a surrogate pair,"}  # by Unicode's category
_INTEGRAL = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
_FLOATING = frozenset({"FLOAT", "DOUBLE"})


@dataclass(frozen=True)
class Column:
    """A column: its name, its type as Spark's DDL in upper case ("DECIMAL(10,2)"), whether it may be null."""

    name: str
    type: str
    nullable: bool


@dataclass(frozen=True)
class ResultColumn:
    """A column of a node's table: its type as DDL (COMPUTED when only Spark knows it) and its meaning."""

    name: str
    type: str
    meaning: str


def parse_ddl(ddl: str, what: str) -> tuple[Column, ...]:
    """The columns of a DDL text.

    In: `ddl`, such as "sensor_id STRING, address STRUCT<city: STRING>"; `what` names it in errors.
    Raises: DescriptionError for an unknown type, a repeated name (without case), a name starting with `__`.
    """
    if not isinstance(ddl, str) or not ddl.strip():
        raise DescriptionError(
            f"{what}: {a_value(ddl)} is not a list of columns.",
            hint="Write for example 'sensor_id STRING, value DOUBLE'.",
        )
    columns = tuple(Column(*field) for field in DdlReader(ddl, what).fields())
    names = [column.name for column in columns]
    refuse_repeats(names, what)
    refuse_reserved(names, what)
    return columns


def fields_of_struct(type: str, what: str) -> tuple[Column, ...]:
    """The fields of a type as `Column` has it; none if it is no STRUCT."""
    if not type.startswith("STRUCT<"):
        return ()
    inner = type.removeprefix("STRUCT<").removesuffix(">")
    return tuple(Column(*field) for field in DdlReader(inner, what).fields(colon=True))


def parse_type(ddl: str, what: str) -> str:
    """A type as `Column` has it. In: as for `parse_ddl`, the type alone."""
    (column,) = parse_ddl(f"x {ddl}", what)
    return column.type


def refuse_repeats(names: Iterable[str], what: str) -> None:
    """Raise DescriptionError when two names are equal without regard to case, as Spark compares them."""
    seen: dict[str, str] = {}
    for name in names:
        first = seen.get(name.lower())
        if first is None:
            seen[name.lower()] = name
        else:
            alike = (
                f"'{name}' occurs twice" if first == name else f"'{first}' and '{name}' differ only in case"
            )
            raise DescriptionError(f"{what}: {alike}.", hint="Give each column a name of its own.")


def refuse_reserved(names: Iterable[str], what: str) -> None:
    """Raise DescriptionError when no column may have a name.

    Names that start with `__` are kept for Headrace's own columns. PostgreSQL, SQL and log files take no control
    characters, and no store takes half of a surrogate pair.
    """
    for name in names:
        for letter in name:
            if unicodedata.category(letter) in UNFIT:
                raise DescriptionError(
                    f"{what}: the name {name!r} holds {UNFIT[unicodedata.category(letter)]} U+{ord(letter):04X}.",
                    hint=f"Call it {''.join(c for c in name if unicodedata.category(c) not in UNFIT)!r}.",
                )
        if name.startswith(RESERVED_PREFIX):
            raise DescriptionError(
                f"{what}: '{name}' is reserved, because it starts with '{RESERVED_PREFIX}'.",
                hint=f"Call it '{name.lstrip('_') or 'x'}'.",
            )


def to_ddl(columns: Iterable[Column]) -> str:
    """The columns as DDL that Spark's schema parser reads; every name is quoted."""
    return ", ".join(
        f"{quote(column.name)} {column.type}" + ("" if column.nullable else " NOT NULL") for column in columns
    )


def is_integral(type: str) -> bool:
    """Whether the type is a whole number of 8 to 64 bits."""
    return type in _INTEGRAL


def is_floating(type: str) -> bool:
    """Whether the type is a binary floating-point number."""
    return type in _FLOATING


def is_decimal(type: str) -> bool:
    """Whether the type is DECIMAL(p,s)."""
    return type.startswith("DECIMAL(")


def is_numeric(type: str) -> bool:
    """Whether sums and averages of the type exist."""
    return is_integral(type) or is_floating(type) or is_decimal(type)

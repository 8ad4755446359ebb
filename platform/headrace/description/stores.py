"""Stores of processors: their names, and the columns of their keys and values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from headrace.description.schema import Column, is_floating, parse_ddl, refuse_repeats, to_ddl
from headrace.description.wording import a_value
from headrace.errors import DescriptionError

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
NAME_MAX = 80


@dataclass(frozen=True)
class Store:
    """A store of each group of a processor.

    key    the columns of a key; none: the store has one entry
    value  the columns of a value
    """

    name: str
    key: tuple[Column, ...]
    value: tuple[Column, ...]

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and len(self.name) <= NAME_MAX and _NAME.fullmatch(self.name)):
            raise DescriptionError(
                f"store: {a_value(self.name)} is not a name in lower-case letters, digits and single underscores.",
                hint="Write for example hr.key_value_store('counts', 'word STRING', 'n BIGINT').",
            )
        refuse_repeats([column.name for column in self.columns], f"store '{self.name}'")
        for column in self.key:
            if is_floating(column.type) or "<" in column.type:
                raise DescriptionError(
                    f"store '{self.name}': key column '{column.name}' is {column.type}, which has no plain order.",
                    hint="Let the key be a text, a whole number, a decimal, a date or a time.",
                )

    @property
    def columns(self) -> tuple[Column, ...]:
        """Those of the key, then those of the value."""
        return (*self.key, *self.value)

    def rules(self) -> dict[str, Any]:
        """Name and columns."""
        return {"store": self.name, "key": to_ddl(self.key), "value": to_ddl(self.value)}


def key_value_store(name: str, key: str, value: str) -> Store:
    """A store of entries by key; each group has its own.

    In:     key, value  their columns as DDL, such as "visitor STRING" and "n BIGINT"
    Raises: DescriptionError for a name or a column that cannot be
    """
    what = f"store {a_value(name)}"
    return Store(name, parse_ddl(key, f"{what}: key"), parse_ddl(value, f"{what}: value"))


def value_store(name: str, value: str) -> Store:
    """A store of one entry for each group.

    In:     value  its columns as DDL
    Raises: DescriptionError for a name or a column that cannot be
    """
    return Store(name, (), parse_ddl(value, f"store {a_value(name)}: value"))

"""A format that brings a schema: what it tells about the keys or values of a topic."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from headrace.description.schema import Column, parse_ddl
from headrace.description.wording import did_you_mean, listed
from headrace.errors import DescriptionError


class Format(ABC):
    """Immutable, and equal by content."""

    @abstractmethod
    def columns(self, topic: str, part: str, declared: str | None) -> tuple[Column, ...]:
        """The columns of keys or values.

        In:     part      "key" or "value"
                declared  the columns as DDL, if the topic names some
        Raises: DescriptionError; RegistryAwayError when a registry has to be asked and does not answer
        """


def narrowed(
    declared: str | None, names: Sequence[str], column: Callable[[str], str], what: str, schema: str
) -> tuple[Column, ...]:
    """The columns that a topic names, or all.

    In:     names   of the schema's fields, and `column` gives the DDL of each
            what    names the topic's keys or values, and `schema` the schema, in errors
    Raises: DescriptionError when a declared column is not in the schema, or has another type there
    """
    if not declared:
        return parse_ddl(", ".join(column(name) for name in names), what)
    wanted = parse_ddl(declared, what)
    for each in wanted:
        if each.name not in names:
            raise DescriptionError(
                f"{what}: column '{each.name}' is not in the {schema}; its fields are {listed(names)}.",
                hint=did_you_mean(each.name, names),
            )
        (has,) = parse_ddl(column(each.name), what)
        if has.type != each.type:
            raise DescriptionError(
                f"{what}: column '{each.name}' is {each.type}, and {has.type} by the {schema}.",
                hint=f"Write {each.name} {has.type}, and change the type in a step: .with_column(…).",
            )
    return wanted

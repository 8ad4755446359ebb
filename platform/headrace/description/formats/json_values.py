"""JSON that is more than one plain object with the topic's columns, described."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.description.formats.format import Format
from headrace.description.schema import Column, fields_of_struct, parse_ddl, refuse_repeats, refuse_reserved
from headrace.description.ways_on import explained_call
from headrace.description.wording import a_value
from headrace.errors import DescriptionError


@explained_call
@dataclass(frozen=True)
class Json(Format):
    """Keys or values that are JSON: `hr.Topic(…, value="id STRING", format=hr.Json(value_path="payload"))`.

    In: `value_path`: the names that lead to the object with the topic's columns, with dots between them; a record without an
    object there is a dead letter.
    `unknown`: the name of one more column, STRING. It holds the fields that no column has, as a JSON object in their order;
    null: there are none. Without it they are passed over.
    `lines`: True: a value is one object a line, and the topic's one column is an array of structs, whose elements they are:
    `value="items ARRAY<STRUCT<id: STRING>>"`; `.flat_map("items AS item")` makes rows of them.
    `gzip`: True: values that begin with gzip's magic bytes are decompressed; others are read as they are.
    Out: the columns that `value=` or `key=` names, and `unknown`.
    Raises: DescriptionError naming the value and the fix.
    """

    value_path: str | None = None
    unknown: str | None = None
    lines: bool = False
    gzip: bool = False

    def __post_init__(self) -> None:
        if self.value_path is not None and (
            not isinstance(self.value_path, str) or "" in self.value_path.split(".")
        ):
            raise DescriptionError(
                f"Json: value_path {a_value(self.value_path)} is no path of names.",
                hint="Write for example value_path='payload' or value_path='data.order'.",
            )
        if self.unknown is not None and (not isinstance(self.unknown, str) or not self.unknown):
            raise DescriptionError(f"Json: unknown {a_value(self.unknown)} is not the name of a column.")
        if self.lines and (self.value_path, self.unknown) != (None, None):
            raise DescriptionError(
                "Json: lines goes with neither value_path nor unknown.",
                hint="Make the field a column of the struct: value='items ARRAY<STRUCT<payload: STRUCT<…>>>'.",
            )

    def columns(self, topic: str, part: str, declared: str | None) -> tuple[Column, ...]:
        """The columns of keys or values (see `Format.columns`)."""
        what = f"Topic '{topic}': {part}"
        columns = parse_ddl(declared or "", what)
        if self.lines and not _is_list_of_structs(columns, what):
            raise DescriptionError(
                f"{what}: of lines there is one column, an array of structs.",
                hint=f"Write for example {part}='items ARRAY<STRUCT<id: STRING>>'.",
            )
        if self.unknown is None:
            return columns
        names = [*(column.name for column in columns), self.unknown]
        refuse_repeats(names, what)
        refuse_reserved(names, what)
        return (*columns, Column(self.unknown, "STRING", True))


def _is_list_of_structs(columns: tuple[Column, ...], what: str) -> bool:
    inner = columns[0].type.removeprefix("ARRAY<").removesuffix(">")
    is_list = columns[0].type.startswith("ARRAY<")
    return len(columns) == 1 and is_list and bool(fields_of_struct(inner, what))

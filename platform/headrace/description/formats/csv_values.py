"""Values that are one line of comma-separated values, described."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.description.formats.format import Format
from headrace.description.schema import Column, parse_ddl
from headrace.description.ways_on import explained_call
from headrace.description.wording import a_value
from headrace.errors import DescriptionError

NESTED = ("ARRAY<", "STRUCT<", "MAP<")


@explained_call
@dataclass(frozen=True)
class Csv(Format):
    """Keys or values that are one line of CSV (RFC 4180): `hr.Topic(…, value="id STRING, n INT", format=hr.Csv())`.

    In: `separator`: one character between the fields. `gzip`: True: values that begin with gzip's magic bytes are
    decompressed; others are read as they are.
    Out: the columns that `value=` or `key=` names, by their place in the line. An empty field is null, and `""` is an empty
    text. Fields are read into their columns as JSON's numbers, `true`, `false` and texts are. There is no line of names.
    Raises: DescriptionError naming the value and the fix.
    """

    separator: str = ","
    gzip: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.separator, str) or len(self.separator) != 1 or self.separator in '"\r\n':
            raise DescriptionError(
                f"Csv: separator {a_value(self.separator)} is not one character.",
                hint="Write ',', ';' or '\\t'.",
            )

    def columns(self, topic: str, part: str, declared: str | None) -> tuple[Column, ...]:
        """The columns of keys or values (see `Format.columns`)."""
        what = f"Topic '{topic}': {part}"
        columns = parse_ddl(declared or "", what)
        for column in columns:
            if column.type.startswith(NESTED):
                raise DescriptionError(
                    f"{what}: column '{column.name}' is {column.type}, and a field of CSV is one value.",
                    hint="Read it as STRING, and take it apart in a step: .with_column(…).",
                )
        return columns

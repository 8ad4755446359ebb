"""Keys or values that are plain text, described."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.description.formats.format import Format
from headrace.description.schema import Column, parse_ddl
from headrace.errors import DescriptionError


@dataclass(frozen=True)
class Text(Format):
    """Keys or values that are one text in UTF-8, such as a log line: `hr.Topic(…, value="line STRING", format=hr.Text())`.

    In: `gzip`: True: values that begin with gzip's magic bytes are decompressed; others are read as they are.
    Out: the one STRING column that `value=` or `key=` names, with all letters of the text, newlines too.
    Raises: DescriptionError naming the columns and the fix.
    """

    gzip: bool = False

    def columns(self, topic: str, part: str, declared: str | None) -> tuple[Column, ...]:
        """The column of keys or values (see `Format.columns`)."""
        what = f"Topic '{topic}': {part}"
        columns = parse_ddl(declared, what) if declared else ()
        if [column.type for column in columns] != ["STRING"]:
            raise DescriptionError(
                f"{what}: '{declared or ''}' is not one STRING column, and a text has no others.",
                hint=f"Write {part}='line STRING', and take the text apart in a step: .with_column(…).",
            )
        return columns

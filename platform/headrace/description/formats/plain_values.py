"""Keys or values that are one value without a name, described: a text, bytes, or a number as Kafka writes it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from headrace.description.formats.format import Format
from headrace.description.schema import Column, parse_ddl
from headrace.description.ways_on import explained_call
from headrace.description.wording import require_choice
from headrace.errors import DescriptionError

TEXT, BYTES = "text", "bytes"
NUMBER_TYPES: Mapping[str, str] = {"int32": "INT", "int64": "BIGINT", "float32": "FLOAT", "float64": "DOUBLE"}


class PlainValue(Format):
    """A format of one column, whose name the topic gives."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """`TEXT`, `BYTES`, or a type of `NUMBER_TYPES`."""

    @property
    @abstractmethod
    def column_type(self) -> str:
        """The type of its column as DDL."""

    def columns(self, topic: str, part: str, declared: str | None) -> tuple[Column, ...]:
        """The column of keys or values (see `Format.columns`)."""
        what = f"Topic '{topic}': {part}"
        columns = parse_ddl(declared, what) if declared else ()
        if [column.type for column in columns] != [self.column_type]:
            raise DescriptionError(
                f"{what}: '{declared or ''}' is not one {self.column_type} column, and {self.kind} has no others.",
                hint=f"Write {part}='{part} {self.column_type}'. Steps make other columns: .with_column(…).",
            )
        return columns


@explained_call
@dataclass(frozen=True)
class Text(PlainValue):
    """Keys or values that are one text in UTF-8, such as a log line: `hr.Topic(…, value="line STRING", format=hr.Text())`.

    In: `gzip`: True: values that begin with gzip's magic bytes are decompressed; others are read as they are.
    Out: the one STRING column that `value=` or `key=` names, with all letters of the text, newlines too.
    Raises: DescriptionError naming the columns and the fix.
    """

    gzip: bool = False
    kind = TEXT
    column_type = "STRING"


@explained_call
@dataclass(frozen=True)
class Bytes(PlainValue):
    """Keys or values that are bytes of any meaning: `hr.Topic(…, value="picture BINARY", format=hr.Bytes())`.

    Out: the one BINARY column that `value=` or `key=` names. No bytes are malformed.
    Raises: DescriptionError naming the columns and the fix.
    Source: Kafka, ByteArraySerializer and ByteArrayDeserializer.
    """

    kind = BYTES
    column_type = "BINARY"


@explained_call
@dataclass(frozen=True)
class Number(PlainValue):
    """Keys or values that are one number: `hr.Topic(…, key="id BIGINT", key_format=hr.Number("int64"))`.

    In: `type`: "int32", "int64", "float32" or "float64": 4 or 8 bytes, the highest first.
    Out: the one INT, BIGINT, FLOAT or DOUBLE column that `value=` or `key=` names. Other bytes are malformed.
    Raises: DescriptionError naming the type or the columns, and the fix.
    Source: Kafka, IntegerSerializer, LongSerializer, FloatSerializer and DoubleSerializer.
    """

    type: Literal["int32", "int64", "float32", "float64"]

    def __post_init__(self) -> None:
        require_choice("Number: type", self.type, tuple(NUMBER_TYPES), "types are")

    @property
    def kind(self) -> str:
        """The type."""
        return self.type

    @property
    def column_type(self) -> str:
        """The type of its column as DDL."""
        return NUMBER_TYPES[self.type]

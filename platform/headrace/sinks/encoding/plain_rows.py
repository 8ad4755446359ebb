"""Rows as one value without a name: the one column that a key or a value has, as Kafka's own serializers write it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.description.arrow_types import arrow_type
from headrace.description.formats import PlainValue
from headrace.description.schema import COMPUTED
from headrace.description.wording import listed
from headrace.errors import DescriptionError
from headrace.sequence.encodings import ValueBytes
from headrace.sequence.readers.plain_values import written
from headrace.sinks.encoding.round_trip import RoundTrip, require_fit, why_not


@dataclass(frozen=True)
class PlainRows:
    """Encodes rows of one column. In: kind  see `PlainValue.kind`; may_lack  whether null stands for no bytes."""

    column: str
    kind: str
    may_lack: bool

    def function(self) -> Callable[[Any], bytes | None]:
        """See `RowEncoder`."""

        def encode(row: Any) -> bytes | None:
            value = row[self.column]
            if value is not None:
                return written(self.kind, value)
            if self.may_lack:
                return None
            raise ValueError(f"{self.column} is null, and a record without a value says that its row is gone")

        return encode


def plain_trip(of: PlainValue, columns: pa.Schema, what: str) -> RoundTrip:
    """The way back of rows of one column. Raises: TerminalError when its values cannot come back."""
    read = arrow_type(of.column_type)
    return RoundTrip(ValueBytes(of.kind), require_fit(columns, lambda name: read, f"format {of.kind}", what))


def require_column(
    of: PlainValue, types: Mapping[str, str], names: Sequence[str], key: Sequence[str], what: str
) -> None:
    """Raise DescriptionError unless one column is the plain value, and its type fits as far as it is known.

    In: types  of the rows' columns as DDL; names, key  as of `columns_of`
    """
    (name,) = columns_of(of, names, key, what)
    if types.get(name, COMPUTED) != COMPUTED and (
        why := why_not(arrow_type(types[name]), arrow_type(of.column_type), name)
    ):
        raise DescriptionError(
            f"{what}: column '{name}' is {types[name]}, and {of.kind} is {of.column_type}.",
            detail=why,
            hint=f"Choose another format, or change its type in a step: .with_column('{name}', …).",
        )


def columns_of(of: object, names: Sequence[str], key: Sequence[str], what: str) -> tuple[str, ...]:
    """The columns of a record's key or value.

    In:     names  of the part: of a value all of the row
            key    those of the key
    Out:    of a plain value one: of several the one that is not in the key
    Raises: DescriptionError when there are several
    """
    if not isinstance(of, PlainValue) or len(names) == 1:
        return tuple(names)
    others = tuple(name for name in names if name not in key)
    if len(others) == 1:
        return others
    raise DescriptionError(
        f"{what}: {of.kind} is one column, and there are {listed(others or names)}.",
        hint="Leave the others out with a select, or choose a format with several columns, such as 'json'.",
    )

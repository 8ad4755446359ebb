"""Keys that people ask for, as the columns of a node have them.

Law: a text is read as the column's type; of a time without a zone it is UTC, of bytes it is Base64, as JSON has them.
"""

from __future__ import annotations

import binascii
import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description.wording import a_value, listed
from headrace.errors import DescriptionError
from headrace.fold.contract import HASH, KEY, PARTITION, TOPIC, Needs, Scope, Step
from headrace.fold.keys import with_keys

if TYPE_CHECKING:
    from headrace.description import Node
    from headrace.lake import LakeTable

Moment = dt.datetime | str


@dataclass(frozen=True)
class Sought:
    """A key that is looked for: its values as a table of one row, and their bytes and hash."""

    values: pa.Table
    key: bytes
    hash: int

    @classmethod
    def of(cls, node: Node, values: Mapping[str, Any], results: LakeTable) -> Sought:
        """Raises: DescriptionError for a value that its column cannot have."""
        wanted = pa.table({name: typed(node, name, value, results) for name, value in values.items()})
        keyed = with_keys(wanted, [*values])
        return cls(wanted, keyed[KEY][0].as_py(), keyed[HASH][0].as_py())

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the key."""
        return tuple(self.values.column_names)

    def among(self, rows: pa.Table) -> pa.Table:
        """The rows of this key."""
        keyed = with_keys(rows, self.columns)
        return keyed.filter(pc.equal(keyed[KEY], pa.scalar(self.key, keyed[KEY].type)))

    def needs(self, step: Step, places: Collection[tuple[str, int]]) -> Needs:
        """The rows that a step keeps of this group. In: places  the topics and partitions of the node's records."""
        if step.scope is not Scope.GROUP_AND_PARTITION:
            return Needs(hashes=np.array([self.hash]))
        topics, partitions = zip(*places, strict=True) if places else ((), ())
        of_places = self.values.take(pa.array([0] * len(topics)))
        of_places = of_places.append_column(TOPIC, pa.array(topics, pa.string()))
        of_places = of_places.append_column(PARTITION, pa.array(partitions, pa.int32()))
        return Needs(hashes=np.unique(with_keys(of_places, of_places.column_names)[HASH].to_numpy()))


def values_of(node: Node, key: Any, columns: Sequence[str]) -> dict[str, Any]:
    """Give the values of a key by column.

    Raises: DescriptionError
    """
    many = isinstance(key, Sequence) and not isinstance(key, str | bytes)
    if isinstance(key, Mapping):
        values = dict(key)
    elif many:
        values = dict(zip(columns, key, strict=True)) if len(key) == len(columns) else {}
    else:
        values = {columns[0]: key} if len(columns) == 1 else {}
    if set(values) != set(columns):
        shown = ", ".join(a_value(each) for each in key) if many else a_value(key)
        raise DescriptionError(
            f"Node '{node.required_name}': {shown} is not a key of its rows.",
            hint=f"Give a value for each of: {listed(columns)}. For the rows of some of these values ask headrace sql.",
        )
    return {name: values[name] for name in columns}


def typed(node: Node, column: str, value: Any, results: LakeTable) -> pa.Array:
    """A value of a key as an array of the column's type. Raises: DescriptionError."""
    of = results.columns.field(column).type
    try:
        return _read(value, of) if isinstance(value, str) else pa.array([value], of)
    except (ValueError, TypeError, OverflowError, pa.ArrowNotImplementedError) as error:
        raise DescriptionError(
            f"Node '{node.required_name}': {a_value(value)} is no value of its key column '{column}'.",
            detail=str(error),
            hint=f"The column's type is {of}{', as Base64' if pa.types.is_binary(of) else ''}.",
        ) from error


def _read(text: str, of: pa.DataType) -> pa.Array:
    if pa.types.is_binary(of):
        return pa.array([binascii.a2b_base64(text, strict_mode=True)], of)
    if pa.types.is_timestamp(of):
        return pa.array([dt.datetime.fromisoformat(text)], of)
    return pa.array([text]).cast(of)


def moment(at: Moment | None) -> dt.datetime | None:
    """Raises: DescriptionError for a text that is no time."""
    read: object = at
    with suppress(ValueError):
        read = dt.datetime.fromisoformat(at) if isinstance(at, str) else at
    if read is None or isinstance(read, dt.datetime):
        return read if read is None or read.tzinfo is not None else read.replace(tzinfo=dt.UTC)
    raise DescriptionError(f"{a_value(at)} is no time.", hint="Write for example 2026-11-28T10:00:00Z.")

"""Decide about plain records one by one: key, value, event time, or the reason of a dead letter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description import to_ddl
from headrace.description.durations import format_duration
from headrace.log.decode import DOES_NOT_FIT, LAST_TIMESTAMP_MS
from headrace.log.plain.decode import TYPES, OddError, read_objects, read_texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headrace.description import Column


@dataclass(frozen=True)
class Records:
    """The columns of some records that are functions of each row.

    keys, values  structs, null where there are none and in dead letters; keys None: the topic has none
    event_ms      of each record
    reasons       of dead letters, by row
    """

    keys: pa.StructArray | None
    values: pa.StructArray
    event_ms: np.ndarray
    reasons: Mapping[int, str]

    @property
    def dead(self) -> np.ndarray:
        """Which are dead letters."""
        dead = np.zeros(len(self.event_ms), bool)
        dead[list(self.reasons)] = True
        return dead


class Reader:
    """Reads records of one topic. Law: `headrace.log.decode`, whose reasons it gives, in their order."""

    def __init__(
        self,
        key: tuple[Column, ...],
        value: tuple[Column, ...],
        *,
        scalar_key: bool,
        timestamp: str | None,
        latest_ms: int,
        max_future_ms: int,
    ) -> None:
        """In: as a topic describes them; latest_ms  the highest event time that is plausible."""
        self._key, self._value, self._scalar_key = key, value, scalar_key
        self._timestamp, self._latest_ms, self._max_future_ms = timestamp, latest_ms, max_future_ms

    def read(self, raw_key: pa.Array, raw_value: pa.Array, kafka_ms: pa.Array) -> Records:
        """Raises: OddError when Spark has to decide."""
        reasons: dict[int, str] = {}
        keys = self._keys(raw_key, reasons)
        for name in (column.name for column in self._key if not column.nullable):
            assert keys is not None
            _add(reasons, _rows(_field(keys, name).is_null()), f"missing key field: {name} is NOT NULL")
        found = read_objects(raw_value, _fields(self._value))
        if found.malformed and self._timestamp is not None:
            raise OddError("a malformed value that may have an event time")
        _add_malformed(reasons, "value", found.malformed, self._value)
        there = raw_value.is_valid()
        for name in (column.name for column in self._value if not column.nullable):
            missing = pc.and_(there, _field(found.structs, name).is_null())
            _add(reasons, _rows(missing), f"missing value field: {name} is NOT NULL")
        named = {column.name.lower(): column.name for column in self._value}
        for name, shared in ((c.name, named.get(c.name.lower())) for c in self._key):
            if shared is not None:
                assert keys is not None
                differs = _differ(_field(keys, name), _field(found.structs, shared))
                _add(reasons, _rows(differs), f"disagreement: {name} differs between key and value")
        event_ms = self._event_ms(kafka_ms, found.structs, there, reasons)
        gone = np.array(sorted(reasons), np.int64)
        return Records(
            None if keys is None else _without(keys, gone), _without(found.structs, gone), event_ms, reasons
        )

    def _keys(self, raw: pa.Array, reasons: dict[int, str]) -> pa.StructArray | None:
        fields = _fields(self._key)
        if not fields:
            return None
        if not self._scalar_key:
            found = read_objects(raw, fields)
            _add_malformed(reasons, "key", found.malformed, self._key)
            return found.structs
        texts, malformed = read_texts(raw)
        _add_malformed(reasons, "key", malformed, self._key)
        return pa.StructArray.from_arrays([texts], fields=fields, mask=raw.is_null())

    def _event_ms(
        self, kafka_ms: pa.Array, values: pa.StructArray, there: pa.Array, reasons: dict[int, str]
    ) -> np.ndarray:
        event_ms = kafka_ms
        if self._timestamp is not None:
            event_ms = pc.if_else(there, _field(values, self._timestamp), kafka_ms)
        if event_ms.null_count:
            raise OddError("no event time")
        numbers: np.ndarray = event_ms.to_numpy()
        _add(reasons, np.flatnonzero(numbers < 0).tolist(), "timestamp: before 1970")
        words = f"lies more than {format_duration(self._max_future_ms)} ahead of its ingestion"
        for row in np.flatnonzero(numbers > self._latest_ms).tolist():
            reasons.setdefault(row, f"timestamp: {_shown(int(numbers[row]))} {words}")
        return numbers


def _fields(columns: Iterable[Column]) -> list[pa.Field]:
    return [pa.field(column.name, TYPES[column.type]) for column in columns]


def _field(structs: pa.StructArray, name: str) -> pa.Array:
    """A field of structs, null where the struct is."""
    return structs.flatten()[structs.type.get_field_index(name)]


def _differ(left: pa.Array, right: pa.Array) -> pa.Array:
    """To Spark what is not a number equals itself."""
    differ = pc.not_equal(left, right)
    return (
        pc.and_not(differ, pc.and_(pc.is_nan(left), pc.is_nan(right)))
        if pa.types.is_floating(left.type)
        else differ
    )


def _rows(mask: pa.Array) -> list[int]:
    found: list[int] = np.flatnonzero(mask.fill_null(False)).tolist()
    return found


def _add(reasons: dict[int, str], rows: Iterable[int], reason: str) -> None:
    """The first reason of a record counts."""
    for row in rows:
        reasons.setdefault(row, reason)


def _add_malformed(
    reasons: dict[int, str], what: str, malformed: Mapping[int, str], columns: Sequence[Column]
) -> None:
    for row, why in malformed.items():
        reasons.setdefault(row, f"malformed {what}: {why}" + (to_ddl(columns) if why == DOES_NOT_FIT else ""))


def _without(structs: pa.StructArray, rows: np.ndarray) -> pa.StructArray:
    """The structs, null in some rows."""
    if not len(rows):
        return structs
    gone = structs.is_null().to_numpy(zero_copy_only=False).copy()
    gone[rows] = True
    return pa.StructArray.from_arrays(structs.flatten(), fields=list(structs.type), mask=pa.array(gone))


def _shown(ms: int) -> str:
    """A moment as Spark writes it."""
    text = str(np.datetime64(min(ms, LAST_TIMESTAMP_MS), "ms")).replace("T", " ")
    return text.rstrip("0").rstrip(".") if "." in text else text

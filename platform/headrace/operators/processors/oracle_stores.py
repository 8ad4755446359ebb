"""The stores of processors as plain dicts of the current group; entries of windows and sessions have times in their keys.

Law: see `description.Store`.
"""

from __future__ import annotations

import copy
import datetime as dt
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

from headrace.description.epoch_time import milliseconds
from headrace.description.exact_numbers import EXACT
from headrace.description.processor import KeyValueStore
from headrace.description.stores import KEY_VALUE
from headrace.description.time_stores import SessionStore, WindowStore
from headrace.oracle.values import UNCHANGING

if TYPE_CHECKING:
    from headrace.description import Column
    from headrace.description.stores import Store

NOT_BEGUN, FOR_EVER = float("-inf"), float("inf")


@dataclass
class Alarm:
    """A timer; `due` None: it was taken back."""

    method: str
    clock: str
    interval_ms: int
    once: bool
    due: float | None = None


@dataclass
class Group:
    """The memory of one group.

    ends     of entries with a time to live, by store and key; one that is missing has no end
    """

    key: Mapping[str, Any]
    stores: dict[str, dict[Any, Any]] = field(default_factory=dict)
    alarms: dict[str, Alarm] = field(default_factory=dict)
    ends: dict[tuple[str, Any], float] = field(default_factory=dict)

    def holds(self, now: float) -> bool:
        """Whether an entry is there at a time of the stream clock, or a timer is set."""
        entries = ((store, key) for store, kept in self.stores.items() for key in kept)
        is_there = any(self.ends.get(each, FOR_EVER) > now for each in entries)
        return is_there or any(alarm.due is not None for alarm in self.alarms.values())


class Here(Protocol):
    """Where user code stands: in a group, at a time of the stream clock."""

    group: Group | None
    stream_ms: float


class _Kept:
    """The entries of a store, by keys that are tuples."""

    def __init__(self, here: Here, store: Store) -> None:
        self.here, self.store = here, store

    @property
    def group(self) -> Group:
        assert self.here.group is not None
        return self.here.group

    @property
    def entries(self) -> dict[Any, Any]:
        return self.group.stores.setdefault(self.store.name, {})

    def is_there(self, key: Any) -> bool:
        """Whether an entry ends beyond the clock of the call."""
        end = self.group.ends.get((self.store.name, key), FOR_EVER)
        return key in self.entries and end > self.here.stream_ms

    def read(self, key: Any) -> Any:
        return copy.deepcopy(self.entries[key]) if self.is_there(key) else None

    def remove(self, key: Any) -> None:
        if self.is_there(key):
            del self.entries[key]

    def write(self, key: Any, value: Any) -> None:
        if value is None:
            self.remove(key)
            return
        end = self._end(key)
        if end <= self.here.stream_ms:
            return
        if key in self.entries:  # its life is not made shorter
            end = max(end, self.group.ends.get((self.store.name, key), FOR_EVER))
        columns = self.store.value
        one = len(columns) == 1
        self.entries[key] = (
            as_column(columns[0], value)
            if one
            else {each.name: as_column(each, value[each.name]) for each in columns}
        )
        self.group.ends[self.store.name, key] = end

    def in_order(self) -> list[tuple[Any, Any]]:
        there = [key for key in sorted(self.entries) if self.is_there(key)]
        return [(key, copy.deepcopy(self.entries[key])) for key in there]

    def _end(self, key: Any) -> float:
        """When an entry ends that is put now."""
        if self.store.lives_ms is None:
            return FOR_EVER
        if self.store.kind != KEY_VALUE:
            last: dt.datetime = key[-1]
            return milliseconds(last) + self.store.lives_ms
        return FOR_EVER if self.here.stream_ms == NOT_BEGUN else self.here.stream_ms + self.store.lives_ms


class _Entries(_Kept, KeyValueStore):
    """A key-value store."""

    def get(self, *key: Any) -> Any:
        return self.read(_only(key))

    def put(self, *key_and_value: Any) -> None:
        *key, value = key_and_value
        self.write(_only(tuple(key)), value)

    def delete(self, *key: Any) -> None:
        self.remove(_only(key))

    def all(self) -> Iterator[tuple[Any, Any]]:
        return iter(self.in_order())

    def range(self, first: Any, last: Any) -> Iterator[tuple[Any, Any]]:
        return iter([(key, value) for key, value in self.all() if first <= key <= last])


class _Windows(_Kept, WindowStore):
    """A window store: keys are a key and a time."""

    def get(self, *key: Any, at: dt.datetime) -> Any:
        return self.read((_only(key), at))

    def put(self, *key_and_value: Any, at: dt.datetime) -> None:
        *key, value = key_and_value
        self.write((_only(tuple(key)), at), value)

    def delete(self, *key: Any, at: dt.datetime) -> None:
        self.remove((_only(key), at))

    def fetch(self, *key: Any, first: dt.datetime, last: dt.datetime) -> Iterator[tuple[dt.datetime, Any]]:
        return iter(
            [(at, value) for own, at, value in self.all() if own == _only(key) and first <= at <= last]
        )

    def all(self) -> Iterator[tuple[Any, dt.datetime, Any]]:
        return iter([(*key, value) for key, value in self.in_order()])


class _Sessions(_Kept, SessionStore):
    """A session store: keys are a key and two times."""

    def get(self, *key: Any, start: dt.datetime, end: dt.datetime) -> Any:
        return self.read((_only(key), start, end))

    def put(self, *key_and_value: Any, start: dt.datetime, end: dt.datetime) -> None:
        *key, value = key_and_value
        self.write((_only(tuple(key)), start, end), value)

    def delete(self, *key: Any, start: dt.datetime, end: dt.datetime) -> None:
        self.remove((_only(key), start, end))

    def find(
        self, *key: Any, first: dt.datetime, last: dt.datetime
    ) -> Iterator[tuple[dt.datetime, dt.datetime, Any]]:
        mine = ((start, end, value) for own, start, end, value in self.all() if own == _only(key))
        return iter([each for each in mine if each[0] <= last and first <= each[1]])

    def all(self) -> Iterator[tuple[Any, dt.datetime, dt.datetime, Any]]:
        return iter([(*key, value) for key, value in self.in_order()])


def key_value_store(here: Here, store: Store) -> KeyValueStore:
    """A store of the current group."""
    return _Entries(here, store)


def window_store(here: Here, store: Store) -> WindowStore:
    """A store of the current group."""
    return _Windows(here, store)


def session_store(here: Here, store: Store) -> SessionStore:
    """A store of the current group."""
    return _Sessions(here, store)


def as_column(column: Column, value: Any) -> Any:
    """A value as a column of a type gives it back."""
    if value is None:
        return None
    if column.type == "DOUBLE":
        return float(value)
    if column.type == "FLOAT":
        return struct.unpack("f", struct.pack("f", value))[0]
    if column.type.startswith("DECIMAL("):
        scale = int(column.type.removesuffix(")").split(",")[1])
        return EXACT.quantize(Decimal(value), Decimal((0, (1,), -scale)))
    return value if type(value) in UNCHANGING else copy.deepcopy(value)


def _only(key: tuple[Any, ...]) -> Any:
    return key[0] if len(key) == 1 else key


def first_beyond(now_ms: int, due: float, interval_ms: int) -> int:
    """The first of a timer's times that lies after now."""
    following = int(due)
    while following <= now_ms:
        following += interval_ms
    return following

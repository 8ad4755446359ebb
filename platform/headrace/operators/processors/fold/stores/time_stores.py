"""Stores of windows and of sessions: their keys end with times."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from headrace.description import ProcessorError, SessionStore, WindowStore
from headrace.fold.values.columns import MOMENT
from headrace.operators.processors.fold.stores.stores import Key, StoreOfGroup
from headrace.operators.processors.fold.stores.values import converter


class _OfTime(StoreOfGroup):
    """Times in keys, which both share."""

    def _time(self, what: str, time: dt.datetime) -> dt.datetime:
        if not isinstance(time, dt.datetime):
            raise ProcessorError(f"Store '{self._name}': {what} {time!r} is no time.")
        made: dt.datetime = converter(pa.field(what, MOMENT), f"Store '{self._name}': {what}")(time)
        return made


class GroupWindowStore(_OfTime, WindowStore):
    """A window store as user code sees it: that of the current group."""

    def get(self, *key: Any, at: dt.datetime) -> Any:
        """See the base class."""
        return self._get(self._at(self._key(key), at))

    def put(self, *key_and_value: Any, at: dt.datetime) -> None:
        """See the base class."""
        key, value = self._parts(key_and_value)
        self._set(self._at(key, at), value)

    def delete(self, *key: Any, at: dt.datetime) -> None:
        """See the base class."""
        self._remove(self._at(self._key(key), at))

    def fetch(self, *key: Any, first: dt.datetime, last: dt.datetime) -> Iterator[tuple[dt.datetime, Any]]:
        """See the base class."""
        own = self._key(key)
        return iter(
            [(of[-1], value) for of, value in self._sorted(self._at(own, first), self._at(own, last))]
        )

    def all(self) -> Iterator[tuple[Any, dt.datetime, Any]]:
        """See the base class."""
        return iter([(self._shown_key(key), key[-1], value) for key, value in self._sorted()])

    def _at(self, key: Key, at: dt.datetime) -> Key:
        return (*key, self._time("at", at))


class GroupSessionStore(_OfTime, SessionStore):
    """A session store as user code sees it: that of the current group."""

    def get(self, *key: Any, start: dt.datetime, end: dt.datetime) -> Any:
        """See the base class."""
        return self._get(self._between(self._key(key), start, end))

    def put(self, *key_and_value: Any, start: dt.datetime, end: dt.datetime) -> None:
        """See the base class."""
        key, value = self._parts(key_and_value)
        self._set(self._between(key, start, end), value)

    def delete(self, *key: Any, start: dt.datetime, end: dt.datetime) -> None:
        """See the base class."""
        self._remove(self._between(self._key(key), start, end))

    def find(
        self, *key: Any, first: dt.datetime, last: dt.datetime
    ) -> Iterator[tuple[dt.datetime, dt.datetime, Any]]:
        """See the base class."""
        own, first, last = self._key(key), self._time("first", first), self._time("last", last)
        found = ((of[-2], of[-1], value) for of, value in self._sorted() if of[:-2] == own)
        return iter([each for each in found if each[1] >= first and each[0] <= last])

    def all(self) -> Iterator[tuple[Any, dt.datetime, dt.datetime, Any]]:
        """See the base class."""
        return iter([(self._shown_key(key), *key[-2:], value) for key, value in self._sorted()])

    def _between(self, key: Key, start: dt.datetime, end: dt.datetime) -> Key:
        start, end = self._time("start", start), self._time("end", end)
        if end < start:
            raise ProcessorError(
                f"Store '{self._name}': a session from {start} ends at {end}, before it begins."
            )
        return (*key, start, end)

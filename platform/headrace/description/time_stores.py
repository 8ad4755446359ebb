"""Stores of windows and of sessions, as user code sees them."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any


class WindowStore(ABC):
    """Holds the entries of the current group, by key and by the time at which a window begins.

    Keys and values are those of a `KeyValueStore`; a store without columns of a key is given none. An entry is there until
    the stream clock has reached its time and the retention (see `hr.window_store`).
    """

    @abstractmethod
    def get(self, *key: Any, at: dt.datetime) -> Any:
        """Get the value of a key and a time; None if there is none."""

    @abstractmethod
    def put(self, *key_and_value: Any, at: dt.datetime) -> None:
        """Set a value; None, where a value has one column, deletes it. Nothing happens if its time is over."""

    @abstractmethod
    def delete(self, *key: Any, at: dt.datetime) -> None:
        """Remove an entry; nothing happens if it is not there."""

    @abstractmethod
    def fetch(self, *key: Any, first: dt.datetime, last: dt.datetime) -> Iterator[tuple[dt.datetime, Any]]:
        """Give the times and values of a key from one time through another, both included, in the order of time."""

    @abstractmethod
    def all(self) -> Iterator[tuple[Any, dt.datetime, Any]]:
        """Give all keys, times and values, in the order of keys and then of time."""


class SessionStore(ABC):
    """Holds the entries of the current group, by key and by the first and the last time of a session.

    Keys and values are those of a `KeyValueStore`; a store without columns of a key is given none. An entry is there until
    the stream clock has reached its last time and the retention (see `hr.session_store`).
    """

    @abstractmethod
    def get(self, *key: Any, start: dt.datetime, end: dt.datetime) -> Any:
        """Get the value of a key and a session; None if there is none."""

    @abstractmethod
    def put(self, *key_and_value: Any, start: dt.datetime, end: dt.datetime) -> None:
        """Set a value; None, where a value has one column, deletes it. Nothing happens if its time is over."""

    @abstractmethod
    def delete(self, *key: Any, start: dt.datetime, end: dt.datetime) -> None:
        """Remove a session; nothing happens if it is not there."""

    @abstractmethod
    def find(
        self, *key: Any, first: dt.datetime, last: dt.datetime
    ) -> Iterator[tuple[dt.datetime, dt.datetime, Any]]:
        """Find the sessions of a key that end at `first` or later and begin by `last`: first and last times, and values.

        They come in the order of their first times, then of their last ones.
        """

    @abstractmethod
    def all(self) -> Iterator[tuple[Any, dt.datetime, dt.datetime, Any]]:
        """Give all keys, first and last times, and values, in the order of keys and then of time."""

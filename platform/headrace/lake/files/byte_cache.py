"""A cache that is bounded by the bytes of what it holds. It belongs to one process, and any thread may use it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ByteCache(Generic[K, V]):
    """Remembers the values that were used last.

    Law: the values that it holds never have more than `bytes_max` bytes together. A value with more, or with more than
    `value_bytes_max`, is not held at all.
    """

    def __init__(self, bytes_max: int, value_bytes_max: int | None = None) -> None:
        """Nothing is held yet."""
        self.bytes_max = bytes_max
        self._value_bytes_max = bytes_max if value_bytes_max is None else value_bytes_max
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def bytes(self) -> int:
        """The bytes of all values that it holds."""
        with self._lock:
            return self._bytes

    def get(self, key: K) -> V | None:
        """The value of a key, which counts as used now; None: it is not held."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V, size: int) -> None:
        """Hold a value of so many bytes, in place of one that the key had; those used longest ago make room."""
        with self._lock:
            self._bytes -= self._values.pop(key, (None, 0))[1]
            if size > min(self.bytes_max, self._value_bytes_max):
                return
            self._values[key] = value, size
            self._bytes += size
            while self._bytes > self.bytes_max:
                self._bytes -= self._values.popitem(last=False)[1][1]

    def clear(self) -> None:
        """Hold nothing."""
        with self._lock:
            self._values.clear()
            self._bytes = 0

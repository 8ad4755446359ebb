"""A measure that is costly, taken now and then."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

V = TypeVar("V")


class RateLimited(Generic[V]):
    """A costly measure: taken at most once in an interval; in between the last value is repeated."""

    def __init__(self, measure: Callable[[], V], every_seconds: float) -> None:
        """Nothing is measured before the first call."""
        self._measure, self._every_seconds = measure, every_seconds
        self._due_at = 0.0
        self._value: V | None = None

    def __call__(self) -> V | None:
        """The measure; None when it was never taken because it failed."""
        if time.monotonic() >= self._due_at:
            self._due_at = time.monotonic() + self._every_seconds
            self._value = self._measure()
        return self._value

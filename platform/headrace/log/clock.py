"""Wall clocks. Only the sequencer reads one, and it writes what it read into the log."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall-clock time in milliseconds since 1970 (UTC)."""

    def now_ms(self) -> int:
        """Now."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Now."""
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that moves only when told; for tests and the test driver."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """The time last set."""
        return self._now_ms

    def set(self, now_ms: int) -> None:
        """Move to a time, never back."""
        self._now_ms = max(self._now_ms, now_ms)

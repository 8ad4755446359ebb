"""Wall clocks. Only the sequencer reads one, and it writes what it read into the log."""

from __future__ import annotations

import time
from typing import Protocol

from headrace.lake.clocks import BOOT_CLOCK


class Clock(Protocol):
    """Wall-clock time in milliseconds since 1970 (UTC), which people may set; and a clock that nobody sets."""

    def now_ms(self) -> int:
        """Now."""
        ...

    def steady_ms(self) -> int:
        """Milliseconds of a clock that never goes back; only differences count."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Now."""
        return time.time_ns() // 1_000_000

    def steady_ms(self) -> int:
        """The time since the machine started, sleep included where the system counts it."""
        return time.clock_gettime_ns(BOOT_CLOCK) // 1_000_000


class ManualClock:
    """A clock that moves only when told; for tests and the test driver."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """The time last set."""
        return self._now_ms

    def steady_ms(self) -> int:
        """No time passes but what is set."""
        return 0

    def set(self, now_ms: int) -> None:
        """Move to a time, never back."""
        self._now_ms = max(self._now_ms, now_ms)

"""Whether this machine's clock agrees with that of the lake's store.

Law: no writer takes a lease while its clock is more than `APART_MS` from the store's. So the clocks of any two writers are
at most twice as far apart.

Rows stay right with any clock, because commits are fenced. But leases expire by these clocks, and logs record them: a
writer with a wrong clock takes over from one that lives, or lets waits end at the wrong time.
"""

from __future__ import annotations

import threading
import time
from functools import lru_cache

from headrace.errors import TransientError
from headrace.lake import small_files
from headrace.lake.storage import is_local

APART_MS = 5_000
MEASURED_FOR_SECONDS = 60.0
NAME = "checks/clock.json"
BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
STEP_MS = 1_000  # object stores tell whole seconds


class ClocksApartError(TransientError):
    """The clocks of two machines do not agree."""


def boot_seconds() -> float:
    """Seconds that pass while the machine sleeps, too, where the system has such a clock."""
    return time.clock_gettime(BOOT_CLOCK)


def ahead_ms(uri: str) -> int:
    """How far this machine's clock is ahead of the store's; below 0: behind; 0: as far as can be told they agree.

    In:  uri  of a small file; it is written, and stays
    """
    before_ms = machine_ms()
    small_files.write_json(uri, {})
    written_ms = small_files.modified_ms(uri)
    after_ms = machine_ms()
    if before_ms > written_ms + STEP_MS:
        return before_ms - written_ms - STEP_MS
    return min(0, after_ms - written_ms)


def require_clocks(root: str) -> None:
    """Refuse to go on with a clock that is wrong. Measured at most once a minute; a local disk has this machine's clock.

    Raises: ClocksApartError
    """
    if not is_local(root):
        with _MEASURING:
            apart_ms = _measured(root, minute())
        require_agreement(root, apart_ms)


def require_agreement(root: str, apart_ms: int) -> None:
    """Judge what was measured.

    Raises: ClocksApartError
    """
    if abs(apart_ms) > APART_MS:
        raise ClocksApartError(
            f"Lake '{root}': this machine's clock is {_distance(apart_ms)} that of the store.",
            detail=f"Leases expire by these clocks and logs record them; {APART_MS // 1000} s is the most.",
            hint="Set the clock of this machine, or of the store's, by NTP. Then try again.",
        )


def holder_is_ahead(writer: str, host: str, apart_ms: int) -> ClocksApartError:
    """The error for a lease that was renewed in the future."""
    return ClocksApartError(
        f"{writer}: the clock of '{host}', which holds the lease, is {apart_ms / 1000:.0f} s ahead of this machine's.",
        detail="So nobody here can tell when that lease is free.",
        hint="Set the clocks of both machines by NTP. Then try again.",
    )


def machine_ms() -> int:
    """This machine's clock, in ms since 1970."""
    return time.time_ns() // 1_000_000


def minute() -> int:
    """The number of the minute for which a measurement holds."""
    return int(time.monotonic() / MEASURED_FOR_SECONDS)


_MEASURING = threading.Lock()


@lru_cache(maxsize=16)
def _measured(root: str, _: int) -> int:
    return ahead_ms(f"{root}/{NAME}")


def _distance(apart_ms: int) -> str:
    return f"{abs(apart_ms) / 1000:.0f} s {'ahead of' if apart_ms > 0 else 'behind'}"

"""The end of a process and of all that it started, which would outlive it."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from headrace.local.servers import lifeline
from headrace.writing.leases.processes import born, runs

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping

PATIENCE_SECONDS = 30.0  # for those that it started


def end_with_descendants(process: subprocess.Popen[bytes], *, patience_s: float) -> None:
    """End a process by SIGTERM, and return when those that it started have ended, too; by SIGKILL in the end."""
    below = {pid: born(pid) for pid in lifeline.descendants(process.pid)}
    lifeline.stop(process, patience_s=patience_s)
    for pid in _left(below):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _left(below)


def _left(below: Mapping[int, str | None]) -> list[int]:
    """Those that still run once all have had time to end."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (left := [pid for pid, began in below.items() if runs(pid, began)]) and time.monotonic() < deadline:
        time.sleep(0.2)
    return left

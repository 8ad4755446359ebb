"""Processes of this machine, told apart from later ones that have the same number."""

from __future__ import annotations

import os


def process_space() -> str | None:
    """Names the kernel and the container whose process ids this process sees; None where that is not known."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as boot_id:
            return f"{boot_id.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return None


def born(pid: int) -> str | None:
    """When a process began, in its kernel's ticks; None when it is dead, or there is no telling."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]  # Z: dead, though its parent has not taken note of it


def runs(pid: int, began: str | None) -> bool:
    """Whether the process that began then still runs; only for a process of this machine's process space."""
    return began is not None and born(pid) == began


def is_gone(pid: int) -> bool:
    """Whether there surely is no process of this number, on machines that do not say when one began."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False

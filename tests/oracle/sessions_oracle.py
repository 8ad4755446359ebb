"""Session windows once more, in plain Python, record by record: the sessions that a log has to lead to.

Nothing here is shared with the engine. Times are in ms; a session is [start, end], first and last event.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.oracle.log_oracle import Arrival, Log
from tests.oracle.windows_oracle import unusable

Group = tuple[str, int]  # key and partition


@dataclass
class Session:
    """Its bounds and what is in it."""

    start: int
    end: int
    arrivals: list[Arrival]


@dataclass
class Sessions:
    """`late`: (partition, offset, event) of each late record. `fates`: (partition, fate) of each arrival."""

    final: list[tuple[Group, Session]] = field(default_factory=list)
    open: list[tuple[Group, Session]] = field(default_factory=list)
    late: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    fates: Counter[tuple[int, str]] = field(default_factory=Counter)


def sessions(log: Log, gap: int, grace: int, keep: Callable[[Any], bool] = lambda value: True) -> Sessions:
    """Each record makes one session of itself and of those of its group within `gap` that are open when it comes.

    It is late when that session closes at or before its own stream time. A session closes at end + gap + grace.
    """
    result, known = Sessions(), defaultdict[Group, list[Session]](list)
    for (arrival, offset, stream), before in zip(log.rows, log.before, strict=True):
        fate = unusable(arrival, keep)
        if fate is None:
            at, mine = arrival.ts, known[str(arrival.key), arrival.partition]
            near = [
                s for s in mine if s.start - gap <= at <= s.end + gap and s.end + gap + grace > (before or 0)
            ]
            start, end = min([at, *(s.start for s in near)]), max([at, *(s.end for s in near)])
            if end + gap + grace <= (stream or 0):
                fate, result.late[arrival.partition, offset, at] = "late", 1
            else:
                together = [arrival, *(a for s in near for a in s.arrivals)]
                mine[:] = [*(s for s in mine if s not in near), Session(start, end, together)]
        if fate:
            result.fates[arrival.partition, fate] += 1
    for group, found in known.items():
        for session in found:
            closed = session.end + gap + grace <= log.stream[group[1]]
            (result.final if closed else result.open).append((group, session))
            result.fates[group[1], "used" if closed else "open"] += len(session.arrivals)
    return result

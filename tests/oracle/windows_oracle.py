"""Windowed aggregates once more, in plain Python, record by record: the windows that a log has to lead to.

Nothing here is shared with the engine. Times are in ms; a window is [start, start + size), starts are multiples of `advance`.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

from tests.oracle.log_oracle import Arrival, Log

Key = tuple[str, int]  # key and window start


@dataclass
class Windows:
    """`late`: (log, partition, offset, start) of each missed window. `fates`: (log, partition, fate) of each arrival."""

    final: dict[Key, dict[str, Any]] = field(default_factory=dict)
    open: dict[Key, dict[str, Any]] = field(default_factory=dict)
    late: Counter[tuple[int, int, int, int]] = field(default_factory=Counter)
    fates: Counter[tuple[int, int, str]] = field(default_factory=Counter)


def windows(
    logs: Sequence[Log], size: int, advance: int, grace: int, keep: Callable[[Any], bool] = lambda value: True
) -> Windows:
    """A record is late for a window when its own stream time has reached end + grace.

    A window is final when every partition's has; with several logs not before each has one.
    """
    result, contents = Windows(), defaultdict(list)
    closed = (
        min(min(log.stream.values(), default=-1) for log in logs) - size - grace
    )  # starts up to here are final
    for n, log in enumerate(logs):
        for arrival, offset, stream in log.rows:
            first = max(0, (arrival.ts - size) // advance + 1) * advance
            starts = range(first, arrival.ts + 1, advance)
            entered = [start for start in starts if start + size + grace > (stream or 0)]
            fate = unusable(arrival, keep)
            if fate is None:
                fate = "late" if not entered else "open" if entered[-1] > closed else "used"
                result.late.update(
                    (n, arrival.partition, offset, start) for start in starts if start not in entered
                )
                for start in entered:
                    contents[str(arrival.key), start].append(arrival)
            result.fates[n, arrival.partition, fate] += 1
    for (key, start), arrivals in contents.items():
        (result.open if start > closed else result.final)[key, start] = aggregates(arrivals)
    return result


def unusable(arrival: Arrival, keep: Callable[[Any], bool]) -> str | None:
    """Why an arrival counts nowhere; None if it counts."""
    if arrival.kind != "record":
        return arrival.kind
    if not keep(arrival.value):
        return "filtered"
    return "dead_letter" if arrival.key is None or not in_range(arrival.value) else None


def in_range(value: Any) -> bool:
    """Whether sums can hold the value: a float of at most 22 digits before the point."""
    return not isinstance(value, float) or (math.isfinite(value) and abs(exact(value)) < Decimal(10) ** 22)


def exact(value: Any) -> Decimal:
    """Floats are rounded half up to 6 decimals; other numbers are exact already."""
    with localcontext(prec=400):
        number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        return number.quantize(Decimal("1e-6"), ROUND_HALF_UP) if isinstance(value, float) else number


def aggregates(arrivals: Sequence[Arrival]) -> dict[str, Any]:
    """Of nulls only the count takes notice; -0.0 is 0.0; `ts` is the highest event time."""
    values = [arrival.value for arrival in arrivals if arrival.value is not None]
    with localcontext(prec=60):
        total = sum((exact(value) for value in values), Decimal(0))
    normal: list[Any] = [value or abs(value) for value in values]
    return {
        "n": len(arrivals),
        "total": total if values else None,
        "lowest": min(normal, default=None),
        "highest": max(normal, default=None),
        "mean": float(total) / len(values) if values else None,
        "ts": max(arrival.ts for arrival in arrivals),
    }

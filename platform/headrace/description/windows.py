"""Where windows lie: tumbling and hopping windows of event time, aligned to 1970-01-01T00:00:00Z.

Law: a window holds its start and not its end; which windows a timestamp is in depends on the timestamp alone.
Source: Kafka Streams, TimeWindows.java.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.description.durations import Duration, duration_ms, format_duration
from headrace.errors import DescriptionError


@dataclass(frozen=True)
class TimeWindows:
    """Windows of `size_ms`, one starting every `advance_ms`."""

    size_ms: int
    advance_ms: int

    def __post_init__(self) -> None:
        size_ms = duration_ms(self.size_ms, "window size")
        advance_ms = duration_ms(self.advance_ms, "window advance")
        if size_ms == 0 or advance_ms == 0:
            which = "size" if size_ms == 0 else "advance"
            raise DescriptionError(f"window {which}: 0 ms is too short.", hint="The shortest is '1 ms'.")
        if advance_ms > size_ms:
            raise DescriptionError(
                f"window advance: {format_duration(advance_ms)} is longer than the window's size, "
                f"{format_duration(size_ms)}, so that records between two windows would be in none.",
                hint="Make advance at most size, or filter those records with .where(…).",
            )
        object.__setattr__(self, "size_ms", size_ms)
        object.__setattr__(self, "advance_ms", advance_ms)


def tumbling(size: Duration) -> TimeWindows:
    """Windows that follow one another without overlap: each record is in exactly one."""
    size_ms = duration_ms(size, "window size")
    return TimeWindows(size_ms, size_ms)


def hopping(size: Duration, advance: Duration) -> TimeWindows:
    """Windows of `size` that start every `advance`, so that they overlap when `advance` is shorter."""
    return TimeWindows(duration_ms(size, "window size"), duration_ms(advance, "window advance"))

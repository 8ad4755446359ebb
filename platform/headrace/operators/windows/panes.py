"""Where windows and panes begin, as arithmetic on milliseconds; the same on numbers and on Spark columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pyspark.sql import functions as F

from headrace.description import TimeWindows

if TYPE_CHECKING:
    import numpy as np
    from pyspark.sql import Column as Expr

    from headrace.description import WindowedAggregate

Ms = TypeVar("Ms", "Expr", "np.ndarray")


def time_windows(node: WindowedAggregate) -> TimeWindows:
    """The node's windows, which are tumbling or hopping."""
    assert isinstance(node.window, TimeWindows)
    return node.window


def pane_start(window: TimeWindows, event_ms: Expr) -> Expr:
    """The pane of an event: panes are cut wherever a window starts or ends."""
    into = event_ms % window.advance_ms
    cut = window.size_ms % window.advance_ms
    return event_ms - into + F.when(into >= cut, cut).otherwise(0)


def last_window_start(window: TimeWindows, event_ms: Ms) -> Ms:
    """The start of the last window that contains an event (or a pane)."""
    start: Ms = event_ms - event_ms % window.advance_ms
    return start


def first_window_start(window: TimeWindows, event_ms: Expr) -> Expr:
    """The start of the first window that contains an event; windows never start before 1970."""
    return _next_start(window, event_ms - window.size_ms)


def first_open_start(window: TimeWindows, grace_ms: int, stream_ms: Expr) -> Expr:
    """The start of the first window that is not yet closed at a stream time."""
    return _next_start(window, stream_ms - (grace_ms + window.size_ms))


def _next_start(window: TimeWindows, after_ms: Expr) -> Expr:
    return F.greatest(F.lit(0), after_ms - F.pmod(after_ms, F.lit(window.advance_ms)) + window.advance_ms)


def starts_closed_between(
    window: TimeWindows, grace_ms: int, after_ms: int | None, through_ms: int
) -> tuple[int, int] | None:
    """The first and last start of the windows that close after one stream time and through another.

    Out: None when no window does
    """
    wait, advance = window.size_ms + grace_ms, window.advance_ms
    first = 0 if after_ms is None else max(0, ((after_ms - wait) // advance + 1) * advance)
    last = (through_ms - wait) // advance * advance
    return (first, last) if first <= last else None

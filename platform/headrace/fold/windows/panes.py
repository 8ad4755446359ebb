"""Where windows and panes begin and end: as arithmetic on milliseconds, or by a calendar."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from headrace.description import CalendarWindows, TimeWindows
from headrace.description.calendars import FAR_MS, starts_of


@dataclass(frozen=True)
class Panes:
    """Windows of `size_ms`, one starting every `advance_ms`, final `grace_ms` after their end.

    Panes are cut wherever a window starts or ends, so each window is a union of whole panes.
    """

    size_ms: int
    advance_ms: int
    grace_ms: int
    lowest_ms = 0  # no window starts before

    @property
    def tumbling(self) -> bool:
        """Whether each pane is a window."""
        return self.advance_ms == self.size_ms

    def end(self, start_ms: np.ndarray) -> np.ndarray:
        """The end of each window, by its start."""
        return np.asarray(start_ms + self.size_ms)

    def end_ms(self, start_ms: int) -> int:
        """The same of one window."""
        return start_ms + self.size_ms

    def closes(self, start_ms: np.ndarray) -> np.ndarray:
        """The stream time at which each window closes, by its start."""
        return np.asarray(self.end(start_ms) + self.grace_ms)

    def count(self, first_ms: np.ndarray, last_ms: np.ndarray) -> np.ndarray:
        """How many windows start from a start through another; 0 if that lies before."""
        return np.asarray(np.maximum((last_ms - first_ms) // self.advance_ms + 1, 0))

    def pane(self, event_ms: np.ndarray) -> np.ndarray:
        """The start of the pane of each event."""
        into, cut = event_ms % self.advance_ms, self.size_ms % self.advance_ms
        return np.asarray(event_ms - np.where(into >= cut, into - cut, into) if cut else event_ms - into)

    def number(self, pane: np.ndarray) -> np.ndarray:
        """Panes as numbers without gaps."""
        cut = self.size_ms % self.advance_ms
        window = pane // self.advance_ms
        return np.asarray(2 * window + (pane % self.advance_ms >= cut) if cut else window)

    def last_start(self, event_ms: np.ndarray) -> np.ndarray:
        """The start of the last window that contains each event, or each pane."""
        return np.asarray(event_ms - event_ms % self.advance_ms)

    def first_start(self, event_ms: np.ndarray) -> np.ndarray:
        """The start of the first window that contains each event; windows never start before 1970."""
        return self._next_start(event_ms - self.size_ms)

    def first_open_start(self, stream_ms: np.ndarray) -> np.ndarray:
        """The start of the first window that is not closed at a stream time."""
        return self._next_start(stream_ms - self.size_ms - self.grace_ms)

    def first_open_ms(self, closed_ms: int | None) -> int:
        """The same of one stream time; None: there is none yet."""
        return 0 if closed_ms is None else int(self.first_open_start(np.array([closed_ms]))[0])

    def closing(self, before_ms: int | None, after_ms: int | None) -> tuple[int, int] | None:
        """The first and the last start of the windows that close after one stream time and through another.

        Out: None when no window does
        """
        if after_ms is None:
            return None
        first, last = self.first_open_ms(before_ms), self.first_open_ms(after_ms) - self.advance_ms
        return (first, last) if first <= last else None

    def _next_start(self, after_ms: np.ndarray) -> np.ndarray:
        return np.asarray(np.maximum(after_ms - after_ms % self.advance_ms + self.advance_ms, 0))


@dataclass(frozen=True)
class CalendarPanes:
    """The days, weeks or months of a zone (see `description.calendars`), final `grace_ms` after the end. Each is a pane."""

    unit: str
    zone: str
    grace_ms: int
    tumbling = True

    @property
    def lowest_ms(self) -> int:
        """No window starts before the one that holds the beginning of 1970."""
        return int(self._starts[0])

    def end(self, start_ms: np.ndarray) -> np.ndarray:
        """The end of each window, by its start."""
        found: np.ndarray = np.append(self._starts, FAR_MS)[self.number(start_ms) + 1]
        return found

    def end_ms(self, start_ms: int) -> int:
        """The same of one window."""
        return int(self.end(np.array([start_ms]))[0])

    def closes(self, start_ms: np.ndarray) -> np.ndarray:
        """The stream time at which each window closes, by its start."""
        return np.asarray(self.end(start_ms) + self.grace_ms)

    def count(self, first_ms: np.ndarray, last_ms: np.ndarray) -> np.ndarray:
        """How many windows start from a start through another; 0 if that lies before."""
        return np.asarray(np.maximum(self.number(last_ms) - self.number(first_ms) + 1, 0))

    def pane(self, event_ms: np.ndarray) -> np.ndarray:
        """The start of the pane of each event."""
        return self.last_start(event_ms)

    def number(self, pane: np.ndarray) -> np.ndarray:
        """Panes as numbers without gaps; -1: before all."""
        return np.asarray(np.searchsorted(self._starts, pane, "right") - 1)

    def last_start(self, event_ms: np.ndarray) -> np.ndarray:
        """The start of the window that contains each event, or each pane; below `lowest_ms` of an event before all."""
        number = self.number(event_ms)
        return np.where(number < 0, self.lowest_ms - 1, self._starts[np.maximum(number, 0)])

    def first_start(self, event_ms: np.ndarray) -> np.ndarray:
        """The same, but `lowest_ms` of an event before all."""
        return np.asarray(np.maximum(self.last_start(event_ms), self.lowest_ms))

    def first_open_start(self, stream_ms: np.ndarray) -> np.ndarray:
        """The start of the first window that is not closed at a stream time."""
        return self.first_start(stream_ms - self.grace_ms)

    def first_open_ms(self, closed_ms: int | None) -> int:
        """The same of one stream time; None: there is none yet."""
        return self.lowest_ms if closed_ms is None else int(self.first_open_start(np.array([closed_ms]))[0])

    def closing(self, before_ms: int | None, after_ms: int | None) -> tuple[int, int] | None:
        """The first and last start of windows that close after one stream time and through another; None: none does."""
        if after_ms is None:
            return None
        first, last = self.first_open_ms(before_ms), self.first_open_ms(after_ms) - 1
        return (first, int(self.last_start(np.array([last]))[0])) if first <= last else None

    @property
    def _starts(self) -> np.ndarray:
        return _starts(self.unit, self.zone)


AnyPanes = Panes | CalendarPanes


def panes_of(window: TimeWindows | CalendarWindows, grace_ms: int) -> AnyPanes:
    """The panes of windows with a grace."""
    if window.unit:
        assert isinstance(window, CalendarWindows)
        return CalendarPanes(window.unit, window.zone, grace_ms)
    assert isinstance(window, TimeWindows)
    return Panes(window.size_ms, window.advance_ms, grace_ms)


@cache
def _starts(unit: str, zone: str) -> np.ndarray:
    return np.array(starts_of(unit, zone), np.int64)

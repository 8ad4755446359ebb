"""Where windows and panes begin, as arithmetic on milliseconds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Panes:
    """Windows of `size_ms`, one starting every `advance_ms`, final `grace_ms` after their end.

    Panes are cut wherever a window starts or ends, so each window is a union of whole panes.
    """

    size_ms: int
    advance_ms: int
    grace_ms: int

    @property
    def tumbling(self) -> bool:
        """Whether each pane is a window."""
        return self.advance_ms == self.size_ms

    @property
    def wait_ms(self) -> int:
        """How long after its start, in stream time, a window closes."""
        return self.size_ms + self.grace_ms

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
        return self._next_start(stream_ms - self.wait_ms)

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

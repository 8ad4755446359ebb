"""Tumbling, hopping, calendar and sliding windows; sessions have more columns (see `operators.sessions`)."""

from __future__ import annotations

from headrace.description import CalendarWindows, SessionWindows, SlidingWindows, TimeWindows
from headrace.fold import windows
from headrace.fold.contract import KEY
from headrace.fold.kernel import Kernel
from headrace.fold.windows.panes import panes_of
from headrace.operators.contract import Bindings, OfWindows
from headrace.operators.relation_tree import relations_of
from headrace.operators.windows import sliding


class Windows(OfWindows):
    """One row per group and window.

    Written: `group_by` `window` of `hr.tumbling`, `hr.hopping`, `hr.calendar` or `hr.sliding`
    Law:
      all (L4, L5)  a record is late for a window if window end + `grace` <= stream time, both of its own row. With
          `suppress(hr.until_window_closes())` each window is written once and never revised
      `hr.sliding` (L18)  a record makes the window that ends with it and, if one follows, the window that begins just
          after it
      `clock="wall"` (L35)  windows go by `ingested_at`, which the log has recorded: no record is late, and a backfill
          repeats them
    Source: Kafka Streams, `TimeWindows` and sliding windows (KIP-450), final results (KIP-328); paired panes
    (Krishnamurthy and others, SIGMOD 2006).
    Guide: windows
    """

    order = ("window_end", KEY)  # by end, then by group

    cause = (KEY,)  # the group: of a clock it has one window

    def open_from_ms(self, closed_ms: int | None, read_ms: int | None) -> int | None:
        """From the start of the first window on that is not closed."""
        if closed_ms is None:
            return None
        window = self.node.window
        assert not isinstance(window, SessionWindows)
        if isinstance(window, CalendarWindows):
            return panes_of(window, self.node.grace_ms).first_open_ms(closed_ms)
        advance_ms = window.advance_ms if isinstance(window, TimeWindows) else 1
        return ((closed_ms - window.wait_ms - self.node.grace_ms) // advance_ms + 1) * advance_ms

    @property
    def windows_by_time(self) -> bool:
        """Those of fixed lengths."""
        return isinstance(self.node.window, TimeWindows)

    def kernel(self, of: Bindings) -> Kernel:
        """See `fold.windows` and `sliding`; if each change is wanted, windows are a relation."""
        if isinstance(self.node.window, SlidingWindows):
            return sliding.SlidingWindows.of(self.node, of.input)
        if of.changes and self.node.suppression is None:
            return relations_of(self.node, of.inputs)
        return windows.Windows.of(self.node, of.input)

    def changes(self, of: Bindings) -> Kernel:
        """Sliding windows as they grow."""
        return sliding.SlidingChanges.of(self.node, of.input)

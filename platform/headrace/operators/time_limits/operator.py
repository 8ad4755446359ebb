"""Time limits: a key's value leaves once it has waited so long."""

from __future__ import annotations

from headrace.description import Suppressed
from headrace.description.clocks import WALL
from headrace.fold.contract import KEY, OFFSET, PARTITION
from headrace.fold.time_limits.names import EMITTED_AT, OPENED
from headrace.operators.contract import Appended, RowClock


class TimeLimits(Appended[Suppressed]):
    """One row for each wait of a key that is over."""

    @property
    def order(self) -> tuple[str, ...]:
        """By the record that ends the wait, then the one that began it: a wall-clock limit of 0 ends several at once."""
        return (PARTITION, OFFSET, "__sub", "__opened_ms", KEY, "window_start", "__opened_offset")

    @property
    def cause(self) -> tuple[str, ...]:
        """The key and its wait."""
        return (KEY, "window_start", "__opened_ms")

    @property
    def clock(self) -> RowClock | None:
        """The stream time at which the wait is over; by the wall clock there is none."""
        return None if self.node.clock == WALL else RowClock(EMITTED_AT, opened=OPENED)

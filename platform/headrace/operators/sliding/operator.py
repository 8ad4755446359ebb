"""Sliding windows."""

from __future__ import annotations

from headrace.description import WindowedAggregate
from headrace.description.clocks import WALL
from headrace.fold.contract import KEY
from headrace.operators.contract import OfNode, RowClock


class Sliding(OfNode[WindowedAggregate]):
    """One row per group and window."""

    @property
    def order(self) -> tuple[str, ...]:
        """By end, then by group."""
        return ("window_end", KEY)

    @property
    def cause(self) -> tuple[str, ...]:
        """The group: of a clock it has one window."""
        return (KEY,)

    @property
    def clock(self) -> RowClock | None:
        """The time at which the window closes; by the wall clock there is none."""
        return None if self.node.clock == WALL else RowClock("window_end", self.node.final_ms)

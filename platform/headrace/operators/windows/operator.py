"""Tumbling and hopping windows."""

from __future__ import annotations

from headrace.description import WindowedAggregate
from headrace.fold.contract import KEY
from headrace.operators.contract import OfNode


class Windows(OfNode[WindowedAggregate]):
    """One row per group and window."""

    @property
    def order(self) -> tuple[str, ...]:
        """By end, then by group."""
        return ("window_end", KEY)

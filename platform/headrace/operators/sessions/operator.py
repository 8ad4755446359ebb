"""Sessions."""

from __future__ import annotations

from headrace.description import WindowedAggregate
from headrace.fold.contract import KEY, PARTITION, TOPIC
from headrace.operators.contract import OfNode


class Sessions(OfNode[WindowedAggregate]):
    """One row per group, partition and session."""

    @property
    def order(self) -> tuple[str, ...]:
        """By end, then by group, then by partition."""
        return ("window_end", KEY, TOPIC, PARTITION)

"""Batches: records of a group, gathered by number, bytes and wall-clock time."""

from __future__ import annotations

from headrace import description
from headrace.operators.contract import POSITION, OfNode, Waits


class Batches(OfNode[description.Batches]):
    """One row for each batch."""

    @property
    def order(self) -> tuple[str, ...]:
        """By the record that opened the batch."""
        return ("opened_at", *POSITION)

    @property
    def waits(self) -> Waits:
        """For wall-clock time after the record that opened a batch; a drain closes all."""
        return Waits(self.node.longest_wait_ms, self.node.wall_waits, drain=True)

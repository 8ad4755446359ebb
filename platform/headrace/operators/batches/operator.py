"""Batches: records of a group, gathered by number, bytes and wall-clock time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace import description
from headrace.fold.kernel import Kernel
from headrace.operators.batches.fold import BatchedSink
from headrace.operators.claims import OF_BATCHES
from headrace.operators.contract import POSITION, Bindings, OfNode, Waits

if TYPE_CHECKING:
    from collections.abc import Mapping


class Batches(OfNode[description.Batches]):
    """One row for each batch.

    Written: `group_by` `batch`
    Law (L14): Which batch a record is in follows from commit times and positions. A later record moves no deadline.
    Source: Batch policies of Vector and of Redpanda Connect; the log makes them definite.
    Guide: batches
    """

    @property
    def order(self) -> tuple[str, ...]:
        """By the record that opened the batch."""
        return ("opened_at", *POSITION)

    @property
    def waits(self) -> Waits:
        """For wall-clock time after the record that opened a batch; a drain closes all."""
        return Waits(self.node.longest_wait_ms, self.node.wall_waits, drain=True)

    @property
    def by_commit(self) -> bool:
        """To the day of the commit of its first record."""
        return True

    def open_from_ms(self, closed_ms: int | None, read_ms: int | None) -> int | None:
        """From the longest wait before the end of the log on; without one a batch may stay open for ever."""
        wait_ms = self.node.longest_wall_wait_ms
        return None if read_ms is None or not wait_ms else read_ms - wait_ms

    @property
    def checks(self) -> Mapping[str, str]:
        """Batches keep their limits, and none is lost or repeated."""
        return OF_BATCHES

    def kernel(self, of: Bindings) -> Kernel:
        """See `operators.batches.fold`."""
        return BatchedSink.of(self.node, of.input)

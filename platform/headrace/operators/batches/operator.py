"""Batches: records of a group, gathered by number, bytes and wall-clock time."""

from __future__ import annotations

from headrace import description
from headrace.fold.kernel import Kernel
from headrace.operators.batches.fold import BatchedSink
from headrace.operators.claims import OF_BATCHES
from headrace.operators.contract import POSITION, Bindings, Operator, Waits


class Batches(Operator[description.Batches]):
    """One row for each batch.

    Written: `group_by` `batch`
    Law (L14): Which batch a record is in follows from commit times and positions. A later record moves no deadline.
    Source: Batch policies of Vector and of Redpanda Connect; the log makes them definite.
    Guide: batches
    """

    order = ("opened_at", *POSITION)  # by the record that opened the batch

    @property
    def group(self) -> tuple[str, ...]:
        """The group's columns."""
        return self.node.by or super().group

    @property
    def waits(self) -> Waits:
        """For wall-clock time after the record that opened a batch; a drain closes all."""
        return Waits(self.node.longest_wait_ms, self.node.wall_waits, drain=True)

    by_commit = True  # to the day of the commit of its first record

    def open_from_ms(self, closed_ms: int | None, read_ms: int | None) -> int | None:
        """From the longest wait before the end of the log on; without one a batch may stay open for ever."""
        wait_ms = self.node.longest_wall_wait_ms
        return None if read_ms is None or not wait_ms else read_ms - wait_ms

    checks = OF_BATCHES  # batches keep their limits, and none is lost or repeated

    def kernel(self, of: Bindings) -> Kernel:
        """See `operators.batches.fold`."""
        return BatchedSink.of(self.node, of.input)

"""Totals: an aggregate of each group."""

from __future__ import annotations

from headrace.description import RunningAggregate
from headrace.fold.kernel import Kernel
from headrace.operators.contract import Bindings, Operator
from headrace.operators.totals import fold


class Totals(Operator[RunningAggregate]):
    """One row per group, revised.

    Written: `group_by` `aggregate` without windows, and `throttle` of any table
    Law (L9, L12): The row of a group follows from the set of its records: no record is late, and a tombstone takes
    nothing out. Reads merge the base with recent changes, and compaction changes no row. `throttle` decides how often
    rows are computed, not what they are.
    Source: Kafka Streams, `KTable`; merge on read.
    Guide: suppression
    """

    has_balance = True  # the totals of all groups

    def kernel(self, of: Bindings) -> Kernel:
        """See `operators.totals.fold`."""
        return fold.Totals.of(self.node, of.input, changes=of.changes)

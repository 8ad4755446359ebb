"""Totals: an aggregate of each group."""

from __future__ import annotations

from headrace.description import RunningAggregate
from headrace.fold import totals
from headrace.fold.kernel import Kernel
from headrace.operators.contract import Bindings, OfNode


class Totals(OfNode[RunningAggregate]):
    """One row per group, revised."""

    def kernel(self, of: Bindings) -> Kernel:
        """See `fold.totals`."""
        return totals.Totals.of(self.node, of.input, changes=of.changes)

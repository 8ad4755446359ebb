"""How near the state of one node is to the process that folds it."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.engine.state_copies import COPIES
from headrace.engine.state_groups import GROUPS
from headrace.engine.state_reads import NO_COST, ReadCost

MEANINGS: Mapping[str, str] = {
    "state_rows_read": "Rows of the state that micro-batches have read, since the node was opened.",
    "state_rows_near": "Of these the rows that were in memory or in a local copy.",
    "state_remembered_bytes": "Rows of the state that the run's own process has in memory, of all nodes.",
    "state_copied_bytes": "Local copies of state files that the run's own process has open, of all nodes.",
}


class StateFigures:
    """Sums the reads of micro-batches. `last_bytes` None: there was none since the start."""

    def __init__(self) -> None:
        """Nothing is read yet."""
        self.last_bytes: int | None = None
        self._total: ReadCost = NO_COST

    def see(self, cost: ReadCost) -> None:
        """A micro-batch has read the state."""
        self.last_bytes = cost.bytes
        self._total += cost

    def numbers(self) -> dict[str, int]:
        """The figures by the names of `MEANINGS`."""
        total, near = self._total, (GROUPS.bytes, COPIES.mapped_bytes)
        return dict(zip(MEANINGS, (total.rows, total.near, *near), strict=True))

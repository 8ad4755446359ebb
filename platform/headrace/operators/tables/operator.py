"""Tables: the latest row of each key."""

from __future__ import annotations

from headrace.description import Table
from headrace.fold.kernel import Kernel
from headrace.operators.contract import Bindings, Operator
from headrace.operators.tables import fold


class Tables(Operator[Table]):
    """One row per key, revised.

    Written: `table`
    Law (L15): A key's row is the maximum of its records, by position or timestamp, tombstones among them.
    Source: Kafka Streams, `KTable`.
    Guide: tables
    """

    @property
    def can_be_late(self) -> bool:
        """If deletes are forgotten, which an old record would undo."""
        return self.node.forget_deletes_ms is not None

    @property
    def lateness(self) -> tuple[str, int | None]:
        """How long deletes are remembered."""
        return "forget_deletes_after", self.node.forget_deletes_ms

    def kernel(self, of: Bindings) -> Kernel:
        """See `operators.tables.fold`."""
        return fold.Tables.of(self.node, of.input, changes=of.changes)

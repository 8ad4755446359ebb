"""The changes of a table, appended."""

from __future__ import annotations

from typing import cast

from headrace.description import TableChanges
from headrace.fold.kernel import Kernel
from headrace.operators.contract import ORDER_OF_CHANGES, Appended, Bindings, OfWindows
from headrace.operators.registry import operator_for
from headrace.operators.relation_tree import relations_of


class Changes(Appended[TableChanges]):
    """One row for each key and log commit that changes it.

    Written: `changes` of a table
    Law (L31): A key and log commit that change the key's row give one record, with the row after it. It is a
    tombstone if the key is gone.
    Source: Kafka Streams, `KTable.toStream`.
    Guide: chains
    """

    order = ORDER_OF_CHANGES  # by the last record that changes a key, its time, and the key

    clock = None  # none: a change has the log's clock

    @property
    def can_be_late(self) -> bool:
        """If it can for the table."""
        return operator_for(self.node.changed).can_be_late

    def kernel(self, of: Bindings) -> Kernel:
        """Windows that grow have kernels of their own; other tables are relations."""
        if self.node.changed.grows:
            return cast("OfWindows", operator_for(self.node.changed)).changes(of)
        return relations_of(self.node.changed, of.inputs, computed=of.computed, appended=True)

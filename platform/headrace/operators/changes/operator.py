"""The changes of a table, appended."""

from __future__ import annotations

from headrace.description import SessionWindows, SlidingWindows, TableChanges, WindowedAggregate
from headrace.fold.kernel import Kernel
from headrace.fold.sessions import SessionChanges
from headrace.fold.sliding import SlidingChanges
from headrace.operators.contract import ORDER_OF_CHANGES, Appended, Bindings
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
        """Windows that grow have kernels of their own (`SessionChanges`, `SlidingChanges`); other tables are relations."""
        match self.node.changed:
            case WindowedAggregate(window=SessionWindows()) as changed:
                return SessionChanges.of(changed, of.input)
            case WindowedAggregate(window=SlidingWindows()) as changed:
                return SlidingChanges.of(changed, of.input)
        return relations_of(self.node.changed, of.inputs, computed=of.computed, appended=True)

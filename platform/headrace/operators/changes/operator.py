"""The changes of a table, appended."""

from __future__ import annotations

from headrace.description import TableChanges
from headrace.operators.contract import ORDER_OF_CHANGES, Appended, RowClock
from headrace.operators.registry import operator_for


class Changes(Appended[TableChanges]):
    """One row for each key and log commit that changes it."""

    @property
    def order(self) -> tuple[str, ...]:
        """By the last record that changes a key, its time, and the key."""
        return ORDER_OF_CHANGES

    @property
    def clock(self) -> RowClock | None:
        """None: a change has the log's clock."""
        return None

    @property
    def can_be_late(self) -> bool:
        """If it can for the table."""
        return operator_for(self.node.changed).can_be_late

"""Joins of tables, groups of tables, and tables after steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.description import Join, Refined, TableAggregate
from headrace.description.feeds import leaves_of
from headrace.description.join import OUTER
from headrace.fold.kernel import Kernel
from headrace.operators.claims import OF_JOINS, OF_OUTER_JOINS, OF_ROWS
from headrace.operators.contract import Bindings, Operator
from headrace.operators.registry import operator_for
from headrace.operators.relation_tree import relations_of

if TYPE_CHECKING:
    from collections.abc import Mapping


class Relations(Operator[Join | Refined | TableAggregate]):
    """Current rows that follow from other tables; both sides of a join drive.

    Written: `join` of tables, `table.group_by` `aggregate`, and `where` `select` `with_column` `transform` after a
    table
    Law:
      `join` (L16)  a row is the join of the latest left row and the latest right row, whichever changed and in
          whatever order
      `table.group_by` (L20)  a group is made of what its rows contribute now. Sums are subtracted exactly; `min`,
          `max`, `collect`, `max_by` and `top` are computed again
      steps after a table  a row follows only from the table's row of its key. A row that no longer passes is deleted
    Source: Kafka Streams, `KGroupedTable`, `KTable.filter`, `mapValues`, and foreign-key joins (KIP-213).
    Guide: tables
    """

    @property
    def can_be_late(self) -> bool:
        """If it can for one of the tables."""
        return any(operator_for(leaf).can_be_late for leaf in leaves_of(self.node).values())

    @property
    def checks(self) -> Mapping[str, str]:
        """A join equals that of its sides, and few of its rows refer to nothing."""
        if not isinstance(self.node, Join):
            return OF_ROWS
        return OF_OUTER_JOINS if self.node.how == OUTER else OF_JOINS

    def kernel(self, of: Bindings) -> Kernel:
        """See `fold.relations`."""
        return relations_of(self.node, of.inputs, changes=of.changes, computed=of.computed)

"""What is measured, and how its result is checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.description import NodeOutput, with_unnamed

if TYPE_CHECKING:
    import duckdb

    from headrace.description import Node

Rows = Callable[["duckdb.DuckDBPyConnection"], "duckdb.DuckDBPyRelation"]


@dataclass(frozen=True)
class Description:
    """A node, and what its topics say that its rows must be.

    wanted     the rows: SQL over the topics, or a function of them. Each topic is a view of its name with the columns
               `partition`, `offset`, `ms` (Kafka's timestamp), `key` and `value` as text, and `chain`
    found      the same of `found`, what people see of the node; times in ms
    fates      SQL of how many records must have met a fate
    by_commit  True if the rows depend on when records were committed. Each topic then has a view `<name>_log`, with
               `partition`, `offset` and `committed_ms`
    chained    True if it reads steps without a name: its ledger counts their rows, and no records of topics
    in_and_out  True if its speed is told by rows that come in and rows that go out
    """

    name: str
    node: Node
    wanted: str | Rows
    found: str = "SELECT * FROM found"
    fates: Mapping[str, str] = field(default_factory=dict)
    by_commit: bool = False
    chained: bool = False
    in_and_out: bool = False

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of its topics, and of those of its steps without a name."""
        nodes = with_unnamed([self.node])
        given = {NodeOutput.of(node).name for node in nodes if node is not self.node}
        return tuple({topic.name: None for node in nodes for topic in node.topics if topic.name not in given})

    def rows(self, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        """The rows that must be there."""
        return connection.sql(self.wanted) if isinstance(self.wanted, str) else self.wanted(connection)

"""The rows of nodes as a test reads them; the records that were not used, and what the rest waits for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from headrace.errors import DescriptionError
from headrace.nodes.emptiness import why_empty
from headrace.nodes.lake_facts import LakeFacts
from headrace.nodes.topics import nodes_below
from headrace.nodes.waits import waits_of
from headrace.observe.sql import LakeSql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.description import Node, Topic
    from headrace.lake.paths import Lake
    from headrace.nodes.waits import Wait
    from headrace.observe.views import Views


class Findings(ABC):
    """The part of a test driver that reads and explains; see `TestDriver`."""

    _nodes: dict[str, Node]
    _topics: dict[str, Topic]

    @property
    @abstractmethod
    def _views(self) -> Views: ...

    _lake: Lake

    @property
    def lake(self) -> Lake:
        """The lake of the logs and tables, for `KeyedReads` and the like; it lasts until `reset` or `close`."""
        return self._lake

    def rows(self, node: str) -> list[dict[str, Any]]:
        """Read the node's results as `read` does, without Spark; in the order of their values."""
        name = self._known(node).required_name
        with LakeSql(self._lake, [*self._nodes.values()]) as lake:
            table = lake.query(f"SELECT * FROM {name} ORDER BY ALL")
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows

    def updates(self, node: str) -> DataFrame:
        """Read the node's raw updates, one row for each identity and micro-batch (see `Views.updates`)."""
        return self._views.updates(self._known(node))

    def late(self, node: str) -> DataFrame:
        """Read the node's late records, one row for each record and closed window (see `Views.late`)."""
        return self._views.late(self._known(node))

    def store(self, node: str, store: str) -> DataFrame:
        """Read the entries of a processor's store (see `Views.store`)."""
        return self._views.store(self._known(node), store)

    def ledger(self, node: str) -> DataFrame:
        """Read the fates of all records: topic, partition, fate, records (see `Views.ledger`)."""
        return self._views.ledger(self._known(node))

    def dead_letters(self, name: str) -> DataFrame:
        """Read the records that a topic and the nodes below it, or a node, could not use (see `Views.dead_letters`)."""
        topic = self._topics.get(name)
        below = () if topic is None else nodes_below(topic, [*self._nodes.values()])
        return self._views.dead_letters(topic or self._known(name, "topic or node"), below)

    def records(self, node: str, fate: str) -> DataFrame:
        """Read the records behind a count of the ledger, with the reason (see `Views.records`)."""
        return self._views.records(self._known(node), fate)

    def waits_for(self, node: str) -> list[Wait]:
        """The waits of the node's rows: the topic and partition that hold them, since when, and what would move them."""
        return waits_of(self._known(node), LakeFacts(self._lake))

    def why_empty(self, node: str) -> str | None:
        """Why the node's table has no row, with the command that shows the records; None: it has rows."""
        described, facts = self._known(node), LakeFacts(self._lake)
        return None if facts.has_rows(described) else why_empty(described, facts)

    def _known(self, name: str, kind: str = "node") -> Node:
        if name not in self._nodes:
            hint = (
                f"There are: {', '.join(sorted({*self._nodes, *(self._topics if kind != 'node' else ())}))}."
            )
            raise DescriptionError(f"There is no {kind} {name!r} here.", hint=hint)
        return self._nodes[name]

"""The rows that a node gives, as a topic that other nodes read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.description.schema import COMPUTED, Column, to_ddl
from headrace.description.topic import Topic
from headrace.description.unnamed import is_unnamed
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.node import Node


@dataclass(frozen=True, eq=False)
class NodeOutput(Topic):
    """The rows of a node that are final, each a record. It has one partition; its log is written by the node.

    In:  written_by  a node whose columns have known types; its name may follow from its description
    Out: the record key is the node's key, the value all its other `record_columns`
    Law: the log follows from the node's rows and from the logs of its topics alone. A row's commit time is that of the log
         commit that made it final. Its clock is that of what caused it, and its stream time is so much earlier as the node
         waits (`behind_clock_ms`). So no row is late downstream only because its node waited for it (L32).
    """

    written_by: Node | None = None

    @classmethod
    def of(cls, node: Node) -> NodeOutput:
        """The output of a node.

        Raises: DescriptionError when the node has no name, or the type of a column is known to Spark alone
        """
        columns = {each.name: Column(each.name, each.type, nullable=True) for each in node.record_columns}
        for column in columns.values():
            if column.type == COMPUTED:
                what = "A step" if is_unnamed(node.required_name) else f"Node '{node.required_name}'"
                raise DescriptionError(
                    f"{what} is read by another one, and only Spark knows the type of '{column.name}'.",
                    hint=f"Say it where it is computed: {node.how_to_type(column.name)}.",
                )
        key = [columns.pop(name) for name in node.key if name in columns]
        if not columns:  # a value has columns
            columns, key = {column.name: column for column in key}, []
        return cls(
            output_name(node),
            key=to_ddl(key) if key else None,
            value=to_ddl(columns.values()),
            idle_timeout=None,
            written_by=node,
        )

    has_one_partition = True  # it has one alone

    @property
    def behind_clock_ms(self) -> int:
        """As its node says."""
        assert self.written_by is not None
        return self.written_by.behind_clock_ms

    @property
    def tells_changes(self) -> bool:
        """As its node does."""
        return self.written_by is not None and self.written_by.tells_changes

    @property
    def in_words(self) -> str:
        """Its name for people: the node, or the first words about a step without a name."""
        assert self.written_by is not None
        name = self.written_by.required_name
        if is_unnamed(name):
            return f"a step without a name ({self.written_by.in_words.removesuffix('.')})"
        return name

    def rules(self) -> dict[str, Any]:
        """The rules that its rows depend on: the rules of its node."""
        assert self.written_by is not None
        return {"node": self.written_by.rules()}

    def _check_name(self) -> None:
        """It is made here."""

    @property
    def _content(self) -> tuple[object, ...]:
        assert self.written_by is not None
        return (*super()._content, self.written_by.fingerprint())


def output_name(node: Node) -> str:
    """The name of what a node gives, as a topic; Kafka has none with an `@`. Another description gives another topic."""
    return f"{node.required_name}@{node.fingerprint()[:12]}"


def written_by(topic: Topic) -> Node | None:
    """The node that writes a topic's log; None: it is one of Kafka's."""
    return topic.written_by if isinstance(topic, NodeOutput) else None


def sources_of(node: Node) -> tuple[Topic, ...]:
    """The topics from which a node's rows come, directly or by way of other nodes of its pipeline."""
    read = ((topic, written_by(topic)) for topic in node.topics)
    each = ((topic,) if of is None else sources_of(of) for topic, of in read)
    return tuple(dict.fromkeys(topic for topics in each for topic in topics))

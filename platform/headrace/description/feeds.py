"""The feeds of a node, by name: the rows of streams, after their row-wise steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.description.steps import reads_headers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.description.node import Node
    from headrace.description.relation import Relation
    from headrace.description.stream import Stream

RESULT = "result"
LEFT, RIGHT, ROWS = "left", "right", "rows"  # the sides of a relation, or of a join of streams
RECORDS, VERSIONS = "records", "versions"  # the feeds of a lookup


@dataclass(frozen=True)
class Feed:
    """Rows that a node takes: those of a stream, after its row-wise steps.

    conditions  SQL that decides whether a row is in its table
    deletes     whether a tombstone deletes its key, so that the steps matter for it too
    chained     whether its rows go on as records of their own, so that their source chains matter
    clocked     whether the stream time of a node's row is its clock (see `Node.goes_by_clocks`)
    causes      whether the places of its rows' causes go on (see `Node.passes_causes`)
    read        the columns that the operator reads, in any spelling; None: all
    """

    stream: Stream
    conditions: tuple[str, ...] = ()
    deletes: bool = False
    chained: bool = False
    clocked: bool = False
    causes: bool = False
    read: tuple[str, ...] | None = None

    @property
    def reads_causes(self) -> bool:
        """Whether its rows have the places of their causes: where these go on and a node writes a topic."""
        from headrace.description.node_reference import is_of_kafka  # whose nodes have feeds themselves

        return self.causes and not all(map(is_of_kafka, self.stream.topics))

    @property
    def reads_headers(self) -> bool:
        """Whether the headers of its records matter."""
        steps = (step for branch in self.stream.branches for step in branch.steps)
        return self.chained or any(map(reads_headers, steps))

    @property
    def columns_read(self) -> Sequence[str]:
        """The columns of its stream that the operator reads, in any spelling."""
        return (self.stream.columns or ()) if self.read is None else self.read

    @property
    def topics(self) -> tuple[str, ...]:
        """Whose logs it reads."""
        return tuple(topic.name for topic in self.stream.topics)


def feeds_of(node: Node) -> dict[str, Feed]:
    """The rows that a node takes, by name."""
    clocked, causes = node.goes_by_clocks, node.passes_causes
    return {name: replace(feed, clocked=clocked, causes=causes) for name, feed in node.feeds.items()}


def table_feed(name: str) -> str:
    """The feed of a processor's global table."""
    return f"table_{name}"


def leaves_of(node: Relation, part: str = RESULT) -> dict[str, Relation]:
    """The folds of logs below a relation by their parts, in the order of the tree."""
    found: dict[str, Relation] = {}
    for side, table in node.parts.items():
        found |= leaves_of(table, below(part, side))
    return found or {part: node}


def below(part: str, side: str) -> str:
    """The name of a side; the outermost relation lends it none."""
    return side if part == RESULT else f"{part}_{side}"

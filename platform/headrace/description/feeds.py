"""The feeds of a node, by name: the rows of streams, after their row-wise steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.description.lookup import Lookup
from headrace.description.node_reference import is_of_kafka
from headrace.description.processed import Processed
from headrace.description.relation import Relation
from headrace.description.steps import reads_headers
from headrace.description.suppressed import Suppressed
from headrace.description.table import Table
from headrace.description.table_changes import TableChanges

if TYPE_CHECKING:
    from headrace.description.node import Node
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
    """

    stream: Stream
    conditions: tuple[str, ...] = ()
    deletes: bool = False
    chained: bool = False
    clocked: bool = False
    causes: bool = False

    @property
    def reads_causes(self) -> bool:
        """Whether its rows have the places of their causes: where these go on and a node writes a topic."""
        return self.causes and not all(map(is_of_kafka, self.stream.topics))

    @property
    def reads_headers(self) -> bool:
        """Whether the headers of its records matter."""
        steps = (step for branch in self.stream.branches for step in branch.steps)
        return self.chained or any(map(reads_headers, steps))

    @property
    def topics(self) -> tuple[str, ...]:
        """Whose logs it reads."""
        return tuple(topic.name for topic in self.stream.topics)


def feeds_of(node: Node) -> dict[str, Feed]:
    """The rows that a node takes, by name."""
    clocked, causes = node.goes_by_clocks, node.passes_causes
    return {name: replace(feed, clocked=clocked, causes=causes) for name, feed in _feeds_of(node).items()}


def _feeds_of(node: Node) -> dict[str, Feed]:
    match node:
        case Lookup():
            return {
                RECORDS: Feed(node.stream),
                VERSIONS: _feed(node.right) if node.prior is None else Feed(node.right.stream),
            }
        case Processed():
            return {RESULT: _feed(node)} | {table_feed(each.name): _feed(each.table) for each in node.tables}
        case Suppressed():
            return {RESULT: _feed(node.updated)}
        case Relation():
            return {part: _feed(leaf) for part, leaf in leaves_of(node).items()}
        case TableChanges():
            return _feeds_of(node.changed)
    sides = {name: Feed(side, chained=node.passes_chains) for name, side in node.sides.items()}
    return sides or {RESULT: _feed(node)}


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


def _feed(leaf: Node) -> Feed:
    if isinstance(leaf, Table):
        return Feed(leaf.stream, leaf.conditions, deletes=leaf.tombstones_delete)
    return Feed(leaf.stream, chained=leaf.passes_chains)  # type: ignore[attr-defined]

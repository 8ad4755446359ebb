"""Nodes whose rows are final: each is a record to whoever reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.description.node import Node
from headrace.description.row_operators import RowOperators
from headrace.description.unnamed import under_a_name

if TYPE_CHECKING:
    from headrace.description.stream import Stream


def stream_of(node: Node) -> Stream:
    """The rows that a node gives, as a stream (see `Emitting.as_stream`)."""
    from headrace.description.node_output import NodeOutput  # it is a topic, and topics become such nodes
    from headrace.description.stream import Branch, Stream

    output = NodeOutput.of(under_a_name(node))
    return Stream((Branch(output, ()),), output.columns)


class Emitting(Node, RowOperators):
    """The base of such nodes: they go on as streams."""

    is_appended = True

    def as_stream(self) -> Stream:
        """Go on from the node's rows as a stream: each row once, in the order in which they become final.

        Raises: DescriptionError when it has a sink and no name, or the type of a column is known to Spark alone
        """
        return stream_of(self)

    @property
    def _flow(self) -> Stream:
        return self.as_stream()

"""Nodes that are read by their names: which descriptions wrote them, as the lake says.

Law: whoever looks twice may find two generations of a node. So a stream looks once, and reads that generation until it
starts again (see `Generations`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from headrace import lake as lakes
from headrace.description import (
    NodeOutput,
    NodeReference,
    OtherNodeError,
    output_of,
    references_of,
    with_references,
)
from headrace.errors import DescriptionError, TransientError
from headrace.lake import small_files
from headrace.nodes.descriptions.renamed import renamed_to

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headrace.description import Node, Topic
    from headrace.lake.paths import Lake

N = TypeVar("N", bound="Node")


class NodeAwaitedError(TransientError):
    """A node that is read by name is not there yet. A stream waits for it."""


def resolve_references(lake: Lake, node: N) -> N:
    """A node whose references are those of the lake as of now; itself if it has none.

    Raises: NodeAwaitedError when no pipeline has written one of them; OtherNodeError when one is not what its reader says
    """
    return with_references(node, partial(resolve_reference, lake))


def resolve_all_references(
    lake: Lake, nodes: Sequence[Node], left_out: Callable[[Node, OtherNodeError], object] | None = None
) -> list[Node]:
    """The same of each node; one that has read nothing yet is left out if it waits for another, or describes it wrongly.

    In:     left_out  told of a node that has read something and describes another one wrongly now, and is left out, too
    Raises: OtherNodeError for such a node if nobody is told
    """
    found = []
    for node in nodes:
        try:
            found.append(resolve_references(lake, node))
        except NodeAwaitedError:
            continue
        except OtherNodeError as error:
            if not small_files.exists(lake.description(node.required_name)):
                continue
            if left_out is None:
                raise
            left_out(node, error)
    return found


def among_themselves(nodes: Sequence[Node]) -> list[Node]:
    """The nodes, where those that read others of them by name read them as nodes of their own pipeline.

    Raises: OtherNodeError when one is not what its reader says; DescriptionError when one is not there
    """
    known = {node.required_name: node for node in nodes}

    def resolve(reference: NodeReference) -> Topic:
        node = known.get(reference.node)
        if node is None:
            raise DescriptionError(
                f"Node '{reference.node}' is read by its name, and is not among the nodes.",
                hint=f"Give it, too; there are: {', '.join(sorted(known))}.",
            )
        node = with_references(node, resolve)
        reference.resolved(node.fingerprint(), output_of(node))
        return NodeOutput.of(node)

    return [with_references(node, resolve) for node in nodes]


def resolve_reference(lake: Lake, reference: NodeReference) -> NodeReference:
    """A reference to the generation that the node's tables are of; one that is found already stays."""
    if reference.generation:
        return reference
    said: Mapping[str, Any] | None = small_files.read_json(lake.description(reference.node))
    if said is None:
        raise NodeAwaitedError(
            f"Waits for node '{reference.node}', which no pipeline has written into this lake yet.",
            hint="Start the stream of the pipeline that has it.",
        )
    return reference.resolved(said["fingerprint"], said["output"])


def require_logs(lake: Lake, node: Node) -> None:
    """Let the nodes that a node reads by name have logs.

    Raises: NodeAwaitedError while one has none; OtherNodeError when it can never have one
    """
    for reference in references_of(node):
        if lakes.exists(lake.log(reference.name)):
            continue
        if (after := renamed_to(lake, reference.node)) is not None:
            raise OtherNodeError(
                f"Node '{reference.node}' goes on as '{after}', and nobody has read it under its former name.",
                hint=f"Read hr.node('{after}', …) instead.",
            )
        if small_files.read_json(lake.opening(reference.node)) is not None:
            raise OtherNodeError(
                f"Node '{reference.node}' cannot be read: rows of its logs were cut off before anybody read it.",
                hint="Read a new node, under another name, that does the same.",
            )
        raise NodeAwaitedError(
            f"Waits for the log of node '{reference.node}'.",
            hint="The stream that writes the node begins it within seconds, once it runs.",
        )


class Generations:
    """The generations that one stream run reads: each is looked up once, and kept."""

    def __init__(self, lake: Lake) -> None:
        """Nothing is looked up yet."""
        self._lake = lake  # a generation is kept once it has a log: until then it may be followed by another
        self._known: dict[str, NodeReference] = {}

    def of(self, node: Node) -> Node:
        """A node whose references are found.

        Raises: as `resolve_references`; NodeAwaitedError, too, while a node that is read by name has no log
        """
        found = with_references(node, self._resolved)
        require_logs(self._lake, found)
        self._known |= {reference.node: reference for reference in references_of(found)}
        return found

    def outdated(self, node: Node) -> TransientError | None:
        """A remark on a node that reads a generation or a name which is not written any more; None: it reads none."""
        for reference in references_of(node):
            if (after := renamed_to(self._lake, reference.node)) is not None:
                return TransientError(
                    f"Node '{reference.node}' goes on as '{after}': nothing comes under its former name any more.",
                    hint=f"Read hr.node('{after}', …) instead, and start this stream again.",
                )
            said = small_files.read_json(self._lake.description(reference.node)) or {}
            if not said.get("fingerprint", reference.generation).startswith(reference.generation):
                return TransientError(
                    f"Node '{reference.node}' was rebuilt by another description, and its log goes on as another one.",
                    hint="Start this stream again: what reads the node is then rebuilt from the new log.",
                )
        return None

    def _resolved(self, reference: NodeReference) -> NodeReference:
        kept = self._known.get(reference.node)
        if kept is None:
            return resolve_reference(self._lake, reference)
        return reference.resolved(
            kept.generation, {"key": kept.key, "value": kept.value, "changes": kept.changes}
        )

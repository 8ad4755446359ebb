"""The last commit of a node's state: it says how far the node is, and by which description it was written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace import lake as lakes
from headrace.description import is_of_kafka, written_by
from headrace.log.history.writings import WRITINGS, writings_of
from headrace.nodes.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.description import Node
    from headrace.lake.paths import Lake


READS = "reads"


def last_state_commit(lake: Lake, name: str) -> lakes.Commit | None:
    """The last commit of the state of the node with this name; None: nothing was written yet."""
    state = lakes.open_table(lake.state(name))
    return lakes.last_commit(state, f"node/{name}") if state.exists else None


def state_written_by(lake: Lake, name: str) -> str | None:
    """The fingerprint of the description by which a node's state was last written; None: nothing was written yet."""
    commit = last_state_commit(lake, name)
    return None if commit is None else str(commit.record["fingerprint"])


def records_folded(lake: Lake, name: str) -> int | None:
    """How many records the node with this name has folded, by that commit; None: there is none."""
    commit = last_state_commit(lake, name)
    return None if commit is None else Progress.from_json(commit.record["progress"]).all_records


def state_record(
    node: Node,
    progress: Progress,
    writings: Mapping[str, str] | None = None,
    reads: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """The record of a commit of a node's state.

    In: writings  see `writings_read`
        reads     how near the state was (see `state_figures`)
    """
    return {
        "writer": f"node/{node.required_name}",
        "fingerprint": node.fingerprint(),
        "progress": progress.to_json(),
        **({} if writings is None else {WRITINGS: dict(writings)}),
        **({} if reads is None else {READS: dict(reads)}),
    }


def writings_read(lake: Lake, node: Node) -> dict[str, str]:
    """The writings of the logs of Kafka's topics that a node reads, directly or through other nodes, as of now."""
    return writings_of(lake, sorted({*_topics_above(node)}))


def _topics_above(node: Node) -> Iterator[str]:
    for topic in node.topics:
        if is_of_kafka(topic):
            yield topic.name
        elif (writer := written_by(topic)) is not None:
            yield from _topics_above(writer)

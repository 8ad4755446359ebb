"""The last commit of a node's state: it says how far the node is, and by which description it was written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace import lake as lakes

if TYPE_CHECKING:
    from headrace.description import Node
    from headrace.lake.paths import Lake
    from headrace.nodes.progress import Progress

# How the state of a node lies in its table. A state of another layout is rebuilt from the log.
STATE_LAYOUT = 2


def last_state_commit(lake: Lake, name: str) -> lakes.Commit | None:
    """The last commit of the state of the node with this name; None: nothing was written yet."""
    state = lakes.open_table(lake.state(name))
    return lakes.last_commit(state, f"node/{name}") if state.exists else None


def state_written_by(lake: Lake, name: str) -> str | None:
    """The fingerprint of the description by which a node's state was last written; None: nothing was written yet."""
    commit = last_state_commit(lake, name)
    return None if commit is None else str(commit.record["fingerprint"])


def state_record(node: Node, progress: Progress) -> dict[str, Any]:
    """The record of a commit of a node's state."""
    return {
        "writer": f"node/{node.required_name}",
        "layout": STATE_LAYOUT,
        "fingerprint": node.fingerprint(),
        "progress": progress.to_json(),
    }

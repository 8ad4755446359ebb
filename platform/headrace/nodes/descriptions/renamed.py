"""Names that nodes have had: who may write the tables of a former name, and those of a new one.

Law: a node's log is folded for its sinks under one name. Once a node is renamed, no stream goes on from the tables of its
former name, and no stream begins the tables of the new one from nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from headrace.lake import small_files
from headrace.nodes.standing.state_commits import state_written_by

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.description import Node
    from headrace.lake.paths import Lake


def has_to_be_renamed(lake: Lake, node: Node) -> bool:
    """Whether a node has a former name with tables, and none of its own."""
    before = node.renamed_from
    return (
        before is not None
        and state_written_by(lake, before) is not None
        and state_written_by(lake, node.required_name) is None
    )


@dataclass(frozen=True)
class Note:
    """A note of a rename, to which no other is equal; and the note that was there before, None: there was none."""

    entry: Mapping[str, Any]
    left: Mapping[str, Any] | None


def note_renamed(lake: Lake, before: str, after: str) -> Note:
    """Give up the tables of a former name, as they are now, from this moment on."""
    left = small_files.read_json(lake.renamed(before))
    entry = {"to": after, "fingerprint": state_written_by(lake, before), "token": uuid4().hex}
    small_files.write_json(lake.renamed(before), entry, overwrite=left is not None)
    return Note(entry, left)


def forget_renamed(lake: Lake, before: str, note: Note) -> None:
    """Take a note back, unless the node has its new name all the same; another process may have renamed it.

    The note before it comes back: that process may be about to write the tables of the new name.
    """
    is_renamed = state_written_by(lake, note.entry["to"]) is not None
    if is_renamed or small_files.read_json(lake.renamed(before)) != note.entry:
        return
    if note.left is None:
        small_files.delete(lake.renamed(before))
    else:
        small_files.write_json(lake.renamed(before), note.left)


def renamed_to(lake: Lake, name: str) -> str | None:
    """The name under which a node goes on from the tables of this one; None: under this one.

    Tables that another description has written since are a new node's.
    """
    found = small_files.read_json(lake.renamed(name))
    given_up = found is not None and found["fingerprint"] == state_written_by(lake, name)
    return str(found["to"]) if found is not None and given_up else None


def why_not_by_this_name(lake: Lake, node: Node) -> str:
    """Why a stream may not write a node under its name, and what to do; empty: it may."""
    name = node.required_name
    if (other := renamed_to(lake, name)) is not None:
        return (
            f"Node '{name}' waits: headrace apply has renamed it to '{other}'. Restart the run with the code that says so. "
            f"To let it run under this name, too, remove {lake.renamed(name)}."
        )
    if has_to_be_renamed(lake, node):
        return (
            f"Node '{name}' waits: it goes on from the tables of '{node.renamed_from}' once headrace apply has copied them. "
            "Without renamed_from it is a new node, built from the log."
        )
    return ""

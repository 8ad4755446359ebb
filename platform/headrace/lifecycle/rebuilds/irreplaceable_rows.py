"""Rows of a node that no fold makes again: those from before a cut of its logs, or from before its day of `since`.

Law: they stand in the table of appended results and in the node's own log alone. So a repair that needs a deleted file of
these is refused before it changes the node. Current results and the state follow from the opening balance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace import lake as lakes
from headrace.description import output_name
from headrace.errors import TerminalError
from headrace.lake import small_files
from headrace.nodes.balances.older_rows import since_of
from headrace.nodes.balances.opening import read_opening

if TYPE_CHECKING:
    from headrace.description import Node
    from headrace.lake.paths import Lake


def require_whole_past(lake: Lake, node: Node) -> None:
    """Refuse to compute a node again if files are deleted that hold such rows of it.

    Raises: TerminalError naming some of the files
    """
    for uri in _past(lake, node):
        table = lakes.open_table(uri)
        gone = sorted(table.snapshot().files.keys() - {*small_files.names(uri)}) if table.exists else []
        if gone:
            raise _refusal(node, uri, ", ".join(gone[:3]))


def require_replaceable(lake: Lake, node: Node, uri: str, gone: str | None) -> None:
    """Refuse to compute a table of a node again that has such rows. In: gone  the deleted files, in words."""
    if uri in _past(lake, node):
        raise _refusal(node, uri, gone)


def _past(lake: Lake, node: Node) -> list[str]:
    """The tables of a node with such rows."""
    if read_opening(lake, node).is_at_the_beginning and since_of(node) is None:
        return []
    results = [lake.table(node.required_name)] if node.has_days else []
    return [*results, lake.log(output_name(node))]


def _refusal(node: Node, uri: str, gone: str | None) -> TerminalError:
    return TerminalError(
        f"Node '{node.required_name}': files of {uri} are deleted, and its logs no longer lead to all of its rows.",
        detail=gone,
        hint="Nothing of the node was changed. Restore these files from a backup and run the repair again, or give the "
        "node a new name, so that it is built from the rest of the log.",
    )

"""The answers about a node that figures do not give: its last error, why its table is empty, and its waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.nodes.asset_names import stream_name
from headrace.nodes.emptiness import why_empty
from headrace.nodes.last_error import last_error
from headrace.nodes.waits import at, waits_of

if TYPE_CHECKING:
    from headrace.description import Node
    from headrace.nodes.lake_facts import LakeFacts


def remarks_on(node: Node, facts: LakeFacts) -> list[str]:
    """The answers, a sentence or two each; none: it has rows, waits for nothing, and has committed since it failed."""
    found, progress = list[str](), facts.progress(node.required_name)
    batches = 0 if progress is None else progress.batch
    error = last_error(facts.lake, stream_name(node.required_name), batches)
    if error is not None:
        found.append(f"It failed at {at(error.at_ms)} and has not committed since: {error.error}")
    waits = [str(wait) for wait in waits_of(node, facts)]
    if not facts.has_rows(node):
        found.append(f"It has no rows: {why_empty(node, facts)}")
        waits = [wait for wait in waits if wait not in found[-1]]
    return [*found, *waits]

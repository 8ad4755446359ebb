"""A node that began under another description, and has committed nothing: the tables become those of the description.

Law: what no commit of a state stands for never was. So until the first one a description may change freely: what a first
micro-batch has left that was broken off goes, and the tables have the columns of now. Its writer is fenced off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from headrace import lake as lakes
from headrace.lake import small_files
from headrace.lake.care.swap import empty_table
from headrace.nodes.descriptions.evolution import GOES_ON, outcome_of
from headrace.nodes.node_tables import description_of, results_writer, stored_description
from headrace.nodes.standing.state_commits import last_state_commit

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.description import Node
    from headrace.lake.paths import Lake

logger = structlog.get_logger(__name__)


def clear_broken_beginning(lake: Lake, node: Node, results: pa.Schema, state: pa.Schema) -> None:
    """Empty the tables of a node that has begun under other rules and committed no state. The caller holds the lease.

    In: results, state  the columns that its tables have under these rules
    """
    name, stored = node.required_name, stored_description(lake, node)
    if stored is None or last_state_commit(lake, name) is not None:
        return
    known = stored["fingerprint"]
    if known == node.fingerprint() or outcome_of(stored, known, description_of(node)) == GOES_ON:
        return
    # So no micro-batch has its results already.
    nothing = {"writer": results_writer(node), "batch": 0, "after_ms": {}, "upto_ms": {}}
    for uri, schema, record in (
        (lake.table(name), results, nothing),
        (lake.state(name), state, {"writer": "describer"}),
    ):
        if lakes.exists(uri):
            empty_table(lakes.TableWriter(lakes.open_table(uri), lakes.APPENDER), schema, record)
    if node.sinks and small_files.exists(lake.plan(name)):
        hint = "They may hold rows of the description before: once the node has run, headrace redeliver puts them right."
        logger.warning("a delivery to sinks was broken off", node=name, hint=hint)
    small_files.delete(lake.plan(name))

"""Where logs and nodes of a lake stand, by their last commits: no Spark, no Kafka, a small read each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from headrace.engine.folding.operators import stored_results
from headrace.engine.state_files import StateSource
from headrace.engine.state_reads import read_state
from headrace.fold.changes.collect import RESULTS
from headrace.fold.contract import DELETED, Needs
from headrace.fold.fates import KEPT
from headrace.lake import last_commit, open_table
from headrace.log.decisions.promise import read_promise
from headrace.nodes.progress import Progress
from headrace.nodes.standing.state_commits import READS
from headrace.sequence.log_state import LogState

if TYPE_CHECKING:
    from headrace.description import Node
    from headrace.lake import LakeTable
    from headrace.lake.paths import Lake


class LakeFacts:
    """The facts of one lake, each as of the moment when it is asked for; in a stream as of its own commit just before."""

    def __init__(self, lake: Lake) -> None:
        """Nothing is read yet."""
        self.lake = lake

    def log(self, topic: str) -> LogState | None:
        """Where the log of a topic of Kafka stands; None: there is no log, or a node writes it."""
        table = open_table(self.lake.log(topic))
        commit = last_commit(table, f"log/{topic}", recent=True) if table.exists else None
        if commit is None or "after" not in commit.record:
            return None
        return LogState.from_json(commit.record["after"])

    def settled_ms(self, topic: str) -> int | None:
        """No later row of the log will lie at or before this commit time; None: it is not known."""
        promised_ms, state = read_promise(self.lake.log(topic)), self.log(topic)
        found = max(promised_ms, 0 if state is None else state.ingested_at_ms)
        return found or None

    def progress(self, node: str) -> Progress | None:
        """How far a node has come; None: it has committed nothing."""
        table = open_table(self.lake.state(node))
        commit = last_commit(table, f"node/{node}", recent=True) if table.exists else None
        return None if commit is None else Progress.from_json(commit.record["progress"])

    def state(self, node: str) -> dict[str, Any]:
        """The `state_bytes` of a node's state, and its `reads` as of the last micro-batch that says how near it was."""
        table = open_table(self.lake.state(node))
        commit = last_commit(table, f"node/{node}") if table.exists else None
        if commit is None:
            return {}
        return {"state_bytes": table.snapshot().bytes, "reads": commit.record.get(READS, {})}

    def has_rows(self, node: Node) -> bool:
        """Whether the node's table has a row: in its files or, if rows are revised or still open, in the state."""
        table, state = (
            open_table(uri)
            for uri in (self.lake.table(node.required_name), self.lake.state(node.required_name))
        )
        if table.exists and table.snapshot().rows:
            return True
        if node.shows_open:
            progress = self.progress(node.required_name)
            return progress is not None and bool(progress.totals().get(KEPT))
        return not node.has_days and state.exists and _has_current_rows(state)


def _has_current_rows(state: LakeTable) -> bool:
    """Whether the state holds a row that is not folded into the table yet. In: state  of a node whose rows are revised."""
    if RESULTS not in state.columns.names:
        return False
    rows = read_state(StateSource.committed(state), stored_results(state), RESULTS, Needs()).rows
    return not pc.all(rows[DELETED], min_count=0).as_py()

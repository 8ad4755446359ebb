"""Where logs and nodes stand, by their last commits: no Spark, no Kafka, a few small reads each."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from headrace.description import is_unnamed, with_unnamed
from headrace.lake import last_commit, open_table, small_files
from headrace.nodes.awaited import awaited_topics
from headrace.nodes.progress import Progress
from headrace.nodes.topics import topics_of, upstream_first
from headrace.sequence.log_state import LogState
from headrace.writing.lease import held_since_ms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.description import Node
    from headrace.lake.paths import Lake
    from headrace.log.clock import Clock


@dataclass(frozen=True)
class Standing:
    """Says where a log or a node stands, as of its last commit. Times in ms since 1970; None: nothing is known yet.

    asset       `log/<topic>` or `stream/<node>`
    running     True if a process holds its lease
    commits     how many it has made
    through_ms  commit time of the last log commit: of a log its own, of a node the one through which it has read
    stream_ms   the lowest stream time of the non-empty partitions
    behind_ms   of a node: how much later its logs' last commits are
    paused      of a node: a person lets it rest
    records     of a log the offsets of all partitions; of a node the records by fate
    waits_for   topics that a lookup waits for, of a node or of a step without a name that it reads (see `nodes.awaited`)
    """

    asset: str
    running: bool
    commits: int = 0
    through_ms: int | None = None
    stream_ms: int | None = None
    behind_ms: int | None = None
    records: Mapping[str, int] | None = None
    paused: bool = False
    waits_for: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Give the fields by their names."""
        return asdict(self)


def standings(lake: Lake, nodes: Sequence[Node], clock: Clock) -> list[Standing]:
    """Look where the logs and nodes of a pipeline stand: the logs first, then each node after those that it reads."""
    logs = {name: _log(lake, name, clock) for name in topics_of(nodes)}
    shown = [node for node in upstream_first(nodes) if not is_unnamed(node.required_name)]
    return [*logs.values(), *(_node(lake, node, logs, clock) for node in shown)]


def _log(lake: Lake, topic: str, clock: Clock) -> Standing:
    writer = f"log/{topic}"
    running = held_since_ms(lake.lease(writer), clock) is not None
    table = open_table(lake.log(topic))
    commit = last_commit(table, writer) if table.exists else None
    if commit is None or "after" not in commit.record:
        return Standing(writer, running)
    state = LogState.from_json(commit.record["after"])
    records = {"delivered": sum(state.next_offsets.values())}
    return Standing(
        writer,
        running,
        state.batch,
        state.ingested_at_ms,
        state.lowest_stream_ms(),
        records=records,
    )


def _node(lake: Lake, node: Node, logs: Mapping[str, Standing], clock: Clock) -> Standing:
    name, waits_for = node.required_name, _waits_for(lake, node)
    asset = f"stream/{name}"
    running = held_since_ms(lake.lease(f"node/{name}"), clock) is not None
    paused = small_files.exists(lake.paused(name))
    progress = _progress(lake, name)
    if progress is None:
        return Standing(asset, running, paused=paused, waits_for=waits_for)
    newest = {name: log.through_ms for name, log in logs.items() if log.through_ms is not None}
    behind = [newest[topic] - through for topic, through in progress.upto_ms.items() if topic in newest]
    times = [ms for partitions in progress.stream_ms.values() for ms in partitions.values()]
    return Standing(
        asset,
        running,
        progress.batch,
        min(progress.upto_ms.values(), default=None),
        min(times, default=None),
        max(behind, default=None),
        progress.totals(),
        paused,
        waits_for,
    )


def _progress(lake: Lake, node: str) -> Progress | None:
    table = open_table(lake.state(node))
    commit = last_commit(table, f"node/{node}") if table.exists else None
    return None if commit is None else Progress.from_json(commit.record["progress"])


def _waits_for(lake: Lake, node: Node) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for step in with_unnamed([node]):
        if awaited_topics(step, ()):  # others need no look at their state
            progress = _progress(lake, step.required_name) or Progress()
            found |= dict.fromkeys(awaited_topics(step, progress.complete))
    return tuple(found)

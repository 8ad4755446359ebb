"""Where logs and nodes stand, by their last commits: no Spark, no Kafka, a few small reads each."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from headrace.description import is_unnamed, with_unnamed
from headrace.fold.fates import KEPT
from headrace.lake import small_files
from headrace.nodes.descriptions.asset_names import name_in, stream_name
from headrace.nodes.descriptions.topics import topics_of, upstream_first
from headrace.nodes.standing.emptiness import why_empty
from headrace.nodes.standing.lake_facts import LakeFacts
from headrace.nodes.standing.last_error import last_error
from headrace.nodes.standing.waits import COMPLETE, waits_of
from headrace.writing.leases.lease import lease_taken_ms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.description import Node
    from headrace.lake.paths import Lake
    from headrace.log.clock import Clock
    from headrace.nodes.progress import Progress
    from headrace.nodes.standing.last_error import LastError
    from headrace.nodes.standing.waits import Wait


@dataclass(frozen=True)
class Standing:
    """Says where a log or a node stands, as of its last commit. Times in ms since 1970; None: nothing is known yet.

    asset       `log/<topic>` or `stream/<node>_stream`
    running     True if a process holds its lease
    commits     how many it has made
    through_ms  commit time of the last log commit: of a log its own, of a node the one through which it has read
    stream_ms   the lowest stream time of the non-empty partitions
    behind_ms   of a node: how much later its logs' last commits are
    paused      of a node: a person lets it rest
    records     of a log the offsets of all partitions; of a node the records by fate
    state_bytes of a node's state tables
    reads       of a node how near its state is to the process that folds it (see `writing.state_figures`)
    waits       what rows of a node wait for, with the partition that holds them (see `nodes.standing.waits`)
    empty       of a node whose table has no row: why
    last_error  why it failed, if it has not committed since
    """

    asset: str
    running: bool
    commits: int = 0
    through_ms: int | None = None
    stream_ms: int | None = None
    behind_ms: int | None = None
    records: Mapping[str, int] | None = None
    state_bytes: int | None = None
    reads: Mapping[str, int] = field(default_factory=dict)
    paused: bool = False
    waits: Sequence[Wait] = field(default_factory=tuple)
    empty: str | None = None
    last_error: LastError | None = None

    @property
    def name(self) -> str:
        """The topic's name, or the node's."""
        return name_in(self.asset)

    @property
    def incomplete(self) -> tuple[str, ...]:
        """The topics of a table for which the node's records wait (`complete_first`)."""
        return tuple(str(wait.topic) for wait in self.waits if wait.of == COMPLETE)

    def to_json(self) -> dict[str, Any]:
        """Give the fields by their names."""
        return asdict(self)


def standings(lake: Lake, nodes: Sequence[Node], clock: Clock) -> list[Standing]:
    """Look where the logs and nodes of a pipeline stand: the logs first, then each node after those that it reads."""
    facts = LakeFacts(lake)
    logs = {name: _log(facts, name, clock) for name in topics_of(nodes)}
    shown = [node for node in upstream_first(nodes) if not is_unnamed(node.required_name)]
    return [*logs.values(), *(_node(facts, node, logs, clock) for node in shown)]


def _log(facts: LakeFacts, topic: str, clock: Clock) -> Standing:
    writer, lake = f"log/{topic}", facts.lake
    running = lease_taken_ms(lake.lease(writer), clock) is not None
    state = facts.log(topic)
    error = last_error(lake, writer, 0 if state is None else state.batch)
    if state is None:
        return Standing(writer, running, last_error=error)
    return Standing(
        writer,
        running,
        state.batch,
        state.ingested_at_ms,
        state.lowest_stream_ms(),
        records={"delivered": sum(state.next_offsets.values())},
        last_error=error,
    )


def _node(facts: LakeFacts, node: Node, logs: Mapping[str, Standing], clock: Clock) -> Standing:
    name, lake = node.required_name, facts.lake
    asset, progress = stream_name(name), facts.progress(name)
    found = Standing(
        asset,
        lease_taken_ms(lake.lease(f"node/{name}"), clock) is not None,
        paused=small_files.exists(lake.paused(name)),
        waits=waits_of(node, facts),
        empty=None if facts.has_rows(node) else why_empty(node, facts),
        last_error=last_error(lake, asset, 0 if progress is None else progress.batch),
    )
    if progress is None:
        return found
    newest = {name: log.through_ms for name, log in logs.items() if log.through_ms is not None}
    # The logs were looked at before: a node that has gone on since is not behind.
    behind = [max(newest[topic] - upto, 0) for topic, upto in progress.upto_ms.items() if topic in newest]
    times = [ms for partitions in progress.stream_ms.values() for ms in partitions.values()]
    return replace(
        found,
        commits=progress.batch,
        through_ms=min(progress.upto_ms.values(), default=None),
        stream_ms=min(times, default=None),
        behind_ms=max(behind, default=None),
        records=_counts(node, progress, facts),
        **facts.state(name),
    )


def _counts(node: Node, progress: Progress, facts: LakeFacts) -> dict[str, int]:
    """The records of a node by fate; among them those that its steps without a name refuse."""
    counts = Counter(progress.totals())
    for step in with_unnamed([node]):
        own = None if step is node else facts.progress(step.required_name)
        if own is not None:
            counts.update({fate: n for fate, n in own.totals().items() if fate != KEPT})
    return dict(counts)

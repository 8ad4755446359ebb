"""Where a node begins that has folded nothing: at the start of its logs, or where rows of them were cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.description import is_of_kafka
from headrace.engine.log_slices import LogSlice
from headrace.log.cut_commits import cuts_noted
from headrace.nodes.progress import Progress

if TYPE_CHECKING:
    from headrace.description import Node
    from headrace.lake.paths import Lake
    from headrace.log.cut_commits import CutCommits


def beginning(lake: Lake, node: Node) -> Progress:
    """The progress of a node that has folded nothing.

    Law: where rows of a topic are gone, the stream time of each partition is that after the cut, and the topic is idle if it
         was then. A partition that has been silent since counts all the same.
    """
    cuts = {topic.name: _cut_of(lake.log(topic.name)) for topic in node.topics if is_of_kafka(topic)}
    stream_ms = {
        name: {str(p): of.stream_ms for p, of in cut.after.partitions.items() if of.stream_ms is not None}
        for name, cut in cuts.items()
        if cut is not None
    }
    idle = sorted(name for name, cut in cuts.items() if cut is not None and cut.after.idle)
    return Progress(stream_ms={name: of for name, of in stream_ms.items() if of}, idle=idle)


def _cut_of(log_path: str) -> CutCommits | None:
    """The newest cut whose rows are gone; None: none are."""
    noted = cuts_noted(log_path)
    return next((cut for cut in reversed(noted) if _is_done(log_path, cut.through_ms)), None)


def _is_done(log_path: str, through_ms: int) -> bool:
    return not LogSlice.of(log_path, 0, through_ms).commit_rows()

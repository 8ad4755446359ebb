"""The part of a node's log that stands for rows of its topics that were cut off.

Law: a cut changes no row of a node's log. The commits of its topics through the cut are gone. So their stream times, limits
and idleness follow from the node's log alone, which keeps them when it is written again. Later ones follow from the topics,
which begin where the cut left them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headrace.description import NodeOutput
from headrace.engine.log_slices import LogSlice
from headrace.nodes.opening import read_opening
from headrace.nodes.reader_commits import ReaderTime, read_commits, together
from headrace.sequence.log_columns import BUSY, IDLE
from headrace.writing.log_commits import longest_waits
from headrace.writing.node_log_times import LogTimes, Reached

if TYPE_CHECKING:
    from headrace.description import Node
    from headrace.lake.paths import Lake


@dataclass(frozen=True)
class CutPart:
    """The commits of a node's log through the cut of its topics.

    times    the times of the commits
    entries  the control rows: commit time and JSON
    reached  where the log stands after them; `next_offset` is not counted
    """

    times: LogTimes
    entries: Sequence[tuple[int, str]]
    reached: Reached


def cut_part(lake: Lake, node: Node, now: Reached) -> CutPart | None:
    """The part of a node's log that its topics no longer lead to; None: no rows of them were cut off.

    In: now  where the log stands
    """
    opening = read_opening(lake, node).progress
    if not opening.upto_ms:
        return None
    through_ms = min(opening.upto_ms.get(topic.name, 0) for topic in node.topics)
    output = NodeOutput.of(node)
    own = read_commits(output, lake.log(output.name), 0, through_ms)
    entries = LogSlice.of(lake.log(output.name), 0, through_ms).controls()
    idle = [action for _, entry in entries if (action := json.loads(entry)["action"]) in (IDLE, BUSY)]
    by_clock = own.seen(clocks=True).commits
    stream, clock = ([None, *(of.stream_ms for of in commits)] for commits in (own.commits, by_clock))
    read = {each.name: read_commits(each, lake.log(each.name), 0, through_ms) for each in node.topics}
    limits = sorted({entry for log in read.values() for entry in log.limits})
    (wait_ms,) = longest_waits(node, 0, [through_ms], limits)
    as_read = {name: together(log.seen(clocks=node.goes_by_clocks).commits) for name, log in read.items()}
    reached = Reached(
        ingested_at_ms=through_ms,
        stream_ms=stream[-1],
        clock_ms=clock[-1],
        reader=ReaderTime({name: of for name, of in as_read.items() if of}, opening.lowest_ms),
        is_idle=idle[-1:] == [IDLE],
        waits_ms=wait_ms if wait_ms > node.longest_wait_ms else 0,
        complete_ms={name: ms for name, ms in now.complete_ms.items() if ms <= through_ms},
    )
    at_ms = np.array([of.at_ms for of in own.commits], np.int64)
    behind = [node.behind_clock_ms, *(of.behind_ms or node.behind_clock_ms for of in by_clock)]
    times = LogTimes(at_ms, np.array(clock, object), np.array(stream, object), np.array(behind, np.int64))
    return CutPart(times, entries, reached)

"""The part of a node's log that stands for rows of its topics that were cut off.

Law: a cut changes no row of a node's log. The commits of its topics through the cut are gone. So their stream times, limits
and idleness follow from the node's log alone, which keeps them when it is written again. Later ones follow from the topics,
which begin where the cut left them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description import NodeOutput
from headrace.engine.slices.log_slices import LogSlice, Origin
from headrace.fold.segments import NO_TIME
from headrace.fold.values.columns import MOMENT, int64
from headrace.nodes.balances.opening import read_opening
from headrace.nodes.standing.reader_commits import ReaderTime, along, commits_of_topics, limits_of
from headrace.sequence.log_columns import BEHIND, BUSY, IDLE, TICK
from headrace.writing.node_logs.log_commits import longest_waits
from headrace.writing.node_logs.node_log_times import LogTimes, Reached

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
    part = LogSlice.of(lake.log(output.name), 0, through_ms)
    times = _times(node, part)
    idle = [of["action"] for _, of in _decided(part) if of["action"] in (IDLE, BUSY)]
    read = commits_of_topics(lake, node, 0, through_ms)
    (wait_ms,) = longest_waits(node, 0, [through_ms], limits_of(read))
    as_read = {name: along(log.seen(clocks=node.goes_by_clocks).commits) for name, log in read.items()}
    reached = Reached(
        ingested_at_ms=through_ms,
        stream_ms=times.last_ms[0],
        clock_ms=times.last_ms[1],
        reader=ReaderTime({name: of[-1] for name, of in as_read.items() if of}, opening.lowest_ms),
        is_idle=idle[-1:] == [IDLE],
        waits_ms=wait_ms if wait_ms > node.longest_wait_ms else 0,
        complete_ms={name: ms for name, ms in now.complete_ms.items() if ms <= through_ms},
    )
    return CutPart(times, part.controls(), reached)


def _times(node: Node, part: LogSlice) -> LogTimes:
    """The times that ticks say. A row that leaves by the wall clock between two commits has none of its own."""
    columns = {**dict.fromkeys(("ingested_at", "stream_time", "clock"), MOMENT), "kind": pa.string()}
    rows = part.read({name: Origin((name,), of) for name, of in columns.items()})
    ticks = rows.filter(pc.equal(rows["kind"], TICK)).sort_by("ingested_at")
    at_ms = int64(ticks["ingested_at"].cast(pa.int64())) // 1_000
    clock, stream = (np.append(NO_TIME, _ms(ticks[name])) for name in ("clock", "stream_time"))
    grown = [(ms, of["ms"]) for ms, of in _decided(part) if of["action"] == BEHIND]
    behind = [max([node.behind_clock_ms, *(of for ms, of in grown if ms <= at)]) for at in at_ms.tolist()]
    return LogTimes(at_ms, clock, stream, np.array([node.behind_clock_ms, *behind], np.int64))


def _decided(part: LogSlice) -> list[tuple[int, Any]]:
    return [(at_ms, json.loads(entry)) for at_ms, entry in part.controls()]


def _ms(times: pa.ChunkedArray) -> np.ndarray:
    return np.where(times.is_valid(), int64(times.cast(pa.int64())) // 1_000, NO_TIME)

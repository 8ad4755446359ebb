"""Sessions, record by record. A session is [start, end], its first and last event; those of each partition stand alone.

Law: each record makes one session of itself and of those of its group within the gap that are open when it comes; of
a node's row, at its own stream time, since such rows need not be in the order of their stream times. It is late
when that session closes at or before its own stream time. A session closes at end + gap + grace.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.description import SessionWindows, is_of_kafka
from headrace.oracle.aggregates import Group
from headrace.oracle.fates import LATE, OPEN, USED, refused
from headrace.oracle.log import Log, Partition, Results, Row, Values, reached
from headrace.oracle.values import Identity, identity

if TYPE_CHECKING:
    from headrace.description import WindowedAggregate


@dataclass
class Session:
    """Its bounds and what is in it."""

    start: int
    end: int
    rows: list[Row]


def results(node: WindowedAggregate, log: Log) -> Results:
    """The sessions that the log leads to."""
    assert isinstance(node.window, SessionWindows)
    found, gap, grace = Results(), node.window.gap_ms, node.grace_ms
    known: dict[tuple[Identity, Partition], list[Session]] = defaultdict(list)
    nodes = {topic.name for topic in node.topics if not is_of_kafka(topic)}
    for row in log.rows:
        fate = refused(row, node.aggregates)
        if fate is None:
            at, before_ms = row.time_ms, row.stream_ms if row.topic in nodes else row.before_ms
            mine = known[identity(row.values[name] for name in node.by), (row.topic, row.partition)]
            near = [
                s
                for s in mine
                if s.start - gap <= at <= s.end + gap and s.end + gap + grace > (before_ms or 0)
            ]
            start, end = min([at, *(s.start for s in near)]), max([at, *(s.end for s in near)])
            if end + gap + grace <= (row.stream_ms or 0):
                fate = LATE
                found.missed(row, at, at)
            else:
                together = [row, *(each for s in near for each in s.rows)]
                mine[:] = [*(s for s in mine if s not in near), Session(start, end, together)]
        if fate:
            found.met(row, fate)
    for (_, partition), own in known.items():
        times = [(at_ms, after[partition]) for at_ms, after in log.commits if partition in after]
        for session in own:
            window, final_at = _shown(node, session, partition), reached(times, session.end + gap + grace)
            for row in session.rows:
                found.met(row, OPEN if final_at is None else USED)
            found.windowed(window, final_at)
    return found


def _shown(node: WindowedAggregate, session: Session, partition: Partition) -> Values:
    group = Group(node.by, node.aggregates)
    for row in sorted(session.rows, key=lambda row: row.place):
        group.add(row)
    own = {"__partition": partition[1], "__timestamp": session.end, "__records": group.records}
    return group.window(session.start, session.end) | own

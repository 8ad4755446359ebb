"""Sessions, record by record. A session is [start, end], its first and last event; those of each partition stand alone.

Law: each record makes one session of itself and of those of its group within the gap that are open at the stream time of
the partition before it. Rows of a node need not be in the order of their stream times: such a row meets those that are open
at its own. A record is late if its session closes at or before its own stream time. A session closes at end + gap + grace.
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
    """Its first and last event, and its records."""

    start: int
    end: int
    rows: list[Row]

    def is_near(self, at_ms: int, gap_ms: int) -> bool:
        """Whether a time is at most the gap away."""
        return self.start - gap_ms <= at_ms <= self.end + gap_ms


def results(node: WindowedAggregate, log: Log) -> Results:
    """The sessions that the log leads to."""
    assert isinstance(node.window, SessionWindows)
    outcome, gap_ms, wait_ms = Results(), node.window.gap_ms, node.window.gap_ms + node.grace_ms
    sessions: dict[tuple[Identity, Partition], list[Session]] = defaultdict(list)
    nodes = {topic.name for topic in node.topics if not is_of_kafka(topic)}
    for row in log.rows:
        fate = refused(row, node.aggregates)
        if fate is None:
            before_ms = (row.stream_ms if row.topic in nodes else row.before_ms) or 0
            own = sessions[identity(row.values[name] for name in node.by), (row.topic, row.partition)]
            near = [s for s in own if s.is_near(row.time_ms, gap_ms) and s.end + wait_ms > before_ms]
            joined = _joined(row, near)
            if joined.end + wait_ms <= (row.stream_ms or 0):
                fate = LATE
                outcome.missed(row, row.time_ms, row.time_ms)
            else:
                own[:] = [*(s for s in own if s not in near), joined]
        if fate:
            outcome.met(row, fate)
    for (_, partition), own in sessions.items():
        times = [(at_ms, after[partition]) for at_ms, after in log.commits if partition in after]
        for session in own:
            final_at = reached(times, session.end + wait_ms)
            for row in session.rows:
                outcome.met(row, OPEN if final_at is None else USED)
            outcome.windowed(_shown(node, session, partition), final_at)
    return outcome


def _joined(row: Row, near: list[Session]) -> Session:
    """One session of a record and of those near it."""
    times = [row.time_ms, *(s.start for s in near), *(s.end for s in near)]
    return Session(min(times), max(times), [row, *(each for s in near for each in s.rows)])


def _shown(node: WindowedAggregate, session: Session, partition: Partition) -> Values:
    group = Group(node.by, node.aggregates)
    for row in sorted(session.rows, key=lambda row: row.place):
        group.add(row)
    own = {"__partition": partition[1], "__timestamp": session.end, "__records": group.records}
    return group.window(session.start, session.end) | own

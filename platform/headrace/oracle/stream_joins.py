"""Joins of two streams, record by record.

Law: a record is late if its event time + within + grace is not beyond its own stream time. The later of two records, in
the order of the logs, finds the earlier one if they have one key, are at most `within` apart in event time, and the lower
event time of the two + within + grace is beyond the stream time of the later one. A record that leaves alone does so at the
first commit after which the lowest stream time of all partitions of all topics reaches its event time + within + grace.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from headrace.description.feeds import LEFT, RIGHT
from headrace.description.join import INNER
from headrace.description.stream_join import OUTER
from headrace.oracle.fates import LATE, OPEN, USED
from headrace.oracle.log import Log, Place, Results, Row, Values, reached
from headrace.oracle.values import Identity, identity, moment

if TYPE_CHECKING:
    from headrace.description import StreamJoin

FILTERED = "filtered"


def stream_join(node: StreamJoin, log: Log) -> Results:
    """The pairs, and the records that leave alone."""
    found, closing = Results(), log.lowest(topic.name for topic in node.topics)
    alone = {INNER: (), OUTER: (LEFT, RIGHT)}.get(node.how, (LEFT,))
    known: dict[Identity, list[tuple[str, Row]]] = defaultdict(list)
    partners: dict[Place, int] = {}
    records = [(side, row) for side in (LEFT, RIGHT) for row in log.feeds[side]]
    for side, row in sorted(records, key=lambda record: record[1].place):
        key = [row.values[name] for name in (node.on if side == LEFT else node.right_on)]
        fate = row.fate or _fate(node, row, can_leave=side in alone or None not in key)
        if fate != USED:
            found.met(row, fate)
            if fate == LATE:
                found.missed(row, row.time_ms - node.within_ms, row.time_ms + node.within_ms)
            continue
        closed_at = reached(closing, _closes(node, row))
        found.met(row, OPEN if closed_at is None else USED)
        partners[row.place] = 0
        for other_side, other in known[identity(key)] if None not in key else ():
            if other_side != side and _in_time(node, row, other):
                pair = (row, other) if side == LEFT else (other, row)
                found.rows.append(_shown(node, *pair, row, other, row.at_ms))
                partners[row.place] += 1
                partners[other.place] += 1
        known[identity(key)].append((side, row))
    for side, row in records:
        closed_at = reached(closing, _closes(node, row)) if row.place in partners else None
        if side in alone and closed_at is not None and not partners[row.place]:
            left, right = (row, None) if side == LEFT else (None, row)
            found.rows.append(_shown(node, left, right, row, None, closed_at))
    return found


def _fate(node: StreamJoin, row: Row, *, can_leave: bool) -> str:
    if not can_leave:
        return FILTERED
    return LATE if row.stream_ms is not None and _closes(node, row) <= row.stream_ms else USED


def _closes(node: StreamJoin, row: Row) -> int:
    return row.time_ms + node.within_ms + node.grace_ms


def _in_time(node: StreamJoin, row: Row, earlier: Row) -> bool:
    close = abs(row.time_ms - earlier.time_ms) <= node.within_ms
    return close and min(_closes(node, row), _closes(node, earlier)) > (row.stream_ms or 0)


def _shown(
    node: StreamJoin, left: Row | None, right: Row | None, cause: Row, partner: Row | None, at_ms: int
) -> Values:
    some, names = (right, node.right_on) if left is None else (left, node.on)
    assert some is not None
    key = {name: some.values[own] for name, own in zip(node.on, names, strict=True)}
    return {
        **key,
        **{name: left and left.values[name] for name in node.left_values},
        **{name: right and right.values[name] for name in node.right_values},
        "__topic": cause.topic,
        "__partition": cause.partition,
        "__offset": cause.offset,
        "__partner_topic": partner and partner.topic,
        "__partner_partition": partner and partner.partition,
        "__partner_offset": partner and partner.offset,
        "__released_at": moment(at_ms),
        "__timestamp": max(row.time_ms for row in (left, right) if row is not None),
        "__sequence": at_ms,
    }

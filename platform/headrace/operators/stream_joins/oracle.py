"""Joins of two streams, record by record.

Law: a left record closes at its event time + after + grace, a right one at its event time + before + grace. A record is
late if it closes at or before its own stream time. Two records are a pair if they have one key, the right one is at most
`before` earlier and `after` later in event time than the left one, and both close beyond the stream times of both. A record
that leaves alone does so at the first commit after which the node's time reaches the time at which it closes.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from headrace.description.epoch_time import moment
from headrace.description.feeds import LEFT, RIGHT
from headrace.description.join import INNER
from headrace.description.stream_join import OUTER
from headrace.oracle.fates import FILTERED, LATE, OPEN, USED
from headrace.oracle.log import Log, Place, Results, Row, Values, reached
from headrace.oracle.values import Identity, identity

if TYPE_CHECKING:
    from headrace.description import StreamJoin


def results(node: StreamJoin, log: Log) -> Results:
    """The pairs, and the records that leave alone."""
    found, closing = Results(), log.lowest
    alone = {INNER: (), OUTER: (LEFT, RIGHT)}.get(node.how, (LEFT,))
    known: dict[Identity, list[tuple[str, Row]]] = defaultdict(list)
    partners: dict[tuple[str, Place], int] = {}
    records = [(side, row) for side in (LEFT, RIGHT) for row in log.feeds[side]]
    for side, row in sorted(records, key=lambda record: record[1].place):
        key = [row.values[name] for name in (node.on if side == LEFT else node.right_on)]
        fate = row.fate or _fate(node, side, row, can_leave=side in alone or None not in key)
        if fate != USED:
            _note(found, row, fate)
            if fate == LATE:
                before_ms, after_ms = _around(node, side)
                found.missed(row, row.time_ms - before_ms, row.time_ms + after_ms)
            continue
        closed_at = reached(closing, _closes(node, side, row))
        _note(found, row, OPEN if closed_at is None else USED)
        partners[side, row.place] = 0
        for other_side, other in known[identity(key)] if None not in key else ():
            pair = (row, other) if side == LEFT else (other, row)
            if other_side != side and _is_pair(node, *pair):
                found.rows.append(_shown(node, *pair, row, other, row.at_ms))
                partners[side, row.place] += 1
                partners[other_side, other.place] += 1
        known[identity(key)].append((side, row))
    for side, row in records:
        closed_at = reached(closing, _closes(node, side, row)) if (side, row.place) in partners else None
        if side in alone and closed_at is not None and not partners[side, row.place]:
            left, right = (row, None) if side == LEFT else (None, row)
            found.rows.append(_shown(node, left, right, row, None, closed_at))
    return found


def _note(results: Results, row: Row, fate: str) -> None:
    """The fate of a record. One that is on both sides is open while it is on one, and used if it is on one."""
    if row.offset is None:
        return
    known = results.fates.get((row.topic, row.partition, row.offset))
    both = [each for each in (known, fate) if each is not None]
    results.met(row, next((best for best in (OPEN, USED) if best in both), min(both)))


def _fate(node: StreamJoin, side: str, row: Row, *, can_leave: bool) -> str:
    """The fate of a record that its stream takes. In: can_leave  whether a row may have it, with a partner or alone."""
    if not can_leave:
        return FILTERED
    return LATE if row.stream_ms is not None and _closes(node, side, row) <= row.stream_ms else USED


def _around(node: StreamJoin, side: str) -> tuple[int, int]:
    """How much earlier and how much later than a record of a side its partner may be."""
    return (node.before_ms, node.after_ms) if side == LEFT else (node.after_ms, node.before_ms)


def _closes(node: StreamJoin, side: str, row: Row) -> int:
    """The stream time at which a record closes."""
    return row.time_ms + _around(node, side)[1] + node.grace_ms


def _is_pair(node: StreamJoin, left: Row, right: Row) -> bool:
    """Whether two records of one key are near one another, and each comes in time for both."""
    near = -node.before_ms <= right.time_ms - left.time_ms <= node.after_ms
    closes_ms = min(_closes(node, LEFT, left), _closes(node, RIGHT, right))
    return near and closes_ms > max(left.stream_ms or 0, right.stream_ms or 0)


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

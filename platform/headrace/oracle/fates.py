"""Which records a node takes.

Law: each record has one fate. One with a value that an aggregate cannot take is a dead letter. Null is a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.oracle.aggregates import Described, can_be_added, usable

if TYPE_CHECKING:
    from headrace.oracle.log import Row

USED, OPEN, LATE, FILTERED = "used", "open", "late", "filtered"
TOMBSTONE, DEAD_LETTER = "tombstone", "dead_letter"
BARE_TOMBSTONE = "bare tombstone"  # what the log says of a record without a value among Debezium's changes
TICK, DRAIN, SET_LIMITS, COMPLETE = "tick", "drain", "set_limits", "complete"  # of rows that are no records


def refused(row: Row, aggregates: Described = ()) -> str | None:
    """The fate of a record that does not count; None: it counts."""
    if row.fate is not None:
        return row.fate
    can_enter = all(
        can_be_added([row.values[name] for name in a.inputs], a)
        if a.own is not None
        else a.column is None or usable(row.values[a.column], a)
        for _, a in aggregates
    )
    return None if can_enter else DEAD_LETTER


def refused_by_table(
    row: Row, key: Sequence[str], forget_ms: int | None = None, *, by_timestamp: bool = False
) -> str | None:
    """The same of a record of a table, where a tombstone counts.

    In: forget_ms     how long deletes are remembered
        by_timestamp  event times order the records of a key: a record without a value among Debezium's changes is none
    """
    if row.fate not in (None, TOMBSTONE):
        return row.fate
    if by_timestamp and row.fate == TOMBSTONE and row.reason == BARE_TOMBSTONE:
        return TOMBSTONE
    if any(row.values[name] is None for name in key):
        return row.fate or DEAD_LETTER  # a tombstone without a key says nothing of the table
    too_old = forget_ms is not None and row.stream_ms is not None and row.time_ms + forget_ms <= row.stream_ms
    return LATE if too_old else None

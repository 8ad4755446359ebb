"""Tables and joins once more, in plain Python: what the records of a log leave of each key.

Nothing here is shared with the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Value = dict[str, Any]
Rows = dict[str, Value]


@dataclass(frozen=True)
class Change:
    """A record of a changelog at its place in the log: commit time, topic, partition, offset. No value: a tombstone."""

    at: tuple[int, str, int, int]
    ts: int
    key: str | None
    value: Value | None
    dead: bool = False


def table(
    changes: Iterable[Change], order_by: str = "position", keeps: Callable[[Value], bool] = lambda value: True
) -> Rows:
    """By key the last value, in the order of the log or of timestamps; none where that is a tombstone or is not kept."""
    rows: Rows = {}
    for change in sorted(changes, key=lambda c: (c.ts, c.at) if order_by == "timestamp" else (0, c.at)):
        if change.dead or change.key is None:
            continue
        rows.pop(change.key, None)
        if change.value is not None and keeps(change.value):
            rows[change.key] = change.value
    return rows


def join(left: Rows, right: Rows, on: str, how: str, theirs: Sequence[str]) -> Rows:
    """Each left row with the columns `theirs` of the right row that it refers to; without one, nulls or no row at all."""
    joined = {}
    for key, row in left.items():
        match = None if row[on] is None else right.get(row[on])
        if match is not None or how == "left":
            joined[key] = row | {name: match and match[name] for name in theirs}
    return joined


def groups(rows: Rows, by: str, column: str) -> Rows:
    """By value of a column how many rows have it, and the sum and mean of another column; a null is no value."""
    found: dict[str, list[Any]] = {}
    for row in rows.values():
        if row[by] is not None:
            found.setdefault(row[by], []).append(row[column])
    totals = {}
    for group, members in found.items():
        values = [value for value in members if value is not None]
        total = sum(values) if values else None
        totals[group] = {"n": len(members), "total": total, "mean": total and total / len(values)}
    return totals


def lookup(
    records: Iterable[Change], changes: Sequence[Change], on: str, order_by: str = "position"
) -> list[tuple[Value, Value | None]]:
    """Each record with a value, its key as `id`, and the row that the changes before it in the log leave for it."""
    found = []
    for record in records:
        if record.value is not None and not record.dead:
            rows = table((change for change in changes if change.at < record.at), order_by)
            found.append(({"id": record.key, **record.value}, rows.get(record.value[on] or "")))
    return found


Moved = tuple[
    int, str, int, int
]  # commit time, topic, partition, and the partition's stream time after a row


def released_at(record: Change, moved: Sequence[Moved], topics: int) -> int | None:
    """The first commit time, not before the record's, at which all partitions that have a stream time are beyond its own."""
    for at in sorted({at for at, *_ in moved if at >= record.at[0]}):
        times: dict[tuple[str, int], int] = {}
        for committed, topic, partition, ms in moved:
            if committed <= at:
                times[topic, partition] = max(ms, times.get((topic, partition), ms))
        if len({topic for topic, _ in times}) == topics and min(times.values()) > record.ts:
            return at
    return None


def lookup_by_time(
    records: Iterable[Change], changes: Sequence[Change], on: str, moved: Sequence[Moved], topics: int
) -> list[tuple[int | None, Change, Value | None]]:
    """Each record with a value: when it is released (None: it waits), and the row of the table that was valid at its time."""
    found = []
    for record in records:
        if record.value is None or record.dead:
            continue
        released = released_at(record, moved, topics)
        valid = [
            change
            for change in changes
            if not change.dead and change.key is not None and change.key == record.value[on]
            if change.ts <= record.ts and released is not None and change.at[0] <= released
        ]
        last = max(valid, key=lambda change: (change.ts, change.at), default=None)
        found.append((released, record, None if last is None else last.value))
    return found

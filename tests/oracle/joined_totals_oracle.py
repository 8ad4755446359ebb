"""Aggregates of streams as sides of a join once more, in plain Python: totals of records, by group or by window.

Nothing here is shared with the engine. Times are in ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.oracle.tables_oracle import Change, Moved

Totals = dict[tuple[Any, ...], dict[str, Any]]


def usable(changes: Iterable[Change], by: str) -> list[Change]:
    """The records that have a value and a group, in the log's order."""
    records = sorted(changes, key=lambda change: change.at)
    return [r for r in records if not r.dead and r.value is not None and group(r, by) is not None]


def group(record: Change, by: str) -> Any:
    return record.key if by == "id" else (record.value or {})[by]


def totals(changes: Iterable[Change], by: str) -> Totals:
    """By group the number of records, the sum and the last of their amounts."""
    rows: Totals = {}
    for record in usable(changes, by):
        add(rows, (group(record, by),), record)
    return rows


def windows(
    changes: Iterable[Change],
    by: str,
    size: int,
    grace: int,
    streams: Mapping[tuple[object, ...], int],
    final_at: int | None = None,
) -> Totals:
    """The same by group and start of the tumbling windows; with `final_at` those that are closed at that stream time."""
    rows: Totals = {}
    for record in usable(changes, by):
        start = record.ts // size * size
        if start + size + grace > streams[record.at]:
            add(rows, (group(record, by), start), record)
    if final_at is None:
        return rows
    return {at: row for at, row in rows.items() if at[1] + size + grace <= final_at}


def add(rows: Totals, at: tuple[Any, ...], record: Change) -> None:
    row = rows.setdefault(at, {"n": 0, "total": None, "newest": None})
    amount = (record.value or {})["amount"]
    row["n"] += 1
    row["newest"] = amount
    if amount is not None:
        row["total"] = (row["total"] or 0) + amount


def lowest(moved: Sequence[Moved], topic: str) -> int:
    """The lowest stream time of the partitions of a topic, at the end of its log; below all, if there is none."""
    times: dict[int, int] = {}
    for _, name, partition, ms in moved:
        if name == topic:
            times[partition] = max(ms, times.get(partition, ms))
    return min(times.values(), default=-1)

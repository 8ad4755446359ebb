"""Batches, record by record.

Law: at each log commit the deadlines that it reaches close batches first; then come its records one by one, then its drain.
With several topics the order is by commit time, topic, partition and offset.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from headrace.description.epoch_time import moment
from headrace.oracle.fates import DRAIN, OPEN, USED, refused
from headrace.oracle.log import Log, Results, Row, Values
from headrace.oracle.values import Identity, identity, plain

if TYPE_CHECKING:
    from headrace.description import Batches


@dataclass
class Batch:
    """An open batch; `closed`: when, and by what."""

    opened_ms: int
    rows: list[Row] = field(default_factory=list)
    size_bytes: int = 0
    closed: tuple[int, str] | None = None


class _Cutter:
    """Cuts the records of each group into batches."""

    def __init__(self, node: Batches) -> None:
        self.node = node
        self.open: dict[Identity, Batch] = {}
        self.closed: list[Batch] = []

    def commit(self, at_ms: int, rows: list[Row], results: Results) -> None:
        """One log commit, or the end of the log."""
        for key, batch in list(self.open.items()):
            deadline_ms, why = _deadline(self.node, batch.opened_ms)
            if deadline_ms is not None and deadline_ms <= at_ms:
                self.close(key, deadline_ms, why)
        for row in rows:
            fate = refused(row)
            if fate is None:
                self.take(row)
            else:
                results.met(row, fate)
        if any(row.fate == DRAIN for row in rows):
            for key in list(self.open):
                self.close(key, at_ms, "drain")

    def take(self, row: Row) -> None:
        """Put a record into the open batch of its group, or into a new one."""
        node, at_ms = self.node, row.at_ms
        key = identity(row.values[name] for name in node.by)
        most = node.max_bytes
        if most is not None and key in self.open and self.open[key].size_bytes + row.size_bytes > most:
            self.close(key, at_ms, "bytes")
        batch = self.open.setdefault(key, Batch(at_ms))
        batch.rows.append(row)
        batch.size_bytes += row.size_bytes
        if len(batch.rows) == node.max_records:
            self.close(key, at_ms, "count")
        elif most is not None and batch.size_bytes >= most:
            self.close(key, at_ms, "bytes")

    def close(self, key: Identity, at_ms: int, why: str) -> None:
        """Close the open batch of a group."""
        batch = self.open.pop(key)
        batch.closed = at_ms, why
        self.closed.append(batch)


def results(node: Batches, log: Log) -> Results:
    """The batches that have closed, in the order of their closing."""
    found, cutter = Results(), _Cutter(node)
    for at_ms, rows in groupby(log.rows, key=lambda row: row.at_ms):
        cutter.commit(at_ms, [*rows], found)
    cutter.commit(log.last_ms, [], found)  # other topics' commits, and other keys', reach deadlines too
    for fate, some in ((USED, cutter.closed), (OPEN, cutter.open.values())):
        for batch in some:
            for row in batch.rows:
                found.met(row, fate)
    found.rows = [_shown(node, batch) for batch in sorted(cutter.closed, key=_order)]
    return found


def _deadline(node: Batches, opened_ms: int) -> tuple[int | None, str]:
    """When a batch closes by time, and the word for it."""
    if node.every_ms is not None:
        return (opened_ms // node.every_ms + 1) * node.every_ms, "beat"
    return None if node.max_wait_ms is None else opened_ms + node.max_wait_ms, "wait"


def _order(batch: Batch) -> tuple[object, ...]:
    """By the commit that closed it, then by when it was opened and where."""
    assert batch.closed is not None
    return batch.closed[0], batch.opened_ms, *batch.rows[0].place[1:]


def _shown(node: Batches, batch: Batch) -> Values:
    assert batch.closed is not None
    first, (closed_ms, closed_by) = batch.rows[0], batch.closed
    by = {name: plain(first.values[name]) for name in node.by}
    name = _name(node, by)
    times = [row.event_ms for row in batch.rows if row.event_ms is not None]
    return {
        **by,
        **({} if name is None else {"batch_id": f"{first.topic}/{first.partition}/{first.offset}/{name}"}),
        "events": [{column: row.values[column] for column in node.collect} for row in batch.rows],
        "records": len(batch.rows),
        "opened_at": moment(batch.opened_ms),
        "closed_at": moment(closed_ms),
        "closed_by": closed_by,
        "__bytes": batch.size_bytes,
        "__partition": first.partition,
        "__offset": first.offset,
        "__timestamp": max(times, default=None),
        "__sequence": closed_ms,
    }


def _name(node: Batches, by: Values) -> Any:
    """How a batch's group is written in its name; None: only SQL can write it."""
    declared = node.stream.shape.type_of(node.by[0])
    if len(by) == 1 and declared is not None and declared.type == "STRING":
        return "null" if by[node.by[0]] is None else by[node.by[0]]
    if all(value is None or type(value) in (str, int, bool) for value in by.values()):
        return json.dumps(by, separators=(",", ":"), ensure_ascii=False)
    return None

"""Tables: the latest record of each key, as a node's table, a side of a join, or what a time limit suppresses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from headrace.description.table_changes import KEY_DELETED
from headrace.oracle.log import Log, Row, Values
from headrace.oracle.relations import Rows, Version, relation, rows_through
from headrace.oracle.tables import deletes, order, refused, shown
from headrace.oracle.values import Identity, identity, plain

if TYPE_CHECKING:
    from headrace.description import Table

__all__ = ["refused", "results", "rows_at", "starts", "updated", "value_of"]

results = relation


def rows_at(node: Table, log: Log, upto_ms: int, part: str) -> Rows:
    """The last record of each key."""
    latest = _latest(node, rows_through(log, upto_ms, part))
    return {key: Version(row.place, shown(node, row)) for key, row in latest.items()}


def starts(node: Table, row: Row) -> list[int]:
    """A key has one entry."""
    return [0]


def updated(node: Table, before: Row | None, row: Row, *, keep: bool) -> tuple[Row, int]:
    """An entry is worth its last record; and the timestamp of that."""
    return row, row.time_ms


def value_of(node: Table, row: Row, start: int) -> Values:
    """A record as a row that leaves; of a deleted key the values are null."""
    if not deletes(row):
        return {**shown(node, row), KEY_DELETED: False}
    key = {name: plain(row.values[name]) for name in node.key}
    return {**key, **dict.fromkeys(node.values), KEY_DELETED: True}


def _latest(node: Table, rows: Iterable[Row]) -> dict[Identity, Row]:
    """The last record of each key, if it leaves a row."""
    last: dict[Identity, Row] = {}
    for row in sorted(rows, key=lambda row: order(node, row)):
        if refused(node, row) is None:
            key = identity(row.values[name] for name in node.key)
            last.pop(key, None)
            if not deletes(row):
                last[key] = row
    return last

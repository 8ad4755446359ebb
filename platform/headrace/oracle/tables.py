"""Tables: the latest record of each key.

Law: of a key's records the last counts, in the order of the log or of event times. A tombstone deletes the key, and so does
a row that fails a condition of the table. A table that forgets deletes takes no record that is as far behind stream time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.description.table import TIMESTAMP
from headrace.oracle.fates import TOMBSTONE, refused_by_table
from headrace.oracle.values import plain

if TYPE_CHECKING:
    from headrace.description import Table
    from headrace.oracle.log import Row, Values


def order(node: Table, row: Row) -> tuple[Any, ...]:
    """The order that tells the later of two records."""
    return (event_or_before_all(row) if node.order_by == TIMESTAMP else 0, *row.place)


def event_or_before_all(row: Row) -> int:
    """The event time of a record; a tombstone that has none comes before all."""
    return -1 if row.event_ms is None else row.event_ms


def refused(node: Table, row: Row) -> str | None:
    """The fate of a record that the table does not take; None: it takes it."""
    by_timestamp = node.order_by == TIMESTAMP
    return refused_by_table(row, node.key, node.forget_deletes_ms, by_timestamp=by_timestamp)


def deletes(row: Row) -> bool:
    """Whether a record leaves no row."""
    return row.fate == TOMBSTONE or not row.passes


def shown(node: Table, row: Row) -> Values:
    """A record as a row of the table."""
    key = {name: plain(row.values[name]) for name in node.key}
    return key | {name: row.values[name] for name in node.values}

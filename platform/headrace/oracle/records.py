"""Streams without state, record by record.

Law: each record that the stream's steps let pass is a row, by itself; of a flat-mapped stream each element of its array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.description.epoch_time import moment
from headrace.oracle.fates import FILTERED, USED

if TYPE_CHECKING:
    from headrace.description import FlatMapped, NamedStream
    from headrace.oracle.log import Log, Results, Row


def records(node: NamedStream, log: Log) -> Results:
    """The records, in the order in which sinks get them."""
    from headrace.oracle.log import Results

    found = Results()
    for row in log.rows:
        found.met(row, row.fate or USED)
        if row.fate is None:
            found.rows.append({name: row.values[name] for name in node.columns} | of_record(row))
    return found


def elements(node: FlatMapped, log: Log) -> Results:
    """The elements of the records' arrays; a record without any is filtered."""
    from headrace.oracle.log import Results

    found, array = Results(), node.array.name
    for row in log.rows:
        made = [] if row.fate is not None else row.values[array] or []
        found.met(row, row.fate or (USED if made else FILTERED))
        for place, element in enumerate(made):
            numbered = {} if node.ordinal is None else {node.ordinal: place}
            found.rows.append({**row.values, array: element, **numbered, "__element": place} | of_record(row))
    return found


def of_record(row: Row) -> dict[str, Any]:
    """Where a row comes from."""
    place = {"__topic": row.topic, "__partition": row.partition, "__offset": row.offset}
    return place | {"__ingested_at": moment(row.at_ms), "__timestamp": row.event_ms, "__sequence": row.at_ms}

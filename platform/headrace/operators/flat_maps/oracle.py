"""Flat-mapped streams, record by record.

Law: each element of the array of a record that the stream's steps let pass is a row. A record without any is filtered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.oracle.fates import FILTERED, USED
from headrace.oracle.log import Log, Results
from headrace.oracle.records import of_record

if TYPE_CHECKING:
    from headrace.description import FlatMapped


def results(node: FlatMapped, log: Log) -> Results:
    """The elements of the records' arrays, in the order in which sinks get them."""
    outcome, array = Results(), node.array.name
    for row in log.rows:
        made = [] if row.fate is not None else row.values[array] or []
        outcome.met(row, row.fate or (USED if made else FILTERED))
        for place, element in enumerate(made):
            numbered = {} if node.ordinal is None else {node.ordinal: place}
            own = {array: element, **numbered, "__element": place}
            outcome.rows.append({**row.values, **own} | of_record(row))
    return outcome

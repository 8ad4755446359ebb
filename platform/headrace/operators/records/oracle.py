"""Streams without state, record by record.

Law: each record that the stream's steps let pass is a row, by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.oracle.fates import USED
from headrace.oracle.log import Log, Results
from headrace.oracle.records import of_record

if TYPE_CHECKING:
    from headrace.description import NamedStream


def results(node: NamedStream, log: Log) -> Results:
    """The records, in the order in which sinks get them."""
    outcome = Results()
    for row in log.rows:
        outcome.met(row, row.fate or USED)
        if row.fate is None:
            outcome.rows.append({name: row.values[name] for name in node.columns} | of_record(row))
    return outcome

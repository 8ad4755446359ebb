"""Distinct records, one by one.

Law: a record whose event time plus grace is at or below its stream time is late. One that lies less than `within` from a
record of its id that has passed is a duplicate. Every other record passes, in the order of the log.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from headrace.oracle.fates import LATE, USED
from headrace.oracle.log import Log, Results, Row
from headrace.oracle.records import of_record
from headrace.oracle.values import Identity, identity

if TYPE_CHECKING:
    from headrace.description.distinct import Distinct

DUPLICATE = "duplicate"


def results(node: Distinct, log: Log) -> Results:
    """The records that pass, in the order in which sinks get them."""
    outcome, passed = Results(), defaultdict[Identity, list[int]](list)
    for row in log.rows:
        of_id = passed[identity(row.values[name] for name in node.by)]
        fate = row.fate or _fate(node, row, of_id)
        outcome.met(row, fate)
        if fate == LATE:
            outcome.missed(row, row.time_ms, row.time_ms)
        if fate == USED:
            of_id.append(row.time_ms)
            outcome.rows.append({name: row.values[name] for name in node.columns} | of_record(row))
    return outcome


def _fate(node: Distinct, row: Row, passed: list[int]) -> str:
    if row.stream_ms is not None and row.time_ms + node.grace_ms <= row.stream_ms:
        return LATE
    return DUPLICATE if any(abs(row.time_ms - ms) < node.within_ms for ms in passed) else USED

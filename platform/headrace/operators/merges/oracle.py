"""Merged branches, one record after another.

Law: each side gives a row of each record that it lets pass. A record is used if a side gives a row of it; otherwise it has
the first of its fates by name.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from headrace.description.merged import LEFT, RIGHT
from headrace.oracle.fates import USED
from headrace.oracle.log import Log, Results
from headrace.oracle.records import of_record

if TYPE_CHECKING:
    from headrace.description.merged import Merged


def results(node: Merged, log: Log) -> Results:
    """The rows of both sides."""
    outcome = Results()
    fates: dict[tuple[str, int, int], set[str]] = defaultdict(set)
    for number, side in enumerate((LEFT, RIGHT)):
        for row in log.feeds[side]:
            if row.offset is not None:
                fates[row.topic, row.partition, row.offset].add(row.fate or USED)
            if row.fate is None:
                values = {name: row.values[name] for name in node.columns}
                outcome.rows.append(values | of_record(row) | {"__element": number})
    outcome.fates = {place: USED if USED in known else min(known) for place, known in fates.items()}
    return outcome

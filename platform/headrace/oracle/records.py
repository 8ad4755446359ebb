"""Named streams, record by record.

Law: each record that the stream's steps let pass is a row, by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.oracle.fates import USED
from headrace.oracle.values import moment

if TYPE_CHECKING:
    from headrace.description import NamedStream
    from headrace.oracle.log import Log, Results


def records(node: NamedStream, log: Log) -> Results:
    """The records, in the order in which sinks get them."""
    from headrace.oracle.log import Results

    found = Results()
    for row in log.rows:
        found.met(row, row.fate or USED)
        if row.fate is None:
            found.rows.append(
                {name: row.values[name] for name in node.columns}
                | {"__topic": row.topic, "__partition": row.partition, "__offset": row.offset}
                | {"__ingested_at": moment(row.at_ms), "__timestamp": row.event_ms, "__sequence": row.at_ms}
            )
    return found

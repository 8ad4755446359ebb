"""The place of the record that gives a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.description.epoch_time import moment

if TYPE_CHECKING:
    from headrace.oracle.log import Row


def of_record(row: Row) -> dict[str, Any]:
    """The columns of a row that say which record gave it."""
    place = {"__topic": row.topic, "__partition": row.partition, "__offset": row.offset}
    return place | {"__ingested_at": moment(row.at_ms), "__timestamp": row.event_ms, "__sequence": row.at_ms}

"""One place of a log: the record that is there, or why there is none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.description import is_of_kafka, written_by
from headrace.description.wording import listed
from headrace.engine.slices.log_parts import rows_of_place
from headrace.engine.slices.log_slices import whole_log
from headrace.errors import TerminalError
from headrace.lake import open_table, small_files
from headrace.log.commit_row import CommitRow
from headrace.nodes.standing.lake_facts import LakeFacts
from headrace.sequence.log_columns import ERASED

if TYPE_CHECKING:
    import datetime as dt

    from headrace.description import Topic
    from headrace.lake.paths import Lake

NOT_READ, CUT_OFF, NO_RECORD = "not_read", "cut_off", "no_record"


@dataclass(frozen=True)
class LoggedRecord:
    """A place of a log, and the record there.

    state      "record", "dead_letter" or "erased"; there is none: "not_read", "cut_off" or "no_record"
    reason     why the log cannot use the record, of what it is a replay, or why there is none
    at_ms      commit time; event_ms, stream_ms  its event time, and the stream time of its partition when it arrived
    values     its columns
    """

    topic: str
    partition: int
    offset: int
    state: str
    reason: str | None = None
    at_ms: int | None = None
    event_ms: int | None = None
    stream_ms: int | None = None
    values: Mapping[str, Any] = field(default_factory=dict)


def logged_record(lake: Lake, topic: Topic, partition: int, offset: int) -> LoggedRecord:
    """The record of a topic's log at a place. Only files that may have the offset are read.

    Raises: TerminalError when there is no log
    """
    uri = lake.log(topic.name)
    table = open_table(uri)
    if not table.exists:
        raise _no_log(topic)
    there = rows_of_place(uri, partition, offset)
    if not there:
        return LoggedRecord(topic.name, partition, offset, *_absence(lake, topic, partition, offset))
    return _of_row(topic.name, there[0])


def _no_log(topic: Topic) -> TerminalError:
    writer = written_by(topic)
    if writer is None:
        return TerminalError(
            f"The log of topic '{topic.name}' is not begun.", hint="Start its stream, then ask again."
        )
    return TerminalError(
        f"Node '{writer.name}' has no log, because no node reads it or it has not run.",
        hint="Name the topic whose record you ask for.",
    )


def _of_row(topic: str, row: Mapping[str, Any]) -> LoggedRecord:
    at_ms, event_ms, stream_ms = (_ms(row[name]) for name in ("ingested_at", "timestamp", "stream_time"))
    is_erased = row["reason"] == ERASED
    return LoggedRecord(
        topic,
        row["partition"],
        row["offset"],
        ERASED if is_erased else row["kind"],
        None if is_erased else row["reason"] or _replay(row),
        at_ms,
        event_ms,
        stream_ms,
        {**(row.get("key") or {}), **(row["value"] or {})},
    )


def _replay(row: Mapping[str, Any]) -> str | None:
    """The record of its source chain that came before a replay; None: the row is no replay."""
    if not row["replay"]:
        return None
    return f"its source {row['root_topic']} {row['root_partition']}/{row['root_offset']} was taken before"


def _ms(time: dt.datetime | None) -> int | None:
    return None if time is None else round(time.timestamp() * 1_000)


def _absence(lake: Lake, topic: Topic, partition: int, offset: int) -> tuple[str, str]:
    """Why a log has no record at a place: a state, and words."""
    if not is_of_kafka(topic):
        return NO_RECORD, "The node's log has no such row."
    state = LakeFacts(lake).log(topic.name)
    if state is None:
        return NOT_READ, "The log has read nothing yet."
    if partition not in state.partitions:
        known = listed([str(each) for each in sorted(state.partitions)]) or "none"
        return NO_RECORD, f"The log has no partition {partition}; it has {known}."
    next_offset = state.partitions[partition].next_offset
    if offset >= next_offset:
        return (
            NOT_READ,
            f"The log has not read it yet: it has read partition {partition} to offset {next_offset}.",
        )
    log = whole_log(lake.log(topic.name))
    cut = small_files.read_json(lake.cut(topic.name))
    commits = [CommitRow.from_json(text) for _, text in log.commit_rows()]
    if cut is not None and offset < commits[0].previous.get(partition, 0):
        return CUT_OFF, "It was cut off the log: opening balances stand for it."
    for entry in (json.loads(text) for _, text in log.controls(partition)):
        if entry.get("from_offset", offset + 1) <= offset < entry.get("to_offset", offset):
            return (
                NO_RECORD,
                f"The log was moved past it, from offset {entry['from_offset']} to {entry['to_offset']}.",
            )
    return NO_RECORD, (
        "Kafka had no record there when the log read it: the place has a transaction's marker, or Kafka had "
        "deleted or compacted the record."
    )

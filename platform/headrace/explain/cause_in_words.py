"""The cause of a row in words, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from headrace.description.epoch_time import moment

if TYPE_CHECKING:
    from headrace.explain.row_cause import Cause, NamedRecord, UncountedRecord

SHOWN = 20  # records of each sort in words; --json has all


def lines_of(cause: Cause, indent: str = "") -> Iterator[str]:
    """The lines of a cause, and of the causes above it."""
    yield f"{indent}{cause.node} · {values_in_words(cause.row)}"
    yield f"{indent}  {cause.state}, version {cause.version} of the table"
    if cause.timer_ms is not None:
        yield f"{indent}  a timer gave it, due at {time_in_words(cause.timer_ms)}"
    if cause.opening_records:
        yield f"{indent}  the opening balance stands for {cause.opening_records:,} records before the cut"
    if not cause.proved:
        yield f"{indent}  the log's rows alone do not make this row: older records are in the opening balance"
    yield f"{indent}  {_records(len(cause.records))} made it:"
    yield from (f"{indent}    {_made(each)}" for each in cause.records[-SHOWN:])
    yield from _more(indent, len(cause.records))
    if cause.uncounted:
        yield f"{indent}  {_records(len(cause.uncounted))} of the key did not count:"
        yield from (f"{indent}    {_missed(each)}" for each in cause.uncounted[-SHOWN:])
        yield from _more(indent, len(cause.uncounted))
    for above in cause.above:
        yield from lines_of(above, indent + "    ")


def _records(number: int) -> str:
    return "1 record" if number == 1 else f"{number:,} records"


def _more(indent: str, records: int) -> Iterator[str]:
    if records > SHOWN:
        yield f"{indent}    … and {records - SHOWN:,} earlier ones (--json has all)"


def _made(record: NamedRecord) -> str:
    side = "" if record.feed == "result" else f" ({record.feed})"
    return f"{_place(record)}{side}  {_times(record)}  {values_in_words(record.values)}{_effect(record)}"


def _effect(record: NamedRecord) -> str:
    if record.deciding is None:
        return ""
    if not record.deciding:
        return "  · without it the row is equal"
    if record.without:
        return f"  · without it {values_in_words(record.without)}"
    return "  · without it there is no such row"


def _missed(record: UncountedRecord) -> str:
    late = "" if record.late_ms is None else f" by {seconds(record.late_ms)}"
    reason = "" if record.reason is None else f": {record.reason}"
    return f"{_place(record)}  {_times(record)}  {record.fate.replace('_', ' ')}{late}{reason}"


def _place(record: NamedRecord | UncountedRecord) -> str:
    return f"{record.topic} {record.partition}/{record.offset}"


def _times(record: NamedRecord | UncountedRecord) -> str:
    return f"event {time_in_words(record.event_ms)}, stream {time_in_words(record.stream_ms)}"


def time_in_words(ms: int | None) -> str:
    """A moment for people, in UTC."""
    return "–" if ms is None else moment(ms).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def seconds(ms: int) -> str:
    """A duration for people."""
    return f"{ms / 1000:,.3f}".rstrip("0").rstrip(".") + " s"


def values_in_words(values: Mapping[str, Any]) -> str:
    """Columns and their values for people."""
    return ", ".join(f"{name}={value}" for name, value in values.items())

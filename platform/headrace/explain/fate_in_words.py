"""The fate of a record in words, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from headrace.description.durations import format_duration
from headrace.explain.cause_in_words import seconds, time_in_words, values_in_words
from headrace.explain.record_fate import NOT_FOLDED, NOT_REACHED
from headrace.fold.fates import DEAD_LETTER, ERASED, FILTERED, OPEN, USED

if TYPE_CHECKING:
    from headrace.explain.logged_record import LoggedRecord
    from headrace.explain.record_fate import NodeFate, RecordFate
    from headrace.operators.provenance import Miss

NO_ROW = (
    "no row differs without it: later records replaced it, it adds nothing, or a later step drops its row"
)
WORDS: Mapping[str, str] = {
    USED: "counts",
    OPEN: "counts in a row that may still change",
    FILTERED: "dropped",
    DEAD_LETTER: "dead letter",
    ERASED: "erased, so it counts no more",
    NOT_FOLDED: "not read by the node yet",
    NOT_REACHED: "not reached",
}


def lines_of(fate: RecordFate) -> Iterator[str]:
    """The lines of a record and its fates."""
    record = fate.record
    yield f"{record.topic} {record.partition}/{record.offset}" + _contents(record)
    if record.at_ms is None:
        yield f"  {record.reason}"
        return
    yield f"  event {time_in_words(record.event_ms)}, stream {time_in_words(record.stream_ms)}"
    if record.state == ERASED:
        yield "  Its key was erased: the log keeps its place and times alone."
    if record.state == DEAD_LETTER:
        yield f"  dead letter for every node: {record.reason}"
        yield f"  Once it can be read, bring it again: headrace redrive {record.topic}"
    if not fate.nodes:
        yield "  No node of this pipeline reads it."
    for each in fate.nodes:
        yield from _node(each, "  ")


def _contents(record: LoggedRecord) -> str:
    return f" · {values_in_words(record.values)}" if record.values else ""


def _node(fate: NodeFate, indent: str) -> Iterator[str]:
    row = "" if fate.through is None else f" (row {fate.through} of the node above)"
    yield f"{indent}{fate.title}{row}: {WORDS.get(fate.fate, fate.fate.replace('_', ' '))}{_why(fate)}"
    yield from (f"{indent}  {_miss(each)}" for each in fate.missed)
    yield from (f"{indent}  in {values_in_words(each)}" for each in fate.rows)
    if fate.fate in (USED, OPEN) and not fate.rows and fate.reason is None:
        yield f"{indent}  {NO_ROW}"
    if fate.opening_records:
        yield f"{indent}  {fate.opening_records:,} records were cut off its logs: only the opening balance knows them"
    for below in fate.below:
        yield from _node(below, indent + "  ")


def _why(fate: NodeFate) -> str:
    if fate.step is None:
        return "" if fate.reason is None else f": {fate.reason}"
    shown: Mapping[str, Any] = fate.step_values
    values = f", for {values_in_words(shown)}" if shown else ""
    return f" by {fate.step}{values}"


def _miss(miss: Miss) -> str:
    place = (
        ""
        if miss.start_ms == miss.end_ms
        else f" for {time_in_words(miss.start_ms)} to {time_in_words(miss.end_ms)}"
    )
    return (
        f"late by {seconds(miss.late_ms)}{place}; a {miss.setting} of {format_duration(miss.counts_from_ms)} "
        "or longer would have counted it"
    )

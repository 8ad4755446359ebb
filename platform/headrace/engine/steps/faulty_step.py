"""Which step of a feed raises for one record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.description import FlatMap, Select, Transform, Where, WithColumn, parse_expression
from headrace.description.feeds import Feed
from headrace.description.wording import a_value
from headrace.fold.fates import DEAD_LETTER, FILTERED
from headrace.sequence.operator_rows import REFUSED
from headrace.spark.row_steps import RAW, applied, column_of, rows_before

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from headrace.description import Step, Topic
    from headrace.engine.steps.step_trials import Trials


@dataclass(frozen=True)
class Part:
    """A part of a step that can be evaluated by itself.

    named   as errors name it
    rows    what it makes of the rows before its step
    before  these rows, if an earlier step may have refused them
    """

    named: str
    rows: DataFrame
    before: DataFrame | None


def fate_and_reason(
    feed: Feed, topic: str, log: DataFrame, raised: str, work: Trials, likely: int | None
) -> tuple[str, str | None, int | None]:
    """The fate of a record whose steps raise, the reason, and the number of the part that is at fault.

    In: log     the row of the log
        raised  what the steps say when all are evaluated
        likely  the number of the part at fault, as far as can be guessed
    """
    parts = _parts_of(feed, topic, log)
    at, told = (0, raised) if len(parts) == 1 else _first_raising(parts, work, likely)
    if at is None:
        return DEAD_LETTER, f"the steps together: {raised}", None
    part, marks = parts[at], (REFUSED, RAW["tombstone"])
    if part.before is not None and _is_filtered(work.rows(part.before.select(*marks))):
        return FILTERED, None, at
    return DEAD_LETTER, f"{part.named}: {told}", at


def _first_raising(parts: Sequence[Part], work: Trials, likely: int | None) -> tuple[int | None, str]:
    """The number of the first part that raises, and what it says; None if none does. Two jobs if it is the likely one."""
    # Parts before `low` do not raise; the one at `high` or one before it does, if any does.
    low, high, said = 0, len(parts), ""
    guesses = [] if likely is None else [likely, likely - 1]
    while low < high:
        guess = guesses.pop(0) if guesses else -1
        middle = guess if low <= guess < high else (low + high) // 2
        told = work.raised([part.rows for part in parts[low : middle + 1]])
        if told is None:
            low = middle + 1
        else:
            high, said = middle, told
    return (None if high == len(parts) else high), said


def _is_filtered(rows: Sequence[Row]) -> bool:
    (row,) = rows
    return bool(row[REFUSED]) and not row[RAW["tombstone"]]


def _parts_of(feed: Feed, topic: str, log: DataFrame) -> Sequence[Part]:
    branch = next(branch for branch in feed.stream.branches if branch.topic.name == topic)
    before, filters, parts = (
        rows_before(log, branch.topic, feed.stream, headers=feed.reads_headers),
        False,
        list[Part](),
    )
    for step in branch.steps:
        parts += [
            Part(named, rows, before if filters else None)
            for named, rows in _evaluated(step, before, branch.topic)
        ]
        before, filters = applied(before, step, branch.topic), filters or isinstance(step, Where)
    conditions = [part for sql in feed.conditions for part in _evaluated(Where(sql), before, branch.topic)]
    return [*parts, *(Part(named, rows, before if filters else None) for named, rows in conditions)]


def _evaluated(step: Step, before: DataFrame, topic: Topic) -> Iterator[tuple[str, DataFrame]]:
    """The parts of a step that can raise, by name, with what each makes of rows."""
    match step:
        case Where(sql):
            yield f"where({a_value(sql)})", before.select(column_of(sql, topic))
        case FlatMap(_, sql):
            yield f"flat_map({a_value(sql)})", before.select(column_of(sql, topic))
        case WithColumn(name, sql):
            yield f"with_column({name!r}, {a_value(sql)})", before.select(column_of(sql, topic))
        case Select(expressions):
            for sql in expressions:
                if parse_expression(sql, "select").source is None:
                    yield f"select({a_value(sql)})", before.select(column_of(sql, topic))
        case Transform(function):
            name = getattr(function, "__name__", None) or repr(function)
            yield f"transform({name})", applied(before, step, topic)

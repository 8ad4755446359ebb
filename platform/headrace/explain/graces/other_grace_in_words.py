"""The answer to `what-if` in words, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.description.durations import format_duration
from headrace.explain.cause_in_words import time_in_words, values_in_words
from headrace.explain.graces.grace_curve import wait_in_words

if TYPE_CHECKING:
    from headrace.explain.graces.grace_curve import GraceCurve
    from headrace.explain.graces.other_grace import WhatIf
    from headrace.explain.tables.compared_rows import DifferingRow


def lines_of(answer: WhatIf) -> Iterator[str]:
    """The lines of an answer."""
    yield (
        f"{answer.node} with a grace of {format_duration(answer.other_ms)}, "
        f"in place of {format_duration(answer.grace_ms)}"
    )
    if answer.since is not None:
        since = time_in_words(round(answer.since.timestamp() * 1_000))
        yield f"  the log was cut: windows that begin after {since} are compared"
    counted = answer.late - answer.late_then
    more = f"{abs(counted):,} {'more' if counted >= 0 else 'fewer'} would count"
    yield f"  late records: {answer.late:,} of {answer.records:,} now, {answer.late_then:,} then: {more}"
    if answer.later_ms is not None and answer.later_p99_ms is not None:
        later = f"median {_later(answer.later_ms)}, 99th percentile {_later(answer.later_p99_ms)}"
        yield f"  results of the {answer.windows:,} windows that are final with both: {later}"
    if answer.waiting or answer.waiting_now:
        number, state = (
            (answer.waiting, "final now, and still open then")
            if answer.waiting
            else (answer.waiting_now, "still open now, and final then")
        )
        yield f"  windows that are {state}: {number:,}"
    differences = answer.differences
    yield f"  windows that would differ: {differences.total:,}"
    for each in differences.differing:
        yield from (f"    {line}" for line in lines_of_row(each))
    if differences.total > len(differences.differing):
        yield "    …"


def lines_of_curve(curve: GraceCurve) -> Iterator[str]:
    """The lines of a curve: a grace each, with the records that it leaves incomplete, and what results wait."""
    yield f"{curve.node}: {curve.records:,} records belong to windows. {curve.in_words}"
    yield f"  {'grace':24}  {'complete':>9}  {'incomplete':>10}  median wait of results"
    for point in sorted({*curve.points, curve.more}, key=lambda each: each.grace_ms):
        share = point.complete / curve.records if curve.records else 1
        wait = "no window would be final" if point.wait_ms is None else wait_in_words(point.wait_ms)
        mark = "  ← now" if point is curve.now else ""
        incomplete = curve.records - point.complete
        yield f"  {format_duration(point.grace_ms):24}  {share:>9.3%}  {incomplete:>10,}  {wait}{mark}"


def lines_of_row(row: DifferingRow, now: str = "now ", then: str = "then") -> Iterator[str]:
    """A row that differs: what it is now, and what it is then."""
    yield f"{now} {'no such row' if row.before is None else values_in_words(row.before)}"
    yield f"{then} {'no such row' if row.after is None else values_in_words(row.after)}"


def _later(ms: int) -> str:
    return "as now" if not ms else f"{format_duration(abs(ms))} {'later' if ms > 0 else 'sooner'}"

"""`backfill_equals_stream`: each day, recomputed from the log in one go, equals what the stream wrote.

Law: a day passes when neither side has a row that the other lacks. A day that differed and was replaced by a
backfill still fails: the stream had written something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.quality.claims import Check, Finding, at_most, nothing_to_judge
from headrace.quality.words import counted, joined, short

if TYPE_CHECKING:
    from headrace.lifecycle.backfills.backfill_plan import DayVerdict
    from headrace.quality.claims import Figures

NAME = "backfill_equals_stream"
ROW_CHARACTERS, EXAMPLES = 200, 2


def backfill_equals_stream(
    table: str, verdicts: Sequence[DayVerdict] | str, *, log_intact: bool = True
) -> Check:
    """The check of a node's days.

    In: verdicts    text instead of verdicts says why there are none; the check then fails
        log_intact  False: the log does not hold what the node read, so nothing may be swapped in from it
    """
    if isinstance(verdicts, str):
        return nothing_to_judge(NAME, verdicts, passes=False)
    if not verdicts:
        return nothing_to_judge(NAME, f"{table} has no day with a closed window yet: nothing to compare.")
    figures: list[Figures] = [
        {
            "day": v.what,
            "rows_stored": v.rows_stored,
            "rows_recomputed": v.rows_recomputed,
            "rows_differing": differing_rows(v),
        }
        for v in verdicts
    ]
    claim = at_most(figures, "rows_differing", 0)
    return Check(NAME, claim, lambda equal: _finding(table, verdicts, equal, log_intact))


def differing_rows(verdict: DayVerdict) -> int:
    """The rows that only one side has; never 0 for a day that is not equal."""
    return 0 if verdict.equal else max(1, verdict.rows_differing)


def _finding(table: str, verdicts: Sequence[DayVerdict], equal: bool, log_intact: bool) -> Finding:
    return Finding(
        _equal(table, verdicts) if equal else _differs(table, verdicts, log_intact), _numbers(verdicts)
    )


def _numbers(verdicts: Sequence[DayVerdict]) -> dict[str, int | float | str]:
    differing = [v for v in verdicts if not v.equal]
    return {
        "days": len(verdicts),
        "days_differing": len(differing),
        "rows_recomputed": sum(v.rows_recomputed for v in verdicts),
        "rows_stored": sum(v.rows_stored for v in verdicts),
        "rows_differing": sum(map(differing_rows, differing)),
    }


def _equal(table: str, verdicts: Sequence[DayVerdict]) -> str:
    days = f"{counted(len(verdicts), 'day')} ({_span(verdicts)})"
    rows = counted(sum(v.rows_recomputed for v in verdicts), "row")
    equal = "equals" if len(verdicts) == 1 else "equal"
    return f"Recomputed from the log, {days} with {rows} {equal} row for row what {table} holds."


def _differs(table: str, verdicts: Sequence[DayVerdict], log_intact: bool) -> str:
    differing = [v for v in verdicts if not v.equal]
    waiting = [v.what for v in differing if not v.swapped]
    words = [f"{v.what} in {counted(differing_rows(v), 'row')}" for v in differing]
    examples = [short(text, ROW_CHARACTERS) for v in differing for text in v.first_differences]
    first = f", first {joined(examples[:EXAMPLES])}" if examples else ""
    if not log_intact:
        fix = "backfill nothing before every_offset_accounted_for holds: the log is not what the node read"
    elif waiting:
        fix = f"backfill {joined(waiting)} to swap in the recomputed rows"
    else:
        fix = "the recomputed rows were swapped in; look in the table's history for who had changed them"
    which = f"{len(differing):,} of {counted(len(verdicts), 'day')} of {table}"
    differ = "differs" if len(differing) == 1 else "differ"
    return f"{which} {differ} from the log: {joined(words)}{first}; {fix}."


def _span(verdicts: Sequence[DayVerdict]) -> str:
    days = sorted(v.what for v in verdicts)
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"

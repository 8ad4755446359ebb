"""The verdict of an audit in words, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.explain.cause_in_words import lines_of as lines_of_cause
from headrace.explain.cause_in_words import values_in_words

if TYPE_CHECKING:
    from headrace.explain.tables.audited_table import Audit, AuditedRow


def lines_of(audit: Audit) -> Iterator[str]:
    """The lines of a verdict, and of each example with its causes."""
    if audit.is_equal:
        yield f"{audit.against} has the {audit.rows:,} rows that the log says for {audit.node}."
    else:
        yield (
            f"{audit.against} is not what the log says for {audit.node}: {audit.wrong:,} rows are wrong, "
            f"{audit.missing:,} are missing, {audit.surplus:,} are surplus; {audit.equal:,} of {audit.rows:,} are right."
        )
    if audit.not_final:
        yield f"  {audit.not_final:,} rows of windows that are not final yet were not judged"
    if audit.unknown:
        yield f"  not compared, for the table lacks them: {', '.join(audit.unknown)}"
    for row in audit.examples:
        yield from (f"  {line}" for line in _row(row))


def _row(row: AuditedRow) -> Iterator[str]:
    yield row.kind
    yield f"  log:   {'no such row' if row.log is None else values_in_words(row.log)}"
    yield f"  table: {'no such row' if row.table is None else values_in_words(row.table)}"
    for cause in row.causes:
        yield from lines_of_cause(cause, "    ")

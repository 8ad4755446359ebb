"""Running totals, record by record.

Law: each record that counts is added to the totals of its group, in the order of the log.

`rows_at` gives the rows of a side of a join (see `oracle.relations`). A time limit on the totals asks for `refused`,
`starts`, `updated` and `value_of` (see `operators.time_limits.oracle_updates`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.oracle import fates
from headrace.oracle.aggregates import Group, updated
from headrace.oracle.fates import USED
from headrace.oracle.log import Log, Results, Row, Values
from headrace.oracle.relations import Grown, Rows, Version, rows_through
from headrace.oracle.values import Identity, identity

if TYPE_CHECKING:
    from headrace.description import RunningAggregate

__all__ = ["refused", "results", "rows_at", "starts", "updated", "value_of"]


def results(node: RunningAggregate, log: Log) -> Results:
    """The totals of the logs; each row has the position of the last record of its group."""
    outcome = Results()
    for row in log.rows:
        outcome.met(row, refused(node, row) or USED)
    for group in (of.group for of in _groups(node, log.rows).values()):
        assert group.last is not None
        names = ("__sequence", "__topic", "__partition", "__offset")
        place = dict(zip(names, group.last.place, strict=True))
        worth = {"__timestamp": group.event_ms, "__records": group.records}
        outcome.rows.append({**group.shown(), **place, **worth})
    return outcome


def rows_at(node: RunningAggregate, log: Log, upto_ms: int, part: str) -> Rows:
    """The totals after a log commit, each with the positions of its records."""
    groups = _groups(node, rows_through(log, upto_ms, part))
    return {key: Version(tuple(of.places), of.group.shown()) for key, of in groups.items()}


def refused(node: RunningAggregate, row: Row) -> str | None:
    """The fate of a record that does not count; None: it counts."""
    return fates.refused(row, node.aggregates)


def starts(node: RunningAggregate, row: Row) -> list[int]:
    """One entry per group: there are no windows, and 0 stands for none."""
    return [0]


def value_of(node: RunningAggregate, group: Group, start: int) -> Values:
    """The group as a row."""
    return group.shown()


def _groups(node: RunningAggregate, rows: list[Row]) -> dict[Identity, Grown]:
    groups: dict[Identity, Grown] = {}
    for row in rows:
        if refused(node, row) is None:
            groups.setdefault(identity(row.values[name] for name in node.by), Grown(node)).add(row)
    return groups

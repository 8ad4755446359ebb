"""Running aggregates, record by record.

Law: every record that counts is in its group's totals; the log's order is commit time, topic, partition, offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.oracle.aggregates import Group
from headrace.oracle.fates import USED, refused
from headrace.oracle.log import Log, Results
from headrace.oracle.values import Identity, identity

if TYPE_CHECKING:
    from headrace.description import RunningAggregate


def totals(node: RunningAggregate, log: Log) -> Results:
    """The totals that the logs lead to, each at the place of its last record."""
    found = Results()
    groups: dict[Identity, Group] = {}
    for row in log.rows:
        fate = refused(row, node.aggregates)
        if fate is None:
            key = identity(row.values[name] for name in node.by)
            groups.setdefault(key, Group(node.by, node.aggregates)).add(row)
        found.met(row, fate or USED)
    for group in groups.values():
        assert group.last is not None
        names = ("__sequence", "__topic", "__partition", "__offset")
        place = dict(zip(names, group.last.place, strict=True))
        worth = {"__timestamp": group.event_ms, "__records": group.records}
        found.rows.append({**group.shown(), **place, **worth})
    return found

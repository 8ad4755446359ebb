"""The changes of a table: a row for each key and log commit that alters its value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.description.epoch_time import moment
from headrace.description.table_changes import KEY_DELETED, grows
from headrace.oracle.homes import home_of
from headrace.oracle.log import Log, Results, Values
from headrace.oracle.relations import changes, relation
from headrace.oracle.values import Identity, identity

if TYPE_CHECKING:
    from headrace.description import TableChanges


def results(node: TableChanges, log: Log) -> Results:
    """Each change as a row: what the key is worth after the commit, or nulls beside the key; and the fates of records."""
    if grows(node.changed):
        return _changed_windows(node, log)
    found = relation(node.changed, log)
    found.rows = []
    for (_, at_ms), (before, after) in changes(node.changed, log).items():
        if before and after and identity(before.values()) == identity(after[name] for name in before):
            continue
        shown = after or {name: value for name, value in (before or {}).items() if name in node.key}
        own = {KEY_DELETED: after is None, "__sequence": at_ms, "__ingested_at": moment(at_ms)}
        found.rows.append(dict.fromkeys(node.columns) | shown | own)
    return found


def _changed_windows(node: TableChanges, log: Log) -> Results:
    """Each change of a window as a row: what it is worth after a log commit; its key alone if it is there no more."""
    of, home = node.changed, home_of(node.changed)
    found: Results = home.results(of, log)
    found.rows, found.open = [], []
    before: dict[tuple[Identity, int | None], Values] = {}
    for at_ms in sorted({row.at_ms for row in log.rows if row.fate is None}):
        then = home.results(of, log.through(at_ms))
        rows = [*then.rows, *then.open]
        now = {(identity(row[n] for n in of.key), row.get("__partition")): row for row in rows}
        for key in {*before, *now}:
            old, new = before.get(key), now.get(key)
            if old and new and identity(old[n] for n in of.columns) == identity(new[n] for n in of.columns):
                continue
            shown = new or {name: value for name, value in (old or {}).items() if name in of.key}
            own = {KEY_DELETED: new is None, "__sequence": at_ms, "__ingested_at": moment(at_ms)}
            columns = {name: value for name, value in shown.items() if name in of.columns}
            found.rows.append(dict.fromkeys(node.columns) | columns | own)
        before = now
    return found

"""The changes of windows that records make: the windows after each log commit, compared with those before it.

Law: a commit changes a window that is new under its bounds, or whose aggregates it alters. A session that has grown is gone
under its old bounds. A window that closes does not change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.description import SlidingWindows
from headrace.description.table_changes import KEY_DELETED
from headrace.oracle.log import Log, Results, Values
from headrace.oracle.sessions import sessions
from headrace.oracle.sliding import sliding
from headrace.oracle.values import Identity, identity, moment

if TYPE_CHECKING:
    from headrace.description import TableChanges, WindowedAggregate


def changed_windows(node: TableChanges, of: WindowedAggregate, log: Log) -> Results:
    """Each change of a window as a row: what it is worth after a log commit; its key alone if it is there no more."""
    told = sliding if isinstance(of.window, SlidingWindows) else sessions
    found = told(of, log)
    found.rows, found.open = [], []
    before: dict[tuple[Identity, int | None], Values] = {}
    for at_ms in sorted({row.at_ms for row in log.rows if row.fate is None}):
        then = told(of, log.through(at_ms))
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

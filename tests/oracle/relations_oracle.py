"""Tables, joins and groups once more, in plain Python: the rows after each log commit, and the changes between them.

Nothing here is shared with the engine. A *version* of a row is its value and what it was made of: a row has changed if it
is made of other records, even if its value is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.oracle.tables_oracle import Change, Value

Key = tuple[Any, ...]
Version = tuple[object, Value]  # what it is made of, and its value
Rows = dict[Key, Version]
Log = Mapping[str, list[Change]]


def table(
    changes: Iterable[Change], order_by: str = "position", keeps: Callable[[Value], bool] = lambda value: True
) -> Rows:
    """By key the last record, in the order of the log or of timestamps; none where that deletes or is not kept."""
    rows: Rows = {}
    for change in sorted(changes, key=lambda c: (c.ts, c.at) if order_by == "timestamp" else (0, c.at)):
        if change.dead or change.key is None:
            continue
        rows.pop((change.key,), None)
        if change.value is not None and keeps(change.value):
            rows[(change.key,)] = (change.at, change.value)
    return rows


def join(left: Rows, right: Rows, on: Callable[[Key, Value], Key | None], how: str) -> Rows:
    """Each left row with the value of the right row that it refers to, under `right`; None if there is none."""
    rows: Rows = {}
    for key, (made_of, value) in left.items():
        refers = on(key, value)
        match = None if refers is None or None in refers else right.get(refers)
        if match is not None or how == "left":
            rows[key] = ((made_of, match and match[0]), {**value, "right": match and match[1]})
    return rows


def grouped(rows: Rows, by: Callable[[Key, Value], Any], finish: Callable[[list[Value]], Value]) -> Rows:
    """By group the aggregates of its rows; a row without a group counts nowhere."""
    members: dict[Any, dict[Key, Version]] = {}
    for key, version in rows.items():
        group = by(key, version[1])
        if group is not None:
            members.setdefault(group, {})[key] = version
    return {
        (group,): (
            sorted(((key, made_of) for key, (made_of, _) in of.items()), key=repr),
            finish([value for _, value in of.values()]),
        )
        for group, of in members.items()
    }


def changes(
    log: Log, relation: Callable[[Log, int], Rows], commits: Iterable[int] = ()
) -> dict[tuple[Key, int], tuple[Value | None, Value | None]]:
    """By key and commit time of each change the value before and the value after; None: no row.

    In: relation  of the log through a commit time
        commits   more commit times, at which the relation may change without a record
    """
    found = {}
    then: Rows = {}
    for at in sorted({*commits, *(change.at[0] for some in log.values() for change in some)}):
        now = relation({topic: [c for c in some if c.at[0] <= at] for topic, some in log.items()}, at)
        for key in {*then, *now}:
            if then.get(key, (None,))[0] != now.get(key, (None,))[0]:
                found[key, at] = (_value(then.get(key)), _value(now.get(key)))
        then = now
    return found


def _value(version: Version | None) -> Value | None:
    return None if version is None else version[1]

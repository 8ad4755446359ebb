"""The updates that a time limit holds back, and the limits in force: by stream time and by the wall clock alike.

The oracle of what is suppressed says which rows it refuses (`refused`), the starts of the windows that a row enters
(`starts`), what an entry is worth after a row (`updated`), and which row that is (`value_of`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.description.suppression import SPILL
from headrace.oracle.fates import LATE, TOMBSTONE, USED
from headrace.oracle.homes import home_of
from headrace.oracle.log import Row, Values
from headrace.oracle.values import Identity, identity

if TYPE_CHECKING:
    from headrace.description import Suppressed

Entry = tuple[Identity, int]  # the key, and the window's start (0: no window)
BOUNDS = ("max_records", "max_bytes")


def updates_of(node: Suppressed, row: Row) -> tuple[str, list[Entry]]:
    """The fate of a row, and the entries that it updates, one after the other."""
    of, home = node.updated, home_of(node.updated)
    fate: str | None = home.refused(of, row)
    if fate is None and row.event_ms is None:
        fate = TOMBSTONE  # it comes before all rows of its partition, so it deletes none
    if fate is not None:
        return fate, []
    key = identity(row.values[name] for name in node.by)
    starts = home.starts(of, row)
    return (USED if starts else LATE), [(key, start) for start in starts]


def updated(node: Suppressed, worth: dict[Entry, Any], entry: Entry, row: Row, *, keep: bool = True) -> int:
    """Make an update part of what its entry is worth, if that is kept; the update's timestamp."""
    of, home = node.updated, home_of(node.updated)
    worth[entry], event_ms = home.updated(of, worth.get(entry), row, keep=keep)
    return int(event_ms)


def value_of(node: Suppressed, entry: Entry, worth: Any) -> Values:
    """A row that leaves."""
    value: Values = home_of(node.updated).value_of(node.updated, worth, entry[1])
    return value


def first_limits(node: Suppressed) -> dict[str, int | None]:
    """The limits that the description sets."""
    of = node.policy
    return {
        "limit_ms": of.limit_ms,
        "max_records": of.bound.max_records,
        "max_bytes": of.bound.max_bytes,
    }


def limits_of_entry(node: Suppressed, text: str) -> dict[str, int | None] | None:
    """The limits that a control row sets for a node; None: it is another's."""
    entry = json.loads(text)
    return dict(entry["limits"]) if entry.get("node") == node.name else None


def can_have(node: Suppressed, limits: Mapping[str, int | None], asked: Mapping[str, int | None]) -> bool:
    """No negative limit, no bound below one, none where none is described, and not every bound away."""
    if "limit_ms" in asked and (asked["limit_ms"] is None or asked["limit_ms"] < 0):
        return False
    bounds = {name: asked[name] for name in BOUNDS if name in asked}
    if any(value is not None and value < 1 for value in bounds.values()):
        return False
    after = {name: limits[name] for name in BOUNDS} | bounds
    bounded = node.policy.bound.when_full != SPILL
    return not bounds or (bounded and any(value is not None for value in after.values()))

"""Tables, joins, groups and aggregates of streams: their rows after a log commit, and the changes between commits.

A *version* of a row is its value and what it was made of. A row has changed if it is made of other records, even if its
value is the same. The rows of `changes()` are those changes that alter a value.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from headrace.description.feeds import RESULT, leaves_of
from headrace.oracle.aggregates import Aggregated, Group
from headrace.oracle.fates import LATE, USED
from headrace.oracle.homes import home_of
from headrace.oracle.log import AT_THE_END, Log, Place, Results, Row, Values
from headrace.oracle.values import Identity

if TYPE_CHECKING:
    from headrace.description import Relation


class Version(NamedTuple):
    """A row, and what it was made of."""

    made_of: object
    value: Values


Rows = dict[Identity, Version]
Change = tuple[Values | None, Values | None]  # the row before and the row after; None: there is none


def relation(node: Relation, log: Log) -> Results:
    """The current rows, and what has become of each record."""
    found = Results(rows=[version.value for version in rows_at(node, log, AT_THE_END).values()])
    met: dict[tuple[str, int, int], set[str]] = defaultdict(set)
    for part, leaf in leaves_of(node).items():
        for row in log.feeds[part]:
            if row.offset is not None:
                met[row.topic, row.partition, row.offset].add(fate_of(leaf, row))
    # A record that two sides read is used if one of them uses it.
    found.fates = {place: USED if USED in fates else min(fates) for place, fates in met.items()}
    return found


def changes(node: Relation, log: Log) -> dict[tuple[Identity, int], Change]:
    """By key and commit time of each change the row before and the row after."""
    found: dict[tuple[Identity, int], Change] = {}
    then: Rows = {}
    for at_ms in _commits(node, log):
        now = rows_at(node, log, at_ms)
        for key in {*then, *now}:
            before, after = then.get(key), now.get(key)
            if (before and before.made_of) != (after and after.made_of):
                found[key, at_ms] = (before and before.value, after and after.value)
        then = now
    return found


def _commits(node: Relation, log: Log) -> list[int]:
    """The commits that may change rows: those with rows and, where stream time alone closes something, all others."""
    if node.longest_wait_ms:
        return [at_ms for at_ms, _ in log.commits]
    return sorted({row.at_ms for rows in log.feeds.values() for row in rows})


def rows_at(node: Relation, log: Log, upto_ms: int, part: str = RESULT) -> Rows:
    """The rows by key after a log commit."""
    rows: Rows = home_of(node).rows_at(node, log, upto_ms, part)
    return rows


def rows_through(log: Log, upto_ms: int, part: str) -> list[Row]:
    """The rows of a feed through a log commit."""
    return [row for row in log.feeds[part] if row.at_ms <= upto_ms]


def fate_of(leaf: Relation, row: Row) -> str:
    """The fate of a record of a table, of totals or of windows."""
    home = home_of(leaf)
    fate: str | None = home.refused(leaf, row)
    return fate or (USED if home.starts(leaf, row) else LATE)


class Grown:
    """A group, and the places of its records."""

    def __init__(self, node: Aggregated) -> None:
        """Nothing is added yet."""
        self.group, self.places = Group(node.by, node.aggregates), list[Place]()

    def add(self, row: Row) -> None:
        """Add a record."""
        self.group.add(row)
        self.places.append(row.place)

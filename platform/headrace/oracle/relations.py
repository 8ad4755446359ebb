"""Tables, joins, groups and aggregates of streams: their rows after a log commit, and the changes between commits.

A *version* of a row is its value and what it was made of. A row has changed if it is made of other records, even if its
value is the same. The rows of `changes()` are those changes that alter a value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from headrace.description import (
    Join,
    Refined,
    RunningAggregate,
    SlidingWindows,
    Table,
    TableAggregate,
    WindowedAggregate,
)
from headrace.description.epoch_time import moment
from headrace.description.feeds import LEFT, RESULT, RIGHT, ROWS, below, leaves_of
from headrace.description.join import LEFT as LEFT_JOIN
from headrace.description.join import OUTER
from headrace.description.table_changes import KEY_DELETED, grows
from headrace.oracle import windows
from headrace.oracle.aggregates import Group, Total, usable
from headrace.oracle.fates import LATE, USED, refused
from headrace.oracle.log import AT_THE_END, Log, Pair, Place, Results, Row, Values
from headrace.oracle.sessions import sessions
from headrace.oracle.sliding import sliding
from headrace.oracle.tables import latest, shown
from headrace.oracle.tables import refused as refused_by_the_table
from headrace.oracle.values import Identity, identity, plain

if TYPE_CHECKING:
    from headrace.description import Relation, TableChanges


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
                met[row.topic, row.partition, row.offset].add(_fate(leaf, row))
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


def changed_rows(node: TableChanges, log: Log) -> Results:
    """Each change as a row: what the key is worth after the commit, or nulls beside the key; and the fates of records."""
    if grows(node.changed):
        return changed_windows(node, node.changed, log)
    found = relation(node.changed, log)
    found.rows = []
    for (_, at_ms), (before, after) in changes(node.changed, log).items():
        if before and after and identity(before.values()) == identity(after[name] for name in before):
            continue
        shown = after or {name: value for name, value in (before or {}).items() if name in node.key}
        own = {KEY_DELETED: after is None, "__sequence": at_ms, "__ingested_at": moment(at_ms)}
        found.rows.append(dict.fromkeys(node.columns) | shown | own)
    return found


def _commits(node: Relation, log: Log) -> list[int]:
    """The commits that may change rows: those with rows and, where stream time alone closes something, all others."""
    if node.longest_wait_ms:
        return [at_ms for at_ms, _ in log.commits]
    return sorted({row.at_ms for rows in log.feeds.values() for row in rows})


def rows_at(node: Relation, log: Log, upto_ms: int, part: str = RESULT) -> Rows:
    """The rows by key after a log commit."""
    match node:
        case Join():
            return _joined(node, log, upto_ms, part)
        case TableAggregate():
            return _grouped(node, rows_at(node.table, log, upto_ms, below(part, ROWS)))
        case Refined():
            return _refined(node, rows_at(node.table, log, upto_ms, below(part, ROWS)), log)
    rows = [row for row in log.feeds[part] if row.at_ms <= upto_ms]
    match node:
        case Table():
            return {key: Version(row.place, shown(node, row)) for key, row in latest(node, rows).items()}
        case RunningAggregate():
            return _totals(node, rows)
        case WindowedAggregate():
            return _windows(node, rows, log, upto_ms)
    raise AssertionError(f"a relation of another kind: {type(node)}")


def _joined(node: Join, log: Log, upto_ms: int, part: str) -> Rows:
    """Each left row with the right row that it refers to; of a full outer join right rows by themselves, too."""
    left = rows_at(node.left, log, upto_ms, below(part, LEFT))
    right = rows_at(node.right, log, upto_ms, below(part, RIGHT))
    pairs: dict[Identity, tuple[Version | None, Version | None]] = {}
    for key, version in left.items():
        refers = [version.value[name] for name in node.on]
        # A full outer join has one row for each key, and null is a key: two rows of it could not be told apart.
        refers_to_none = None in refers and node.how != OUTER
        match = None if refers_to_none else right.get(identity(refers))
        if match is not None or node.how in (LEFT_JOIN, OUTER):
            pairs[key] = version, match
    if node.how == OUTER:
        pairs |= {key: (None, version) for key, version in right.items() if key not in left}
    both = [(one and one.value, other and other.value) for one, other in pairs.values()]
    return {
        key: Version((one and one.made_of, other and other.made_of), value)
        for (key, (one, other)), value in zip(pairs.items(), _values(node, both, log), strict=True)
    }


def _values(node: Join, pairs: list[Pair], log: Log) -> list[Values]:
    """The rows of pairs: the key, then what is selected."""
    repeated = _repeated(node)
    if repeated is None:
        assert log.compute is not None, "SQL computes values of this join: pass `compute`"
        computed = log.compute(node, pairs)
        return [key_of_pair(node, pair) | dict(value) for pair, value in zip(pairs, computed, strict=True)]
    found = []
    for left, right in pairs:
        row = key_of_pair(node, (left, right))
        for name, side, column in repeated:
            own = left if side == LEFT else right
            row[name] = own and own[column]
        found.append(row)
    return found


def key_of_pair(node: Join, pair: Pair) -> Values:
    """The key of a join's row: that of the left row or, if there is none, that of the right one."""
    left, right = pair
    if left is not None:
        return {name: left[name] for name in node.key}
    assert right is not None
    return {name: right[other] for name, other in zip(node.key, node.right.key, strict=True)}


def _repeated(node: Join) -> list[tuple[str, str, str]] | None:
    """Each value's name, and the side and column that it repeats; None: SQL computes one."""
    if node.selection is None:
        return [(n, LEFT, n) for n in node.left.values] + [(n, RIGHT, n) for n in node.right.values]
    found = []
    columns = {
        side: {name.lower(): name for name in of.columns}
        for side, of in ((LEFT, node.left), (RIGHT, node.right))
    }
    for expression in node.selected:
        if expression.name in node.key:
            continue
        *named, name = expression.repeats or ("",)
        side = named[0] if named else LEFT if name.lower() in columns[LEFT] else RIGHT
        if len(named) > 1 or side not in columns or name.lower() not in columns[side]:
            return None
        found.append((expression.name, side, columns[side][name.lower()]))
    return found


def _refined(node: Refined, rows: Rows, log: Log) -> Rows:
    """The rows that pass, with the columns that the steps make: made of what they were made of before."""
    values = [version.value for version in rows.values()]
    if node.is_computed:
        assert log.refine is not None, "SQL computes columns of this table: pass `refine`"
        made = log.refine(node, values)
    else:
        made = [{name: value[origin] for name, origin in node.origins.items() if origin} for value in values]
    return {
        key: Version(version.made_of, {name: version.value[name] for name in node.key} | dict(value))
        for (key, version), value in zip(rows.items(), made, strict=True)
        if value is not None
    }


def _grouped(node: TableAggregate, rows: Rows) -> Rows:
    """By group the aggregates of its rows; what does not fit counts as null."""
    members: dict[Identity, list[tuple[Identity, Version]]] = defaultdict(list)
    for key in sorted(rows):  # where a stream goes by position, a table goes by its key
        version = rows[key]
        group = [version.value[name] for name in node.by]
        members[identity(group)].append((key, version))
    found = {}
    for group_key, own in members.items():
        by = {name: plain(own[0][1].value[name]) for name in node.by}
        worth = {}
        for name, aggregate in node.aggregates:
            total = Total(aggregate)
            for _, version in own:
                value, *ranks = [version.value[column] for column in aggregate.columns] or [True]
                total.add(value if usable(value, aggregate) else None, *ranks)
            worth[name] = total.value()
        made_of = frozenset((key, version.made_of) for key, version in own)
        found[group_key] = Version(made_of, by | worth)
    return found


class _Grown:
    """A group, and the places of its records."""

    def __init__(self, node: RunningAggregate | WindowedAggregate) -> None:
        self.group, self.places = Group(node.by, node.aggregates), list[Place]()

    def add(self, row: Row) -> None:
        self.group.add(row)
        self.places.append(row.place)


def _totals(node: RunningAggregate, rows: Iterable[Row]) -> Rows:
    groups: dict[Identity, _Grown] = {}
    for row in rows:
        if refused(row, node.aggregates) is None:
            groups.setdefault(identity(row.values[name] for name in node.by), _Grown(node)).add(row)
    return {key: Version(tuple(of.places), of.group.shown()) for key, of in groups.items()}


def _windows(node: WindowedAggregate, rows: Iterable[Row], log: Log, upto_ms: int) -> Rows:
    """Windows that records have entered; with `suppress` those that are closed."""
    groups: dict[tuple[Identity, int], _Grown] = {}
    for row in rows:
        if refused(row, node.aggregates) is None:
            for start in windows.starts(node, row):
                key = identity(row.values[name] for name in node.by), start
                groups.setdefault(key, _Grown(node)).add(row)
    lowest = max((ms for at_ms, ms in log.lowest if at_ms <= upto_ms), default=-1)
    found: Rows = {}
    for (key, start), of in groups.items():
        closed = windows.end_of(node, start) + node.grace_ms <= lowest
        if closed or node.suppression is None:
            made_of = tuple(of.places) if node.suppression is None else "closed"
            value = windows.shown(node, of.group, start)
            own = {name: value[name] for name in node.columns}
            found[(*key, *identity([own["window_start"]]))] = Version(made_of, own)
    return found


def _fate(leaf: Relation, row: Row) -> str:
    match leaf:
        case Table():
            return refused_by_the_table(leaf, row) or USED
        case RunningAggregate():
            return refused(row, leaf.aggregates) or USED
        case WindowedAggregate():
            fate = refused(row, leaf.aggregates)
            return fate or (USED if windows.starts(leaf, row) else LATE)
    raise AssertionError(f"a relation of another kind: {type(leaf)}")


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

"""Joins of tables, groups of tables, and tables after steps: their rows after a log commit."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from headrace.description import Join, Refined
from headrace.description.feeds import LEFT, RIGHT, ROWS, below
from headrace.description.join import LEFT as LEFT_JOIN
from headrace.description.join import OUTER
from headrace.oracle.aggregates import Total, usable
from headrace.oracle.log import Log, Pair, Values
from headrace.oracle.relations import Rows, Version, relation
from headrace.oracle.relations import rows_at as rows_of_table
from headrace.oracle.values import Identity, identity, plain

if TYPE_CHECKING:
    from headrace.description import TableAggregate

__all__ = ["key_of_pair", "results", "rows_at"]

results = relation


def rows_at(node: Join | Refined | TableAggregate, log: Log, upto_ms: int, part: str) -> Rows:
    """The rows by key, of those of the tables below."""
    if isinstance(node, Join):
        return _joined(node, log, upto_ms, part)
    rows = rows_of_table(node.table, log, upto_ms, below(part, ROWS))
    return _refined(node, rows, log) if isinstance(node, Refined) else _grouped(node, rows)


def _joined(node: Join, log: Log, upto_ms: int, part: str) -> Rows:
    """Each left row with the right row that it refers to; of a full outer join right rows by themselves, too."""
    left = rows_of_table(node.left, log, upto_ms, below(part, LEFT))
    right = rows_of_table(node.right, log, upto_ms, below(part, RIGHT))
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

"""The contributions of changed rows to the groups that they name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.fold.aggregates import Aggregates
from headrace.fold.aggregates.kind import highest_by
from headrace.fold.changes.deltas import AFTER, BEFORE, KEYS, SIGN, commits, with_signs
from headrace.fold.changes.ordering import PLACE, int64, last_of_each, order, places
from headrace.fold.changes.station import Route
from headrace.fold.contract import EVENT, KEY
from headrace.fold.fates import with_column
from headrace.fold.keys import Groups, combined, group, group_columns, with_keys

ROWS = "__rows"  # how many rows a group has


@dataclass(frozen=True)
class ByGroup(Route):
    """By the group: the partials that a commit adds to each, and takes from it, in one row.

    by          group columns
    aggregates  of the node, and ROWS
    """

    by: tuple[str, ...]
    aggregates: Aggregates
    per_commit: bool

    def columns(self, relation: pa.Schema) -> pa.Schema:
        """The group columns and the partials."""
        return pa.schema([*(relation.field(name) for name in self.by), *self.aggregates.fields])

    def of(self, deltas: pa.Table) -> pa.Table:
        """One row for each group and commit; its place is the latest, its event time the highest of the changes."""
        return contributed(with_keys(deltas, self.by), self.by, self.aggregates, per_commit=self.per_commit)


def contributed(deltas: pa.Table, by: Sequence[str], aggregates: Aggregates, *, per_commit: bool) -> pa.Table:
    """One row per group and commit: what changes of rows add to the group, minus what they take. KEY is the group's."""
    there = partials_of(with_signs(deltas, AFTER), by, aggregates, per_commit=per_commit)
    gone = partials_of(with_signs(deltas, BEFORE), by, aggregates, per_commit=per_commit)
    for name, column in aggregates.negate(gone).items():
        gone = with_column(gone, name, column)
    return merged(pa.concat_tables([gone, there]), by, aggregates, per_commit=per_commit)


def partials_of(rows: pa.Table, by: Sequence[str], aggregates: Aggregates, *, per_commit: bool) -> pa.Table:
    """One row per group and commit: what the rows add to the group. All rows count as added, whatever their SIGN."""
    groups = _groups(rows, per_commit=per_commit)
    return _placed(rows, by, groups, aggregates.partials(rows, groups.codes, len(groups)))


def merged(rows: pa.Table, by: Sequence[str], aggregates: Aggregates, *, per_commit: bool) -> pa.Table:
    """Partials of one group and commit as one row, sorted by group and commit."""
    groups = _groups(rows, per_commit=per_commit)
    found = _placed(rows, by, groups, aggregates.merge(rows, groups.codes, len(groups)))
    sequence = order(group(found[KEY]).codes, commits(found, per_commit=per_commit))
    return found.take(pa.array(sequence))


def _groups(rows: pa.Table, *, per_commit: bool) -> Groups:
    return combined(group(rows[KEY]).codes, commits(rows, per_commit=per_commit))


def _placed(rows: pa.Table, by: Sequence[str], groups: Groups, partials: Mapping[str, pa.Array]) -> pa.Table:
    """Partials with their group, the latest place of its rows and the highest event time."""
    caused = rows.select([*KEYS.names, *PLACE]).take(
        pa.array(last_of_each(groups.codes, order(places(rows))))
    )
    highest = highest_by(groups.codes, len(groups), int64(rows[EVENT]))
    after = pa.array(np.full(len(groups), AFTER, np.int8))
    columns = group_columns(rows, by, groups.first) | {name: caused[name] for name in caused.column_names}
    return pa.table({**columns, **partials, SIGN: after, EVENT: pa.array(highest)})

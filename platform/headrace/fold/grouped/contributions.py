"""What changes of rows contribute to the groups that they name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.fold.aggregates import Aggregates
from headrace.fold.changes.deltas import AFTER, KEYS, SIGN, commits, with_signs
from headrace.fold.changes.ordering import PLACE, int64, last_of_each, order, places
from headrace.fold.changes.station import Route
from headrace.fold.contract import EVENT, KEY
from headrace.fold.keys import combined, group, group_columns, with_keys
from headrace.fold.segments import LOWEST

ROWS = "__rows"  # how many rows a group has


@dataclass(frozen=True)
class ByGroup(Route):
    """By the group: the partials that a commit adds to each, and takes from it, in one row.

    by          group columns; a row with a null in one of them is in no group
    aggregates  of the node, and ROWS
    """

    by: tuple[str, ...]
    aggregates: Aggregates
    per_commit: bool

    def columns(self, given: pa.Schema) -> pa.Schema:
        """The group columns and the partials."""
        return pa.schema([*(given.field(name) for name in self.by), *self.aggregates.fields])

    def of(self, deltas: pa.Table) -> pa.Table:
        """One row for each group and commit; its place is the latest, its event time the highest of the changes."""
        there = np.ones(deltas.num_rows, bool)
        for name in self.by:
            there &= deltas[name].is_valid().to_numpy()
        deltas = deltas if there.all() else deltas.filter(pa.array(there))
        deltas = with_keys(deltas.combine_chunks(), self.by)
        parts = [self._partials(with_signs(deltas, sign), sign) for sign in (-AFTER, AFTER)]
        return merged(pa.concat_tables(parts), self.by, self.aggregates, per_commit=self.per_commit)

    def _partials(self, rows: pa.Table, sign: int) -> pa.Table:
        """The partials of single rows, or what takes them away."""
        numbers = np.arange(rows.num_rows)
        partials = self.aggregates.partials(rows, numbers, len(numbers))
        partials = partials if sign == AFTER else self.aggregates.negate(partials)
        names = [*self.by, *KEYS.names, SIGN, EVENT, *PLACE]
        return pa.table({name: rows[name] for name in names} | partials)


def merged(rows: pa.Table, by: tuple[str, ...], aggregates: Aggregates, *, per_commit: bool) -> pa.Table:
    """Partials of one group and commit as one row, sorted by group and commit."""
    rows = rows.combine_chunks()
    group_of, commit = group(rows[KEY]).codes, commits(rows, per_commit=per_commit)
    found = combined(group_of, commit)
    last = last_of_each(found.codes, order(places(rows)))
    highest = np.full(len(found), LOWEST, np.int64)
    np.maximum.at(highest, found.codes, int64(rows[EVENT]))
    caused = rows.select([*KEYS.names, *PLACE]).take(pa.array(last))
    columns = group_columns(rows, by, found.first) | {name: caused[name] for name in caused.column_names}
    columns |= aggregates.merge(rows, found.codes, len(found))
    columns |= {SIGN: pa.array(np.full(len(found), AFTER, np.int8)), EVENT: pa.array(highest)}
    sequence = order(group_of[found.first], commit[found.first])
    return pa.table(columns).take(pa.array(sequence))

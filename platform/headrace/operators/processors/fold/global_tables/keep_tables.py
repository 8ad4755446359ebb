"""The step before a processor that reads global tables: it keeps them, and gives them to every bucket."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.contract import (
    HASH,
    KEY,
    Clock,
    Folded,
    Needs,
    Scope,
    StateTable,
    Step,
    Times,
)
from headrace.fold.fates import tally_of
from headrace.fold.lookups.latest import deletes_to_forget, latest_rows, newest_of
from headrace.fold.lookups.sides import ABSENT, RECORD, SIDE, kept_of
from headrace.fold.values.columns import int64
from headrace.operators.processors.fold.global_tables.global_tables import OWN, Packing, TableShape


@dataclass(frozen=True)
class KeepTables(Step):
    """Keep the latest row of each key of each table.

    In:    rows as `Packing.packed` gives them; the tables, each in a state table of its own
    Out:   the rows of records; shared: of each table the rows before the increment, and the versions in it
    Law:   L21: what is kept is the table through the last commit, and what is shared tells it at each place before.
    """

    packing: Packing
    scope = Scope.GROUP
    keys = (OWN,)

    @cached_property
    def state(self) -> Mapping[str, StateTable]:  # type: ignore[override]
        """For each table the latest row of each key, with its place; DELETED where it deletes its key."""
        return {
            each.state: StateTable(
                each.kept,
                (HASH, KEY),
                partial(latest_rows, by_timestamp=each.by_timestamp),
                expired=partial(_expired, by_timestamp=each.by_timestamp),
            )
            for each in self.packing.tables
        }

    def needs(self, rows: pa.Table, times: Times) -> Mapping[str, Needs]:
        """All of the tables, for a processor may ask for any row; none where no log commit calls it."""
        return {name: Needs() for name in self.state} if times.commits else {}

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """See the class."""
        shared, changes = [], {}
        for each in self.packing.tables:
            known = state.get(each.state, self.state[each.state].empty())
            known = known.select(each.kept.names).rename_columns([*each.kept.names[:-1], ABSENT])
            came = kept_of(rows, each.side, [KEY, HASH, *map(each.among, each.versions.names)])
            came = _without_values(each, came.rename_columns(known.column_names))
            versions = pa.concat_tables([known, came])
            newest = np.zeros(0, np.int64)
            if came.num_rows:
                near = np.flatnonzero(np.isin(int64(versions[HASH]), int64(came[HASH])))
                newest = near[newest_of(versions.take(pa.array(near)), by_timestamp=each.by_timestamp)]
            gained = versions.take(pa.array(newest[newest >= known.num_rows], pa.int64()))
            changes[each.state] = gained.rename_columns(each.kept.names).cast(each.kept)
            shared.append(self.packing.versions(each, versions.select(each.versions.names)))
        is_record = pc.equal(rows[SIDE], RECORD)
        tally = None if self.packing.is_shared else tally_of(rows.filter(pc.invert(is_record)))
        return Folded(
            rows=rows.filter(is_record), shared=pa.concat_tables(shared), changes=changes, tally=tally
        )


def _without_values(of: TableShape, versions: pa.Table) -> pa.Table:
    """Versions; those that delete their key without values."""
    there = pa.array(np.arange(versions.num_rows), mask=versions[ABSENT].to_numpy())
    for field in of.value:
        place = versions.schema.get_field_index(field.name)
        versions = versions.set_column(place, field.name, versions[field.name].take(there))
    return versions


def _expired(rows: pa.Table, after: Clock, *, by_timestamp: bool) -> pa.Array:
    return deletes_to_forget(rows, by_timestamp=by_timestamp)

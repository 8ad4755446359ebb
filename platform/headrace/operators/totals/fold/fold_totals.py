"""Running aggregates as a step: records in, partials and current totals out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.aggregates import Aggregates
from headrace.fold.aggregates.kind import whole
from headrace.fold.aggregates.running import running_values
from headrace.fold.changes.collect import BEFORE_PREFIX, CHANGES, RESULTS, SEQUENCE, TIMESTAMP, WAS_THERE
from headrace.fold.contract import (
    DELETED,
    EVENT,
    HASH,
    INGESTED,
    KEY,
    Folded,
    Needs,
    Scope,
    StateTable,
    Times,
)
from headrace.fold.fates import decide_inputs, is_kept, tally_of
from headrace.fold.kernel import OneStep
from headrace.fold.keys import distinct_hashes, group
from headrace.fold.positions import POSITION
from headrace.fold.segments import LOWEST, begins, running_max
from headrace.fold.values.columns import int64
from headrace.operators.totals.fold.merge_totals import RECORDS, MergeTotals

if TYPE_CHECKING:
    from headrace.description import RunningAggregate

TOTALS = "totals"


@dataclass(frozen=True, eq=False)
class Totals(OneStep):
    """The kernel of a node of running aggregates: one fold by group. The package has its steps.

    changes  whether each change is wanted, or the current totals alone; the state is the same

    State: `totals`, one row per group and micro-batch that has touched it: a partial (see `MergeTotals.schema`)
    Out:   `results`, one row per group that the micro-batch touches: group columns, aggregates, DELETED (false),
           `__timestamp` (the highest event time), `__sequence` (commit time of the last record, and with it its topic,
           partition and offset), `__records`, KEY, HASH
           `changes`, one row per group and log commit (see `changes_of_totals`); only if they are wanted
    """

    merge: MergeTotals
    changes: bool = False
    scope = Scope.GROUP

    @classmethod
    def of(cls, node: RunningAggregate, inputs: pa.Schema, *, changes: bool = False) -> Totals:
        """The kernel of a node. In: inputs  schema of the rows: the stream's columns and ROW_COLUMNS."""
        by = pa.schema([inputs.field(name) for name in node.by])
        return cls(MergeTotals(by, Aggregates.of(node.aggregates, inputs)), changes)

    @property
    def keys(self) -> tuple[str, ...]:  # type: ignore[override]
        """The group columns."""
        return tuple(self.merge.by.names)

    @cached_property
    def state(self) -> Mapping[str, StateTable]:  # type: ignore[override]
        """See the class."""
        return {TOTALS: StateTable(self.merge.schema, (HASH,), self.merge)}

    revises = True  # a later row of a key replaces the earlier one

    def decide(self, rows: pa.Table) -> pa.Table:
        """Complete FATE and REASON: every record with usable inputs is kept."""
        return decide_inputs(rows, self.merge.aggregates)

    def current(self, state: pa.Table) -> pa.Table:
        """The totals of all groups, as `results`. In: merged rows of the state."""
        return current_totals(state, self.merge)

    def needs(self, rows: pa.Table, times: Times) -> Mapping[str, Needs]:
        """The totals of the same groups."""
        return {TOTALS: Needs(hashes=distinct_hashes(rows))}

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """Steps 1 to 4 of the package. The state may come with other groups: of the same hash, or without records here."""
        decided = self.decide(rows)
        kept = decided.filter(pa.array(is_kept(decided)))
        partials = self.merge.of_rows(kept)
        touched = pc.is_in(state[TOTALS][KEY], whole(partials[KEY]))
        before = state[TOTALS].filter(touched).select(partials.column_names)
        after = self.merge.merged(pa.concat_tables([partials, before]))
        outputs = {RESULTS: current_totals(after, self.merge)}
        if self.changes:
            outputs[CHANGES] = changes_of_totals(kept, before, self.merge)
        return Folded(outputs=outputs, changes={TOTALS: partials}, tally=tally_of(decided))


def current_totals(totals: pa.Table, merge: MergeTotals) -> pa.Table:
    """Merged partials as rows of the node's table. Out: as `results` of `Totals`."""
    columns = {name: whole(totals[name]) for name in merge.by.names}
    columns |= merge.aggregates.finish(totals)
    columns[DELETED] = pa.array(np.zeros(totals.num_rows, bool))
    columns[TIMESTAMP] = pa.array(int64(totals[EVENT]))
    columns[SEQUENCE] = pa.array(int64(totals[INGESTED]))
    columns |= {name: whole(totals[name]) for name in (*POSITION[1:], RECORDS, KEY, HASH)}
    return pa.table(columns)


def changes_of_totals(kept: pa.Table, before: pa.Table, merge: MergeTotals) -> pa.Table:
    """Each change of each group.

    In:  kept    the records that count, with KEY and HASH
         before  merged totals of these groups before the micro-batch
    Out: as `changes.collect.changes_of`; one row per group and log commit
    Law: a group's totals after a commit are its totals before the micro-batch, merged with its partials of the commits
         through this one.
    """
    rows, is_change = _by_group_and_commit(before, merge.of_rows(kept, per_commit=True))
    begins_group = begins(group(rows[KEY]).codes)
    totals = running_values(merge.aggregates, rows, begins_group)
    event_ms = running_max(begins_group, int64(rows[EVENT]))
    change = np.flatnonzero(is_change)
    was_there = ~begins_group[change]
    at, at_before = pa.array(change), pa.array(change - 1, mask=~was_there)
    return pa.table(
        {
            **{name: whole(rows[name]).take(at) for name in merge.by.names},
            **{name: column.take(at) for name, column in totals.items()},
            DELETED: pa.array(np.zeros(len(at), bool)),
            TIMESTAMP: pa.array(event_ms).take(at),
            SEQUENCE: whole(rows[INGESTED]).take(at),
            **{name: whole(rows[name]).take(at) for name in (*POSITION[1:], KEY, HASH)},
            WAS_THERE: pa.array(was_there),
            **{BEFORE_PREFIX + name: column.take(at_before) for name, column in totals.items()},
        }
    )


def _by_group_and_commit(before: pa.Table, partials: pa.Table) -> tuple[pa.Table, np.ndarray]:
    """All rows by group, the totals before first, then the partials by commit; and which rows are partials of commits."""
    rows = pa.concat_tables([before, partials]).combine_chunks()
    is_change = np.arange(rows.num_rows) >= before.num_rows
    commit_ms = np.where(is_change, int64(rows[INGESTED]), LOWEST)
    order = np.lexsort((commit_ms, group(rows[KEY]).codes))
    return rows.take(pa.array(order)), is_change[order]

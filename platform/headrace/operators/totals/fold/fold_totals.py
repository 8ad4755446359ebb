"""Running aggregates as a step: records in, partials and current totals out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.aggregates import Aggregates
from headrace.fold.aggregates.kind import whole
from headrace.fold.aggregates.running import running_values
from headrace.fold.changes.collect import BEFORE_PREFIX, CHANGES, RESULTS, SEQUENCE, TIMESTAMP, WAS_THERE
from headrace.fold.contract import (
    BATCH,
    DELETED,
    EVENT,
    HASH,
    INGESTED,
    KEY,
    Folded,
    Needs,
    Scope,
    StateTable,
    Step,
    Times,
)
from headrace.fold.fates import decide_inputs, is_kept, tally_of
from headrace.fold.kernel import OfOneFeed
from headrace.fold.keys import distinct_hashes, group
from headrace.fold.positions import POSITION
from headrace.fold.segments import LOWEST, begins, running_max
from headrace.fold.values.columns import int64
from headrace.operators.totals.fold.merge_totals import RECORDS, MergeTotals

if TYPE_CHECKING:
    from headrace.description import RunningAggregate

TOTALS = "totals"


@dataclass(frozen=True)
class Totals(OfOneFeed):
    """Running aggregates of one node.

    changes  whether each change is wanted, or the current totals alone; the state is the same
    """

    merge: MergeTotals
    changes: bool = False

    @classmethod
    def of(cls, node: RunningAggregate, inputs: pa.Schema, *, changes: bool = False) -> Totals:
        """The operator of a node. In: inputs  schema of the rows: the stream's columns and ROW_COLUMNS."""
        by = pa.schema([inputs.field(name) for name in node.by])
        return cls(MergeTotals(by, Aggregates.of(node.aggregates, inputs)), changes)

    @property
    def steps(self) -> tuple[Step, ...]:
        """One fold by group."""
        return (FoldTotals(self.merge, changes=self.changes),)

    revises = True  # a later row of a key replaces the earlier one

    def decide(self, rows: pa.Table) -> pa.Table:
        """Complete FATE and REASON: every record with usable inputs is kept."""
        return decide_inputs(rows, self.merge.aggregates)

    def current(self, state: pa.Table) -> pa.Table:
        """The totals of all groups, as `FoldTotals` gives them. In: merged rows of the state."""
        return current_totals(state, self.merge)


class FoldTotals(Step):
    """The fold by group (see the package).

    State: `totals`, partial aggregates by group; rows add up.
    Out:   `results`, one row per group that the micro-batch touches: group columns, aggregates, DELETED (false),
           `__timestamp` (the highest event time), `__sequence` (commit time of the last record, and with it its topic,
           partition and offset), `__records`, KEY, HASH
           `changes`, one row per group and log commit (see `changes_of_totals`); only if they are wanted
    """

    scope = Scope.GROUP

    def __init__(self, merge: MergeTotals, *, changes: bool = False) -> None:
        """In: see `Totals`."""
        self.merge, self.changes = merge, changes
        self.keys = tuple(merge.by.names)
        self.state: Mapping[str, StateTable] = {TOTALS: StateTable(merge.schema, (HASH,), merge)}

    def needs(self, rows: pa.Table, times: Times) -> Mapping[str, Needs]:
        """The totals of the same groups."""
        return {TOTALS: Needs(hashes=distinct_hashes(rows))}

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """See the package."""
        decided = decide_inputs(rows, self.merge.aggregates)
        kept = decided.filter(pa.array(is_kept(decided)))
        gained = self.merge.of_rows(kept)
        known = state[TOTALS].filter(pc.is_in(state[TOTALS][KEY], whole(gained[KEY])))
        marked = gained.append_column(BATCH, pa.array(np.zeros(gained.num_rows, np.int32)))
        totals = self.merge(pa.concat_tables([marked, known.select(marked.column_names)]))
        outputs = {RESULTS: current_totals(totals, self.merge)}
        if self.changes:
            outputs[CHANGES] = changes_of_totals(kept, known, self.merge)
        return Folded(
            outputs=outputs,
            changes={TOTALS: gained},
            tally=tally_of(decided),
        )


def current_totals(totals: pa.Table, merge: MergeTotals) -> pa.Table:
    """Merged partials as rows of the node's table."""
    columns = {name: whole(totals[name]) for name in merge.by.names}
    columns |= merge.aggregates.finish(totals)
    columns[DELETED] = pa.array(np.zeros(totals.num_rows, bool))
    columns[TIMESTAMP] = pa.array(int64(totals[EVENT]))
    columns[SEQUENCE] = pa.array(int64(totals[INGESTED]))
    columns |= {name: whole(totals[name]) for name in (*POSITION[1:], RECORDS, KEY, HASH)}
    return pa.table(columns)


def changes_of_totals(kept: pa.Table, known: pa.Table, merge: MergeTotals) -> pa.Table:
    """Each change of each group.

    In:  kept   the records that count, with KEY and HASH
         known  merged totals of these groups before the increment
    Out: as `changes.collect.changes_of`; one row per group and log commit
    """
    adds = merge.of_rows(kept, per_commit=True)
    names = merge.schema.names
    rows = pa.concat_tables([known.select(names), adds.select(names)]).combine_chunks()
    is_new = np.arange(rows.num_rows) >= known.num_rows
    commit = np.where(is_new, int64(rows[INGESTED]), LOWEST)
    order = np.lexsort((commit, group(rows[KEY]).codes))
    rows, is_new = rows.take(pa.array(order)), is_new[order]
    first = begins(group(rows[KEY]).codes)
    after = running_values(merge.aggregates, rows, first)
    event_ms = running_max(first, int64(rows[EVENT]))
    now = pa.array(np.flatnonzero(is_new))
    was_there = ~first[is_new]
    then = pa.array(np.flatnonzero(is_new) - 1, mask=~was_there)
    return pa.table(
        {
            **{name: whole(rows[name]).take(now) for name in merge.by.names},
            **{name: column.take(now) for name, column in after.items()},
            DELETED: pa.array(np.zeros(len(now), bool)),
            TIMESTAMP: pa.array(event_ms).take(now),
            SEQUENCE: whole(rows[INGESTED]).take(now),
            **{name: whole(rows[name]).take(now) for name in (*POSITION[1:], KEY, HASH)},
            WAS_THERE: pa.array(was_there),
            **{BEFORE_PREFIX + name: column.take(then) for name, column in after.items()},
        }
    )

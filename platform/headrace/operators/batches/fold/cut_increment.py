"""The first step: put each new record into its batch, and find the batches that close."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.fold.contract import (
    HASH,
    INGESTED,
    KEY,
    SIZE,
    Folded,
    Needs,
    Scope,
    StateTable,
    Step,
    Times,
)
from headrace.fold.fates import decide_inputs, is_kept, tally_of
from headrace.fold.group_order import order_by_group
from headrace.fold.keys import distinct_hashes, group
from headrace.fold.positions import order_of, position_columns
from headrace.fold.values.columns import int64
from headrace.operators.batches.fold.cut_batches import BY_WAIT, Begun, CutBatches, cut
from headrace.operators.batches.fold.limits import Limits
from headrace.operators.batches.fold.line import Line
from headrace.operators.batches.fold.open_batches import (
    BYTES,
    ENTRY,
    OPENED,
    RECORDS,
    frontier_ms,
    open_batches,
    opened_through,
    still_open,
)

# Of each row for the next step, beside the record: which of its group's batches it is in (from 0), whether that was open
# before the micro-batch, when it closed, and by what (a number of `cut_batches`; `OPEN`: it is open).
NUMBER, CONTINUED, CLOSED_MS, CLOSED_BY = "__number", "__continued", "__closed_ms", "__closed_by"


@dataclass(frozen=True)
class CutIncrement(Step):
    """Cut the records of an increment into batches.

    In:    rows of the log; state `open`
    Out:   rows: the records that are kept, each with OPENED, NUMBER, CONTINUED, CLOSED_MS and CLOSED_BY of its batch; for
           each batch that closed without a new record one row without a record
    Law:   L14; the state after the fold is that after a fold of the whole log.
    """

    by: tuple[str, ...]
    columns: tuple[str, ...]
    topics: tuple[str, ...]
    limits: Limits
    scope = Scope.GROUP
    keeps_bucket = True

    @property
    def keys(self) -> tuple[str, ...]:  # type: ignore[override]
        """The group columns."""
        return self.by

    @property
    def state(self) -> Mapping[str, StateTable]:  # type: ignore[override]
        """`open`: the batches that are open."""
        return {"open": open_batches(self.topics, self.limits)}

    def needs(self, rows: pa.Table, times: Times) -> Mapping[str, Needs]:
        """The open batches of the groups that have records, and those whose deadline has come; all, if there is a drain."""
        if len(times.drains):
            return {"open": Needs()}
        kept, due = self._kept(decide_inputs(rows)), self._due(times)
        by_time = None if due is None else Needs(times=due)
        if not kept.num_rows:
            return {} if by_time is None else {"open": by_time}
        return {"open": Needs(hashes=distinct_hashes(kept), either=by_time)}

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """See the class."""
        rows = decide_inputs(rows)
        kept = self._kept(rows)
        known = state.get("open", self.state["open"].empty())
        known = still_open(known, times.before, self.topics, self.limits)
        both = pa.concat_tables([kept.select([KEY, HASH]), known.select([KEY, HASH])])
        groups = group(both[KEY])
        codes, known_codes = groups.codes[: kept.num_rows], groups.codes[kept.num_rows :]
        order = order_by_group(codes, order_of(position_columns(kept)))
        line = Line(codes[order], int64(kept[INGESTED])[order], int64(kept[SIZE])[order], len(groups))
        before = (int64(known[name]) for name in (OPENED, RECORDS, BYTES))
        opened = Begun(known_codes, line.starts[known_codes], *before)
        drains = np.asarray(times.drains, np.int64)
        batches = cut(line, opened, self.limits, drains, frontier_ms(times.after, self.topics))
        keys = both.take(pa.array(groups.first))
        return Folded(
            rows=pa.concat_tables([_in_batches(kept, order, batches), _without_records(kept, batches, keys)]),
            changes={"open": self._changes(batches, line, keys)},
            tally=tally_of(rows),
        )

    def _kept(self, rows: pa.Table) -> pa.Table:
        which = is_kept(rows)
        rows = rows.select([KEY, HASH, *ENTRY, *self.columns])
        return rows if which.all() else rows.filter(pa.array(which))

    def _due(self, times: Times) -> tuple[int, int] | None:
        """When the batches were opened whose deadline lies in this micro-batch; None: there are none."""
        if not self.limits.by_time:
            return None
        before, after = (
            opened_through(clock, self.topics, self.limits) for clock in (times.before, times.after)
        )
        return (before + 1, after) if before < after else None

    def _changes(self, batches: CutBatches, line: Line, keys: pa.Table) -> pa.Table:
        """Batches that are open and have new records; and batches that were open and closed before their deadline."""
        begun = batches.begun
        early = batches.continued & batches.closed & (batches.closed_by != BY_WAIT)
        which = np.flatnonzero((~batches.closed & (batches.new_records > 0)) | early)
        columns = (begun.opened_ms, *batches.totals(line), early)
        named = keys.take(pa.array(begun.group[which]))
        values = [pa.array(column[which]) for column in columns]
        return pa.table([*named.columns, *values], schema=self.state["open"].schema)


def _in_batches(kept: pa.Table, order: np.ndarray, batches: CutBatches) -> pa.Table:
    """The records, in the order in which they came, with what is to be known of their batches."""
    batch = np.empty(kept.num_rows, np.int64)
    batch[order] = np.repeat(np.arange(len(batches.end)), batches.new_records)
    for name, values in _described(batches).items():
        kept = kept.append_column(name, pa.array(values[batch]))
    return kept


def _without_records(kept: pa.Table, batches: CutBatches, keys: pa.Table) -> pa.Table:
    """A row for each batch that closed without a new record."""
    which = np.flatnonzero((batches.new_records == 0) & batches.closed)
    named = keys.take(pa.array(batches.begun.group[which]))
    nothing = {field.name: pa.nulls(len(which), field.type) for field in kept.schema}
    described = {name: pa.array(values[which]) for name, values in _described(batches).items()}
    return pa.table({**nothing, KEY: named[KEY], HASH: named[HASH], **described})


def _described(batches: CutBatches) -> dict[str, np.ndarray]:
    return {
        OPENED: batches.begun.opened_ms,
        NUMBER: batches.number,
        CONTINUED: batches.continued,
        CLOSED_MS: batches.closed_ms,
        CLOSED_BY: batches.closed_by.astype(np.int8),
    }

"""Session windows as steps: records in, closed sessions out, open ones in the state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description import SessionWindows, is_of_kafka
from headrace.fold.aggregates import Aggregates
from headrace.fold.contract import (
    BATCH,
    DELETED,
    EVENT,
    PARTITION,
    TOPIC,
    Clock,
    Folded,
    Needs,
    Scope,
    StateTable,
    Step,
    Times,
)
from headrace.fold.fates import LATE, decide_inputs, is_kept, tally_of, with_fate
from headrace.fold.kernel import OpenState
from headrace.fold.keys import distinct_hashes, with_keys
from headrace.fold.open_sizes import SIZES, BoundedWindows, StopsWhenFull
from headrace.fold.segments import HIGHEST
from headrace.fold.window_shape import SEQUENCE
from headrace.operators.sessions.fold.bound_sessions import size_changes_of_sessions
from headrace.operators.sessions.fold.close_sessions import closing_commits
from headrace.operators.sessions.fold.late_records import late_records
from headrace.operators.sessions.fold.mark_raises import MarkRaises
from headrace.operators.sessions.fold.merge_sessions import merge_sessions
from headrace.operators.sessions.fold.open_sessions import (
    OPEN,
    closing_range,
    deleted_rows,
    is_closed,
    is_gone,
    not_deleted,
    open_at,
    places_of,
    results,
    state_table,
)
from headrace.operators.sessions.fold.shape import END, RECORDS, Shape

if TYPE_CHECKING:
    from headrace.description import WindowedAggregate

RESULTS = "results"


@dataclass(frozen=True, eq=False)
class Sessions(BoundedWindows, Step):
    """The kernel of a node of session windows: a fold by group and partition (see the package).

    bounded  the bound at which its stream stops (see `bound_sessions`); None: there is none

    In:    kept rows with STREAM_BEFORE, from `MarkRaises`; with grace all rows
    State: `open_sessions`, one row per open session (see `Shape.state`)
    Out:   `results`, one row per session that closes
           `open_sizes`, if it is bounded (see `size_changes_of_sessions`)
    """

    shape: Shape
    bounded: StopsWhenFull | None = None
    scope = Scope.GROUP_AND_PARTITION

    @classmethod
    def of(cls, node: WindowedAggregate, inputs: pa.Schema) -> Sessions:
        """The kernel of a node. In: inputs  schema of the rows: the stream's columns and ROW_COLUMNS."""
        assert isinstance(node.window, SessionWindows)
        by = pa.schema([inputs.field(name) for name in node.by])
        aggregates = Aggregates.of(node.aggregates, inputs)
        nodes = tuple(topic.name for topic in node.topics if not is_of_kafka(topic))
        shape = Shape(by, aggregates, node.window.gap_ms, node.longest_wait_ms, nodes)
        return cls(shape, StopsWhenFull.of(node))

    @property
    def steps(self) -> tuple[Step, ...]:
        """Itself; without grace the step that marks what raises stream time comes first."""
        return (MarkRaises(self.shape), self) if self.shape.graceless else (self,)

    @property
    def keys(self) -> tuple[str, ...]:  # type: ignore[override]
        """The group columns."""
        return self.shape.keys

    @cached_property
    def state(self) -> Mapping[str, StateTable]:  # type: ignore[override]
        """See the class."""
        return {OPEN: state_table(self.shape)}

    def decide(self, rows: pa.Table) -> pa.Table:
        """Keep every record with usable inputs; which of these are late, only the fold can tell."""
        return decide_inputs(rows, self.shape.aggregates)

    @property
    def open_state(self) -> OpenState:
        """Sessions that are not closed."""
        return OpenState(OPEN, self.open_records, self.open_windows, self.updates, moves=True)

    def open_windows(self, state: pa.Table, clock: Clock) -> pa.Table:
        """The sessions that are not closed yet, with their values so far. In: merged rows of the state."""
        return results(open_at(state, self.shape.wait_ms, clock), self.shape)

    def updates(self, state: pa.Table, clock: Clock) -> pa.Table:
        """Each open session after each micro-batch that touched it. A session that became part of another is a row of nulls.

        In:     state  rows, merged or not, with BATCH. Out: as `open_windows`, with DELETED and BATCH
        """
        shown = results(state, self.shape)
        for name in (*(field.name for field in self.shape.aggregates.results), RECORDS):
            values = pc.if_else(state[DELETED], pa.scalar(None, shown.schema.field(name).type), shown[name])
            shown = shown.set_column(shown.schema.get_field_index(name), name, values)
        return shown.append_column(DELETED, state[DELETED]).append_column(BATCH, state[BATCH])

    def open_records(self, state: pa.Table, clock: Clock) -> pa.Table:
        """The state rows that stand for records still open: TOPIC, PARTITION, `__records`."""
        return open_at(state, self.shape.wait_ms, clock).select([TOPIC, PARTITION, RECORDS])

    late_scope = Scope.PARTITION  # all rows of a partition: stream times and sessions are made of them

    def late(self, rows: pa.Table) -> pa.Table:
        """See `late_records`. In: all rows of the log."""
        rows = with_keys(self.decide(rows), [*self.shape.keys, TOPIC, PARTITION])
        return late_records(rows, self.shape, Times(Clock(), Clock()))

    def results(self, inputs: Mapping[str, pa.Schema]) -> pa.Schema:
        """Those of sessions that close."""
        closed = results(self.state[OPEN].empty(), self.shape)
        return closed.schema.append(pa.field(SEQUENCE, pa.int64()))

    def needs(self, rows: pa.Table, times: Times) -> Mapping[str, Needs]:
        """The sessions that records may join, and those that stream time closes."""
        closing, near = closing_range(times.before, times.after, self.shape.wait_ms), self._near(rows)
        if closing is None:
            return {OPEN: near} if near else {}
        return {OPEN: Needs(times=closing, either=near)}

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """Steps 1 to 5 of the package. Rows that have a fate keep it."""
        known = state[OPEN] if OPEN in state else self.state[OPEN].empty()
        if not rows.num_rows and not known.num_rows:
            return Folded()
        decided = self.decide(rows)
        kept = np.flatnonzero(is_kept(decided))
        outputs = {}
        records = decided if len(kept) == decided.num_rows else decided.take(pa.array(kept))
        if self.bounded is not None:
            outputs[SIZES] = size_changes_of_sessions(records, known, self.shape, times)
        known = open_at(known, self.shape.wait_ms, times.before).select(self.shape.session_columns)
        merged = merge_sessions(records, known, self.shape)
        closed = is_closed(merged.sessions, self.shape.wait_ms, times.after)
        still_open = merged.sessions.filter(pa.array(~closed))
        changed = still_open.filter(pa.array(merged.changed[~closed]))
        touched = known.filter(pa.array(merged.touched))
        gone = touched.filter(pa.array(is_gone(touched, still_open)))
        return Folded(
            outputs={RESULTS: self._closed(merged.sessions.filter(pa.array(closed)), times)} | outputs,
            changes={OPEN: pa.concat_tables([not_deleted(changed), deleted_rows(gone, self.shape)])},
            tally=tally_of(with_fate(decided, kept[merged.late], LATE)),
        )

    def _near(self, rows: pa.Table) -> Needs | None:
        """The sessions of the groups that have records, without those that end more than a gap before the first of them.

        The others are within the gap of no record, and only a record joins sessions. Ticks have no event time.
        """
        first_ms = pc.min(rows[EVENT]).as_py()
        if first_ms is None:
            return None
        return Needs(distinct_hashes(rows), (first_ms - self.shape.gap_ms, HIGHEST))

    def _closed(self, closed: pa.Table, times: Times) -> pa.Table:
        """The results of sessions, with SEQUENCE: the commit that closes each."""
        partition, places = places_of(closed)
        at_ms = closing_commits(closed[END].to_numpy() + self.shape.wait_ms, partition, places, times)
        return results(closed, self.shape).append_column(SEQUENCE, pa.array(at_ms))

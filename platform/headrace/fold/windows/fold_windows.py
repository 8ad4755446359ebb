"""Tumbling and hopping windows as a step: records in, closed windows out, partials of panes in the state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.fold.contract import (
    HASH,
    PARTITION,
    TOPIC,
    Clock,
    Folded,
    Needs,
    Scope,
    StateTable,
    Times,
)
from headrace.fold.fates import is_kept, tally_of
from headrace.fold.kernel import OneStep, OpenState
from headrace.fold.open_sizes import SIZES, BoundedWindows, StopsWhenFull
from headrace.fold.values.columns import int64
from headrace.fold.window_shape import END, SEQUENCE, first_commits
from headrace.fold.windows.assign_windows import assign_windows, late_records
from headrace.fold.windows.bound_open import Bounded
from headrace.fold.windows.merge_panes import (
    is_over,
    merge_panes,
    merge_windows,
    partials_of,
    running_windows,
    still_open,
)
from headrace.fold.windows.shape import PANE, RECORDS, Shape

if TYPE_CHECKING:
    from headrace.description import WindowedAggregate

PANES, RESULTS = "panes", "results"


@dataclass(frozen=True, eq=False)
class Windows(BoundedWindows, OneStep):
    """Tumbling or hopping windows of one node: one fold by group (see the package).

    suppressed  whether closed windows alone are shown
    bounded     the bound at which its stream stops (see `bound_open`); None: there is none

    State: `panes`, partial aggregates by group, partition, pane and first open window; rows add up.
    Out:   `results`, one row per window that closes (see `merge_windows`), with `__sequence`, the commit time that closes
           it; the order within a commit is `window_end`, then KEY.
           `open_sizes`, if it is bounded (see `Bounded.changes`)
    """

    shape: Shape
    suppressed: bool
    bounded: StopsWhenFull | None
    scope = Scope.GROUP

    @classmethod
    def of(cls, node: WindowedAggregate, inputs: pa.Schema) -> Windows:
        """The operator of a node. In: inputs  schema of the rows: the stream's columns and ROW_COLUMNS."""
        return cls(Shape.of(node, inputs), node.suppression is not None, StopsWhenFull.of(node))

    @property
    def keys(self) -> tuple[str, ...]:  # type: ignore[override]
        """The group columns."""
        return self.shape.keys

    @cached_property
    def state(self) -> Mapping[str, StateTable]:  # type: ignore[override]
        """See the class."""
        shape = self.shape
        merge = partial(merge_panes, shape=shape, by_batch=not self.suppressed)
        return {PANES: StateTable(shape.state, (PANE, HASH), merge, PANE, partial(is_over, shape=shape))}

    def decide(self, rows: pa.Table) -> pa.Table:
        """See `assign_windows`."""
        return assign_windows(rows, self.shape)[0]

    late_scope = Scope.ANYWHERE  # each row by itself

    def late(self, rows: pa.Table) -> pa.Table:
        """See `late_records`."""
        return late_records(rows, self.shape)

    @property
    def open_state(self) -> OpenState:
        """Windows that are not closed."""
        return OpenState(PANES, self.open_records, self.open_windows, self.updates)

    def open_windows(self, state: pa.Table, clock: Clock) -> pa.Table:
        """The windows that are not closed yet, with their values so far, as `merge_windows` gives them."""
        first_ms = self.shape.panes.first_open_ms(self.shape.closed_ms(clock))
        return merge_windows(state, self.shape, first_ms, None)

    def updates(self, state: pa.Table, clock: Clock) -> pa.Table:
        """The values of each window that is not expired, after each micro-batch that touched it (see `running_windows`).

        Law: unlike every other result, this one depends on the cuts: it shows what people saw.
        """
        return running_windows(state, self.shape)

    def open_records(self, state: pa.Table, clock: Clock) -> pa.Table:
        """The state rows that stand for records still open: TOPIC, PARTITION, `__records`.

        A record is open while the last of its windows is.
        """
        is_open = pa.array(still_open(state, self.shape, clock))
        return state.filter(is_open).select([TOPIC, PARTITION, RECORDS])

    def needs(self, rows: pa.Table, times: Times) -> Mapping[str, Needs]:
        """The panes of the windows that close; if it is bounded, also those of the windows that are touched."""
        closing = self._closing(times)
        need = None
        if closing is not None:
            need = Needs(times=(closing[0], self.shape.panes.end_ms(closing[1]) - 1))
        if self.bounded is not None:
            decided, entered = assign_windows(rows, self.shape)
            need = Bounded(self.shape).needs(decided, entered, need)
        return {} if need is None else {PANES: need}

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """See the package."""
        decided, entered = assign_windows(rows, self.shape)
        kept = is_kept(decided)
        came = decided
        if not kept.all():
            came = decided.filter(pa.array(kept))
            entered = entered.take(kept)
        partials = partials_of(came, entered, self.shape)
        known = state[PANES] if PANES in state else self.state[PANES].empty()
        outputs = {RESULTS: self._closed(partials, known, times)}
        if self.bounded is not None:
            outputs[SIZES] = Bounded(self.shape).changes(came, entered, known, times)
        gained = partials.filter(pa.array(still_open(partials, self.shape, times.after)))
        return Folded(outputs=outputs, changes={PANES: gained}, tally=tally_of(decided))

    def _closing(self, times: Times) -> tuple[int, int] | None:
        """First and last start of the windows that close in a micro-batch; None: none does."""
        return self.shape.panes.closing(self.shape.closed_ms(times.before), self.shape.closed_ms(times.after))

    def _closed(self, partials: pa.Table, known: pa.Table, times: Times) -> pa.Table:
        closing = self._closing(times)
        if closing is None:
            return self._none_closed
        return self._closed_between(*closing, partials, known, times)

    @cached_property
    def _none_closed(self) -> pa.Table:
        nothing = self.state[PANES].empty()
        partials = nothing.select(self.state[PANES].schema.names)
        return self._closed_between(0, -1, partials, nothing, Times(Clock(), Clock()))

    def _closed_between(
        self, first_ms: int, last_ms: int, partials: pa.Table, known: pa.Table, times: Times
    ) -> pa.Table:
        """The windows that start within these times. In: known  with BATCH."""
        through_ms = self.shape.panes.end_ms(last_ms) - 1
        near = []
        for table in (partials, known.select(partials.column_names)):
            pane = int64(table[PANE])
            near.append(
                table.filter(pa.array((pane >= first_ms) & (pane <= through_ms) & (first_ms <= last_ms)))
            )
        closed = merge_windows(pa.concat_tables(near), self.shape, first_ms, last_ms)
        return closed.append_column(SEQUENCE, pa.array(closing_commits(closed, self.shape, times)))


def closing_commits(closed: pa.Table, shape: Shape, times: Times) -> np.ndarray:
    """The commit time that closes each window: that of the first commit after which its time has come.

    By the wall clock it is the window's end: the logs are read beyond it.
    """
    end_ms = int64(closed[END].cast(pa.int64())) // 1000
    return end_ms if shape.wall else first_commits(end_ms + shape.panes.grace_ms, times, shape.closed_ms)

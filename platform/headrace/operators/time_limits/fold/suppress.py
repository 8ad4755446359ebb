"""Suppression by a time limit as steps, and what is asked of its state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description import RunningAggregate, WindowedAggregate
from headrace.description.feeds import RESULT
from headrace.fold.aggregates import Aggregates
from headrace.fold.contract import PARTITION, TOPIC, Clock, Step, Times
from headrace.fold.kernel import OfOneFeed, OpenState
from headrace.fold.keys import with_keys
from headrace.fold.windows.shape import Shape as WindowShape
from headrace.operators.time_limits.fold.count_waiting import WAITING, CountWaiting, refusal
from headrace.operators.time_limits.fold.early.pass_early import PassEarly
from headrace.operators.time_limits.fold.early.stamp_updates import StampUpdates
from headrace.operators.time_limits.fold.early.value_waits import ValueWaits
from headrace.operators.time_limits.fold.entries import ENTRIES, entry_table
from headrace.operators.time_limits.fold.fold_waits import FoldWaits
from headrace.operators.time_limits.fold.mark_timeline import MarkTimeline
from headrace.operators.time_limits.fold.names import OPENED, RECORDS
from headrace.operators.time_limits.fold.settle_waits import RESULTS, Ends, Waits, settle_waits
from headrace.operators.time_limits.fold.shape import Shape
from headrace.operators.time_limits.fold.updates import LatestRow, Totals, Updates, Windows
from headrace.operators.time_limits.fold.wall_waits import FoldWallWaits

if TYPE_CHECKING:
    from headrace.description import Suppressed
    from headrace.errors import TerminalError
    from headrace.fold.bounds import Sizes


@dataclass(frozen=True)
class TimeLimit(OfOneFeed):
    """Suppression by a time limit of one node."""

    shape: Shape

    @classmethod
    def of(cls, node: Suppressed, inputs: pa.Schema) -> TimeLimit:
        """The operator of a node. In: inputs  schema of the rows, as what is suppressed takes them."""
        return cls(Shape(node.name or "", node.policy, _updates_of(node, inputs)))

    @property
    def steps(self) -> tuple[Step, ...]:
        """Timeline and waits; with `emit_early` a pass over all waits of a partition; by the wall clock waits alone."""
        if self.shape.by_wall_clock:
            return (FoldWallWaits(self.shape), CountWaiting())
        if self.shape.emits_early:
            return (StampUpdates(self.shape), PassEarly(self.shape), ValueWaits(self.shape), CountWaiting())
        return (MarkTimeline(self.shape), FoldWaits(self.shape), CountWaiting())

    def decide(self, rows: pa.Table) -> pa.Table:
        """As what is suppressed decides."""
        return self.shape.updates.decide(rows)

    def worth(self, state: pa.Table) -> pa.Table:
        """The values of each remembered entry. In: merged rows of the state `entries`."""
        return pa.table(self.shape.updates.shown(state))

    @property
    def open_state(self) -> OpenState:
        """The entries whose waits are not over."""
        return OpenState(ENTRIES, self.open_records)

    def open_records(self, state: pa.Table, clock: Clock) -> pa.Table:
        """The state rows that stand for records of waits that are not over: TOPIC, PARTITION, `__records`."""
        return state.filter(pc.is_valid(state[OPENED])).select([TOPIC, PARTITION, RECORDS])

    def judged(
        self, outputs: Mapping[str, Sequence[pa.Table]], times: Times, sizes: Sizes
    ) -> tuple[Sizes, TerminalError | None]:
        """See `count_waiting.refusal`; the state tells the sizes."""
        waiting = outputs.get(WAITING)
        if not waiting:
            return {}, None
        return {}, refusal(self.shape.name, self.shape.in_force(times).last, pa.concat_tables(waiting))

    def results(self, inputs: Mapping[str, pa.Schema]) -> pa.Schema:
        """Those of waits that are over."""
        updates, none, no = self.shape.updates, np.zeros(0, np.int64), np.zeros(0, bool)
        rows = with_keys(self.decide(inputs[RESULT].empty_table()), updates.by.names)
        waits = Waits(
            rows=updates.exploded(rows),
            wait=none,
            known=entry_table(self.shape).empty(),
            first_waits=none,
            was_open=no,
            entry=none,
            opened_ms=none,
            opened_offset=none,
            ends=Ends(no, no, *[none] * 5),
            due_ms=none,
        )
        return settle_waits(waits, self.shape).outputs[RESULTS].schema


def _updates_of(node: Suppressed, inputs: pa.Schema) -> Updates:
    """The updates that a node makes."""
    by = pa.schema([inputs.field(name) for name in node.by])
    updated = node.updated
    if isinstance(updated, RunningAggregate):
        return Totals(by, Aggregates.of(updated.aggregates, inputs))
    if isinstance(updated, WindowedAggregate):
        windows = WindowShape.of(updated, inputs)
        return Windows(by, windows.aggregates, windows)
    return LatestRow(by, pa.schema([inputs.field(name) for name in updated.values]))

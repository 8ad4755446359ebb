"""Sliding windows as a step: records in, closed windows out, points in the state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headrace.description import SlidingWindows as Described
from headrace.fold.aggregates import Aggregates
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
from headrace.fold.fates import KEPT, LATE, TALLY, is_kept, sum_tallies, tally_of
from headrace.fold.kernel import OneStep, OpenState
from headrace.fold.keys import with_keys
from headrace.fold.open_sizes import SIZES, BoundedWindows, StopsWhenFull
from headrace.fold.segments import HIGHEST
from headrace.fold.window_shape import SEQUENCE, first_commits, lowest
from headrace.operators.windows.sliding.after_commits import touching
from headrace.operators.windows.sliding.bound_sliding import BoundedSliding
from headrace.operators.windows.sliding.late_records import late_records
from headrace.operators.windows.sliding.make_windows import enters_none, make_windows
from headrace.operators.windows.sliding.merge_points import (
    in_order,
    is_over,
    merge_points,
    merge_windows,
    points_of,
    running_windows,
)
from headrace.operators.windows.sliding.shape import POINT, RECORDS, Shape

if TYPE_CHECKING:
    from headrace.description import WindowedAggregate

POINTS, RESULTS = "points", "results"


@dataclass(frozen=True, eq=False)
class SlidingWindows(BoundedWindows, OneStep):
    """Sliding windows of one node: one fold by group (see the package).

    bounded  the bound at which its stream stops (see `bound_sliding`); None: there is none

    State: `points`, partial aggregates by group, event time, first open end and partition; rows add up.
    Out:   `results`, one row per window that closes
           `open_sizes`, if it is bounded (see `BoundedSliding.changes`)
    """

    shape: Shape
    bounded: StopsWhenFull | None = None
    scope = Scope.GROUP

    @classmethod
    def of(cls, node: WindowedAggregate, inputs: pa.Schema) -> SlidingWindows:
        """The operator of a node. In: inputs  schema of the rows: the stream's columns and ROW_COLUMNS."""
        assert isinstance(node.window, Described)
        by = pa.schema([inputs.field(name) for name in node.by])
        aggregates = Aggregates.of(node.aggregates, inputs)
        shape = Shape(by, aggregates, node.window.difference_ms, node.grace_ms, inputs)
        return cls(shape, StopsWhenFull.of(node))

    @property
    def keys(self) -> tuple[str, ...]:  # type: ignore[override]
        """The group columns."""
        return self.shape.keys

    @cached_property
    def state(self) -> Mapping[str, StateTable]:  # type: ignore[override]
        """See the class."""
        shape = self.shape
        merge, over = partial(merge_points, shape=shape), partial(is_over, shape=shape)
        return {POINTS: StateTable(shape.state, (POINT, HASH), merge, POINT, over)}

    def decide(self, rows: pa.Table) -> pa.Table:
        """See `Shape.decide`."""
        return self.shape.decide(rows)

    @property
    def open_state(self) -> OpenState:
        """Points of windows that are not closed."""
        return OpenState(POINTS, self.open_records, self.open_windows, self.updates)

    def open_windows(self, state: pa.Table, clock: Clock) -> pa.Table:
        """The windows that are not closed yet, with their values so far. In: merged rows of the state."""
        return merge_windows(state, self.shape, self.shape.first_open_ms(clock), HIGHEST)

    def updates(self, state: pa.Table, clock: Clock) -> pa.Table:
        """The values of each open window after each micro-batch that touched it (see `running_windows`)."""
        return running_windows(state, self.shape, self.shape.first_open_ms(clock))

    def open_records(self, state: pa.Table, clock: Clock) -> pa.Table:
        """The state rows that stand for records still open: TOPIC, PARTITION, `__records`.

        A record is open while a window that holds it may be.
        """
        last_ms = state[POINT].to_numpy() + self.shape.difference_ms
        is_open = pa.array(last_ms >= self.shape.first_open_ms(clock))
        return state.filter(is_open).select([TOPIC, PARTITION, RECORDS])

    late_scope = Scope.GROUP  # all rows of a group: they make the windows

    def late(self, rows: pa.Table) -> pa.Table:
        """See `late_records`. In: all rows of the log."""
        return late_records(self.decide(with_keys(rows, self.shape.keys)), self.shape)

    def needs(self, rows: pa.Table, times: Times) -> Mapping[str, Needs]:
        """The points that lie in windows which close, or make them; and those that tell which records entered none.

        If it is bounded, also those of the windows that are touched.
        """
        first_ms, last_ms = self._closing(times)
        need = None
        if first_ms <= last_ms:
            need = Needs(times=(first_ms - 2 * self.shape.difference_ms - 1, last_ms))
        if self.bounded is not None:
            decided = self.shape.decide(rows)
            need = touching(decided.filter(pa.array(is_kept(decided))), self.shape, need)
        return {} if need is None else {POINTS: need}

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """See the package."""
        decided = self.shape.decide(rows)
        kept = decided.filter(pa.array(is_kept(decided)))
        points = points_of(kept, self.shape)
        near = self.near(points, state, times)
        closed = merge_windows(near, self.shape, *self._closing(times))
        at_ms = first_commits(self.shape.closes_ms(closed), times, lowest)
        outputs = {RESULTS: closed.append_column(SEQUENCE, pa.array(at_ms))}
        if self.bounded is not None:
            held = state[POINTS] if POINTS in state else self.state[POINTS].empty()
            outputs[SIZES] = BoundedSliding(self.shape).changes(kept, held, times)
        return Folded(
            outputs=outputs,
            changes={POINTS: self.gained(points, times)},
            tally=self.tally(decided, near, times),
        )

    def near(self, points: pa.Table, state: Mapping[str, pa.Table], times: Times) -> pa.Table:
        """New and known points that matter to windows which close; none if none does. In: points  the new ones."""
        first_ms, last_ms = self._closing(times)
        if last_ms < first_ms:
            return points.slice(0, 0)
        known = [state[POINTS].select(self.shape.state.names)] if POINTS in state else []
        both = pa.concat_tables([points, *known])
        at = both[POINT].to_numpy()
        return both.filter(pa.array((at >= first_ms - 2 * self.shape.difference_ms - 1) & (at <= last_ms)))

    def gained(self, points: pa.Table, times: Times) -> pa.Table:
        """The new points that may still matter."""
        return points.filter(pa.array(self.shape.is_needed(points[POINT].to_numpy(), times.after)))

    def tally(self, decided: pa.Table, near: pa.Table, times: Times) -> pa.Table | None:
        """The fates of these records, and of those held that turn out late. In: near  see there."""
        first_ms, last_ms = self._closing(times)
        late = [self._entered_none(near, first_ms, last_ms)] if first_ms <= last_ms else []
        return sum_tallies([tally_of(decided), *late])

    def _closing(self, times: Times) -> tuple[int, int]:
        """First and last end of the windows that close in a micro-batch; the last before the first: none does."""
        return self.shape.first_open_ms(times.before), self.shape.first_open_ms(times.after) - 1

    def _entered_none(self, near: pa.Table, first_ms: int, last_ms: int) -> pa.Table:
        """Kept records that turn out late: all windows that could hold them end here at the latest, and none did.

        Out: as `tally_of`; as many records are taken from the kept ones
        """
        width = self.shape.difference_ms
        rows, points = in_order(near)
        last = points.point_ms + width
        asked = (points.from_ms > points.own_end(width)) & (last >= first_ms) & (last <= last_ms)
        windows = make_windows(points, width, first_ms - 2 * width, last_ms)
        asked &= enters_none(points, windows, width)
        late = rows.filter(pa.array(asked)).select([TOPIC, PARTITION, RECORDS])
        moved = ((KEPT, pc.negate(late[RECORDS])), (LATE, late[RECORDS]))
        tallies = [
            pa.table([late[TOPIC], late[PARTITION], pa.repeat(fate, late.num_rows), records], schema=TALLY)
            for fate, records in moved
        ]
        return pa.concat_tables(tallies)

"""The changes of sliding windows: what a window is worth after each log commit whose records entered it, or made it.

Law (L31): records only ever make windows and enter them, so no window goes. A log commit changes a window if it makes the
window, or if one of its records enters the window and alters an aggregate. A window that closes does not change. The place
of a change is that of the group's last record in the commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.aggregates.kind import whole
from headrace.fold.changes.collect import RESULTS, appended_changes
from headrace.fold.changes.deltas import AFTER, SIGN
from headrace.fold.changes.ordering import PLACE, last_of_each, places
from headrace.fold.contract import (
    EVENT,
    INGESTED,
    KEY,
    Folded,
    Needs,
    Scope,
    StateTable,
    Times,
)
from headrace.fold.fates import is_kept
from headrace.fold.kernel import OneStep
from headrace.fold.keys import combined, group, groups_of_both, with_keys
from headrace.fold.open_sizes import BEFORE
from headrace.fold.values.columns import int64
from headrace.fold.values.encode import encode
from headrace.fold.window_shape import TIMESTAMP
from headrace.operators.windows.sliding.after_commits import touching, windows_after_commits
from headrace.operators.windows.sliding.fold_sliding import POINTS, SlidingWindows
from headrace.operators.windows.sliding.merge_points import points_of
from headrace.operators.windows.sliding.shape import Shape

if TYPE_CHECKING:
    from headrace.description import WindowedAggregate

START, END = "window_start", "window_end"


@dataclass(frozen=True, eq=False)
class SlidingChanges(OneStep):
    """The changes of the sliding windows of one node: all log commits of a micro-batch at once.

    State: that of `SlidingWindows`.
    Out:   `results` (see `appended_changes`), one row per group, window and commit that changes it
    """

    windows: SlidingWindows
    scope = Scope.GROUP

    @classmethod
    def of(cls, node: WindowedAggregate, inputs: pa.Schema) -> SlidingChanges:
        """The operator of the changes of a node. In: see `SlidingWindows.of`."""
        return cls(replace(SlidingWindows.of(node, inputs), bounded=None))

    @property
    def shape(self) -> Shape:
        """That of the windows."""
        return self.windows.shape

    @property
    def keys(self) -> tuple[str, ...]:  # type: ignore[override]
        """The group columns."""
        return self.shape.keys

    @property
    def state(self) -> Mapping[str, StateTable]:  # type: ignore[override]
        """That of the windows."""
        return self.windows.state

    def decide(self, rows: pa.Table) -> pa.Table:
        """See `Shape.decide`."""
        return self.shape.decide(rows)

    def needs(self, rows: pa.Table, times: Times) -> Mapping[str, Needs]:
        """See `touching`, and `SlidingWindows`."""
        kept = self._kept(self.shape.decide(rows))
        need = touching(kept, self.shape, self.windows.needs(rows, times).get(POINTS))
        return {} if need is None else {POINTS: need}

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """See the class."""
        decided = self.shape.decide(rows)
        kept = self._kept(decided)
        points = points_of(kept, self.shape)
        return Folded(
            outputs={RESULTS: self._changed(kept, state, times)},
            changes={POINTS: self.windows.gained(points, times)},
            tally=self.windows.tally(decided, self.windows.near(points, state, times), times),
        )

    def _kept(self, decided: pa.Table) -> pa.Table:
        return decided.filter(pa.array(is_kept(decided)))

    def _changed(self, kept: pa.Table, state: Mapping[str, pa.Table], times: Times) -> pa.Table:
        """The windows that records change, after each commit."""
        shown, at_ms = windows_after_commits(kept, self._known_points(kept, state), self.shape, times.before)
        changed = (at_ms != BEFORE) & self._differ(shown, at_ms)
        return self._shown(shown.filter(pa.array(changed)), at_ms[changed], kept)

    def _differ(self, windows: pa.Table, at_ms: np.ndarray) -> np.ndarray:
        """Which windows are not worth what they were worth after the commit before."""
        window = combined(group(windows[KEY]).codes, int64(windows[START].cast(pa.int64()))).codes
        order = np.lexsort((at_ms, window))
        same = window[order][1:] == window[order][:-1]
        for field in self.shape.aggregates.results:
            worth = encode(whole(windows[field.name]).take(pa.array(order)))
            same &= pc.equal(worth.slice(1), worth.slice(0, max(len(worth) - 1, 0))).to_numpy(
                zero_copy_only=False
            )
        differs = np.ones(len(order), bool)
        differs[order[1:]] = ~same
        return differs

    def _known_points(self, kept: pa.Table, state: Mapping[str, pa.Table]) -> pa.Table:
        """The points that were there before, of groups that have records now."""
        table = self.state[POINTS]
        held = state[POINTS].select(table.schema.names) if POINTS in state else table.schema.empty_table()
        of_kept, of_held, _ = groups_of_both(kept, held)
        return held.filter(pa.array(np.isin(of_held, of_kept)))

    def _shown(self, windows: pa.Table, at_ms: np.ndarray, kept: pa.Table) -> pa.Table:
        """Changes with their places, as the node gives them. In: at_ms  of each window its commit."""
        count = windows.num_rows
        keys = group(pa.chunked_array([*windows[KEY].chunks, *kept[KEY].chunks], pa.binary())).codes
        both = combined(keys, np.concatenate([at_ms, int64(kept[INGESTED])])).codes
        cause = last_of_each(both[count:], np.argsort(places(kept)))[both[:count]]
        key, values = (*self.keys, START), [END, *(field.name for field in self.shape.aggregates.results)]
        columns = {name: windows[name] for name in (*key, *values)} | {EVENT: windows[TIMESTAMP]}
        columns |= {SIGN: pa.array(np.full(count, AFTER, np.int8))}
        columns |= {name: kept[name].take(pa.array(cause)) for name in PLACE}
        return appended_changes(with_keys(pa.table(columns), key), key, values)

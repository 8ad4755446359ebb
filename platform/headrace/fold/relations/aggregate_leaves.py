"""Aggregates of streams as sides of a join or of groups: what their records add to a group, or to a window of one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.fold.aggregates import Aggregates
from headrace.fold.changes.deltas import SHARED
from headrace.fold.fates import decide_inputs
from headrace.fold.grouped.contributions import partials_of
from headrace.fold.keys import with_keys
from headrace.fold.relations.leaf import Leaf
from headrace.fold.values.columns import MOMENT, moments
from headrace.fold.window_shape import START
from headrace.fold.windows.assign_windows import Entered, assign_windows, panes_from
from headrace.fold.windows.shape import Shape


@dataclass(frozen=True)
class TotalsLeaf(Leaf):
    """The records of a running aggregate: of each group and commit the partials.

    by          group columns
    aggregates  of the node, and ROWS
    reads       the topics of the node
    """

    part: str
    inputs: pa.Schema
    by: tuple[str, ...]
    aggregates: Aggregates
    reads: tuple[str, ...]
    per_commit: bool

    @property
    def topics(self) -> tuple[str, ...]:
        """Those of the node."""
        return self.reads

    @property
    def columns(self) -> pa.Schema:
        """The group columns and the partials."""
        return pa.schema([*(self.inputs.field(name) for name in self.by), *self.aggregates.fields])

    def decide(self, rows: pa.Table) -> pa.Table:
        """See `decide_inputs`."""
        return decide_inputs(rows, self.aggregates)

    def prepared(self, rows: pa.Table) -> pa.Table:
        """The partials of each group and commit."""
        found = partials_of(with_keys(rows, self.by), self.by, self.aggregates, per_commit=self.per_commit)
        return found.select([*self.columns.names, *SHARED])


@dataclass(frozen=True)
class WindowsLeaf(Leaf):
    """The records of tumbling or hopping windows: of each group, window and commit the partials.

    Law (L23): which windows a record enters is told by its row, so a window is the total of the records that enter it.

    shape       of the windows; their aggregates are those of the node, and ROWS
    """

    part: str
    inputs: pa.Schema
    shape: Shape
    per_commit: bool

    @property
    def topics(self) -> tuple[str, ...]:
        """Those of the node."""
        return self.shape.topics

    @property
    def key(self) -> tuple[str, ...]:
        """The group columns and the start of the window."""
        return (*self.shape.keys, START)

    @property
    def columns(self) -> pa.Schema:
        """The key, and the partials."""
        return pa.schema([*self.shape.by, (START, MOMENT), *self.shape.aggregates.fields])

    def decide(self, rows: pa.Table) -> pa.Table:
        """See `assign_windows`."""
        return assign_windows(rows, self.shape)[0]

    def prepared(self, rows: pa.Table) -> pa.Table:
        """The partials of each window and commit."""
        entered, panes = Entered.of(rows, self.shape), self.shape.panes
        count = panes.count(entered.start, entered.last)
        row = np.repeat(np.arange(len(count)), count)
        start_ms = panes_from(entered.start, count, panes)
        windows = with_keys(rows.take(pa.array(row)).append_column(START, moments(start_ms)), self.key)
        found = partials_of(windows, self.key, self.shape.aggregates, per_commit=self.per_commit)
        return found.select([*self.columns.names, *SHARED])

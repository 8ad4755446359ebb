"""The parts of a node's windows, and the columns that their steps share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.description import CalendarWindows, TimeWindows
from headrace.description.clocks import WALL
from headrace.fold.aggregates import Aggregates
from headrace.fold.contract import EVENT, INGESTED, STREAM, Clock
from headrace.fold.segments import NO_TIME
from headrace.fold.values.columns import int64
from headrace.fold.window_shape import GROUPS, PLACES, WindowShape
from headrace.fold.windows.panes import AnyPanes, panes_of

if TYPE_CHECKING:
    from headrace.description import WindowedAggregate

PANE, FROM, RECORDS = "__pane", "__from", "__records"


@dataclass(frozen=True)
class Shape(WindowShape):
    """Tumbling, hopping or calendar windows of one node.

    topics  that the node reads
    wall    whether windows go by the commit time of records, not by their event time
    """

    panes: AnyPanes
    topics: tuple[str, ...]
    wall: bool = False

    @classmethod
    def of(cls, node: WindowedAggregate, inputs: pa.Schema) -> Shape:
        """The shape of a node. In: inputs  schema of the rows: the stream's columns and ROW_COLUMNS."""
        window = node.window
        assert isinstance(window, TimeWindows | CalendarWindows)
        return cls(
            pa.schema([inputs.field(name) for name in node.by]),
            Aggregates.of(node.aggregates, inputs),
            panes_of(window, node.grace_ms),
            tuple(topic.name for topic in node.topics),
            node.clock == WALL,
        )

    @property
    def state(self) -> pa.Schema:
        """The schema of partials: one row per group, partition, pane and first open window."""
        return pa.schema(
            [
                *self.by,
                *GROUPS,
                *PLACES,
                (PANE, pa.int64()),
                (FROM, pa.int64()),
                *self.aggregates.fields,
                (RECORDS, pa.int64()),
                (EVENT, pa.int64()),
            ]
        )

    def times(self, rows: pa.Table) -> tuple[np.ndarray, np.ndarray]:
        """For each row, in ms: the time that puts it into windows, and the time that decides which windows are closed."""
        if self.wall:
            return int64(rows[INGESTED]), int64(rows[INGESTED])
        return int64(rows[EVENT]), int64(rows[STREAM], NO_TIME)

    def closed_ms(self, clock: Clock) -> int | None:
        """The time by which windows close: the lowest stream time; by the wall clock, how far the logs are read together."""
        if self.wall:
            return max(
                (clock.upto_ms[topic] for topic in self.topics if topic in clock.upto_ms), default=None
            )
        return clock.lowest_ms

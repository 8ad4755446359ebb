"""What the windows of a node are made of, and the columns that their steps share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.description import TimeWindows
from headrace.fold.aggregates import Aggregates
from headrace.fold.contract import EVENT, HASH, KEY, PARTITION, TOPIC, Clock
from headrace.fold.windows.panes import Panes

if TYPE_CHECKING:
    from headrace.description import WindowedAggregate

PANE, FROM, RECORDS = "__pane", "__from", "__records"
START, END = "window_start", "window_end"
TIMESTAMP, SEQUENCE = "__timestamp", "__sequence"


@dataclass(frozen=True)
class Shape:
    """Tumbling or hopping windows of one node.

    by      the group columns, with their types
    topics  that the node reads
    """

    by: pa.Schema
    panes: Panes
    topics: tuple[str, ...]
    aggregates: Aggregates

    @classmethod
    def of(cls, node: WindowedAggregate, inputs: pa.Schema) -> Shape:
        """The shape of a node. In: inputs  schema of the rows: the stream's columns and ROW_COLUMNS."""
        window = node.window
        assert isinstance(window, TimeWindows)
        return cls(
            pa.schema([inputs.field(name) for name in node.by]),
            Panes(window.size_ms, window.advance_ms, node.grace_ms),
            tuple(topic.name for topic in node.topics),
            Aggregates.of(node.aggregates, inputs),
        )

    @property
    def keys(self) -> tuple[str, ...]:
        """The group columns."""
        return tuple(self.by.names)

    @property
    def state(self) -> pa.Schema:
        """The schema of partials: one row per group, partition, pane and first open window."""
        return pa.schema(
            [
                *self.by,
                (KEY, pa.binary()),
                (HASH, pa.int64()),
                (TOPIC, pa.string()),
                (PARTITION, pa.int32()),
                (PANE, pa.int64()),
                (FROM, pa.int64()),
                *self.aggregates.fields,
                (RECORDS, pa.int64()),
                (EVENT, pa.int64()),
            ]
        )

    def closed_ms(self, clock: Clock) -> int | None:
        """The lowest stream time, by which windows close."""
        return clock.closing_ms(self.topics)

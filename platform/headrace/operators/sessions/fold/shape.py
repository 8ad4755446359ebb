"""The facts about a node that the steps of its session windows need, and the columns that they share."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from headrace.fold.contract import DELETED, HASH, KEY, PARTITION, TOPIC
from headrace.fold.window_shape import GROUPS, PLACES, WindowShape

# Columns of a session: its first and last event time, and the number of its records.
START, END, RECORDS = ("__start_ms", "__end_ms", "__records")
STREAM_BEFORE = "__before_ms"  # of a record: stream time of its partition before it (see `mark_raises`)


@dataclass(frozen=True)
class Shape(WindowShape):
    """Session windows of one node.

    gap_ms   the longest time between neighbours
    wait_ms  gap plus grace: a session closes when stream time reaches its last event plus this
    nodes    the topics that nodes write
    """

    gap_ms: int
    wait_ms: int
    nodes: tuple[str, ...] = ()

    @property
    def graceless(self) -> bool:
        """Whether sessions close as soon as no record within the gap can come."""
        return self.wait_ms == self.gap_ms

    @property
    def group_columns(self) -> list[str]:
        """The columns that every row of a group has in common."""
        return [*self.keys, TOPIC, PARTITION, KEY, HASH]

    @property
    def session_columns(self) -> list[str]:
        """The columns of a session: those of the state but DELETED."""
        return [*self.state.names[:-1]]

    @property
    def state(self) -> pa.Schema:
        """The schema of open sessions."""
        return pa.schema(
            [
                *self.by,
                *PLACES,
                *GROUPS,
                (START, pa.int64()),
                (END, pa.int64()),
                (RECORDS, pa.int64()),
                *self.aggregates.fields,
                (DELETED, pa.bool_()),
            ]
        )

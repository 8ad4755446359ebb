"""The updates that an aggregate or a table makes of each record, and the values of an entry after them.

The *entry* of an update is its key; with windows, its key and the window's start.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.description.table_changes import KEY_DELETED
from headrace.fold.aggregates import Aggregates
from headrace.fold.aggregates.kind import whole
from headrace.fold.contract import (
    DELETED,
    EVENT,
    INGESTED,
    OFFSET,
    PARTITION,
    SIZE,
    STREAM,
    TOPIC,
    Clock,
)
from headrace.fold.fates import TOMBSTONE, decide_inputs, is_kept, with_column, with_fate
from headrace.fold.merge_along import merge_along
from headrace.fold.tables.decide_records import decide_records
from headrace.fold.values.columns import int64, moments
from headrace.fold.windows.assign_windows import assign_windows, panes_from
from headrace.fold.windows.shape import Shape
from headrace.operators.time_limits.fold.names import FROM, START, SUB

Columns = dict[str, pa.Array]
NEEDED = (INGESTED, TOPIC, PARTITION, OFFSET, EVENT, STREAM, SIZE, FROM)


class Updates(ABC):
    """The updates of one kind of node.

    by       the columns of the key, with their types
    highest  whether an update's timestamp is the highest of its entry so far, or its record's own
    fields   what an entry is worth, as the state has it
    carried  the columns of a record that its updates are made of, beside the key
    """

    by: pa.Schema
    highest: bool
    fields: tuple[pa.Field, ...]
    carried: tuple[str, ...]

    @property
    def several(self) -> bool:
        """Whether one record can make several updates."""
        return False

    def slim(self, kept: pa.Table, *also: str) -> pa.Table:
        """Rows with no more than their updates are made of, and some other columns."""
        return kept.select([*dict.fromkeys((*self.by.names, *self.carried, *NEEDED, *also))])

    @abstractmethod
    def decide(self, rows: pa.Table) -> pa.Table:
        """Complete FATE and REASON, and add FROM: of the updates of a kept record, which comes first."""

    def exploded(self, kept: pa.Table) -> pa.Table:
        """One row for each update, with START of its entry, and SUB: the place among those of one record."""
        return kept.append_column(START, kept[FROM]).append_column(SUB, kept[FROM])

    @abstractmethod
    def worth(
        self, rows: pa.Table, wait: np.ndarray, first: np.ndarray, known: pa.Table, waits_before: np.ndarray
    ) -> Columns:
        """The values of each entry at the end of each of its waits.

        In:     rows   updates, by entry and place; wait: the number of each update's wait, rising
                first  marks the first wait of each entry
                known  the values of entries before; held: the first wait of each
        """

    @abstractmethod
    def shown(self, entries: pa.Table) -> Columns:
        """The node's columns. In: the key, START and `fields`."""

    @abstractmethod
    def forgotten(self, entries: pa.Table, clock: Clock) -> np.ndarray:
        """Which entries that do not wait no later update builds upon."""


@dataclass(frozen=True)
class Totals(Updates):
    """A record updates the totals of its group."""

    by: pa.Schema
    aggregates: Aggregates
    highest = True

    @property
    def fields(self) -> tuple[pa.Field, ...]:  # type: ignore[override]
        """Partial aggregates."""
        return self.aggregates.fields

    @property
    def carried(self) -> tuple[str, ...]:  # type: ignore[override]
        """The columns that are aggregated."""
        return self.aggregates.columns

    def decide(self, rows: pa.Table) -> pa.Table:
        """Every record with usable inputs is kept."""
        decided = decide_inputs(rows, self.aggregates)
        return with_column(decided, FROM, pa.array(np.zeros(rows.num_rows, np.int64)))

    def worth(
        self, rows: pa.Table, wait: np.ndarray, first: np.ndarray, known: pa.Table, waits_before: np.ndarray
    ) -> Columns:
        """Merged partials of all records through the wait."""
        parts = self.aggregates.partials(rows, wait, len(first))
        if known.num_rows:
            names = [field.name for field in self.fields]
            both = pa.concat_tables([pa.table({name: parts[name] for name in names}), known.select(names)])
            parts = self.aggregates.merge(
                both, np.concatenate([np.arange(len(first)), waits_before]), len(first)
            )
        return merge_along(parts, first, self.aggregates)

    def shown(self, entries: pa.Table) -> Columns:
        """The group and its totals."""
        columns = {name: whole(entries[name]) for name in self.by.names} | self._bounds(entries)
        return columns | self.aggregates.finish(entries)

    def forgotten(self, entries: pa.Table, clock: Clock) -> np.ndarray:
        """None: a total is built upon for ever."""
        return np.zeros(entries.num_rows, bool)

    def _bounds(self, entries: pa.Table) -> Columns:
        return {}


@dataclass(frozen=True)
class Windows(Totals):
    """A record updates every window that it enters, in the order of their starts."""

    shape: Shape

    @property
    def several(self) -> bool:
        """Windows may overlap."""
        return not self.shape.panes.tumbling

    def decide(self, rows: pa.Table) -> pa.Table:
        """As `assign_windows`; FROM is the first window that the record enters."""
        decided, entered = assign_windows(rows, self.shape)
        return with_column(decided, FROM, pa.array(entered.start))

    def exploded(self, kept: pa.Table) -> pa.Table:
        """One row for each window entered."""
        from_ms, panes = int64(kept[FROM]), self.shape.panes
        time_ms, _ = self.shape.times(kept)
        count = panes.count(from_ms, panes.last_start(time_ms))
        start = panes_from(from_ms, count, panes)
        rows = kept.take(pa.array(np.repeat(np.arange(len(count)), count))) if self.several else kept
        return rows.append_column(START, pa.array(start)).append_column(SUB, pa.array(start))

    def forgotten(self, entries: pa.Table, clock: Clock) -> np.ndarray:
        """Windows that are closed: every later record is late for them."""
        return np.asarray(int64(entries[START]) < self.shape.panes.first_open_ms(self.shape.closed_ms(clock)))

    def _bounds(self, entries: pa.Table) -> Columns:
        start_ms = int64(entries[START])
        return {"window_start": moments(start_ms), "window_end": moments(self.shape.panes.end(start_ms))}


@dataclass(frozen=True)
class LatestRow(Updates):
    """A record replaces the row of its key; a tombstone, or a row that fails a condition, deletes it."""

    by: pa.Schema
    values: pa.Schema
    highest = False
    gone = "__gone"

    @property
    def fields(self) -> tuple[pa.Field, ...]:  # type: ignore[override]
        """The values, and whether the row is deleted."""
        return (*self.values, pa.field(self.gone, pa.bool_()))

    @property
    def carried(self) -> tuple[str, ...]:  # type: ignore[override]
        """The values, and whether the record deletes."""
        return (*self.values.names, DELETED)

    def decide(self, rows: pa.Table) -> pa.Table:
        """Every record that has a key is kept, tombstones too, but for those before any event time of their partition.

        In a node's log there is none: the delete that such a tombstone makes has the time of the row that goes.
        """
        decided = decide_records(rows, self.by.names)
        undated = rows[EVENT].is_null().to_numpy() & is_kept(decided)
        decided = with_fate(decided, undated, TOMBSTONE)
        return with_column(decided, FROM, pa.array(np.zeros(rows.num_rows, np.int64)))

    def worth(
        self, rows: pa.Table, wait: np.ndarray, first: np.ndarray, known: pa.Table, waits_before: np.ndarray
    ) -> Columns:
        """The last record."""
        names = [field.name for field in self.fields]
        last = np.empty(len(first), np.int64)
        last[waits_before] = rows.num_rows + np.arange(known.num_rows)
        last[wait] = np.arange(rows.num_rows)  # of equal numbers the last one written stays
        gone = whole(rows[DELETED])
        there = pa.array(np.arange(rows.num_rows), mask=gone.to_numpy(zero_copy_only=False))
        columns = {name: whole(rows[name]).take(there) for name in self.values.names}
        new = pa.table([*columns.values(), gone], schema=pa.schema(self.fields))
        both = pa.concat_tables([new, known.select(names)]).take(pa.array(last))
        return {name: whole(both[name]) for name in names}

    def shown(self, entries: pa.Table) -> Columns:
        """The key, the values, null where the row was deleted, and whether it was."""
        columns = {name: whole(entries[name]) for name in (*self.by.names, *self.values.names)}
        return columns | {KEY_DELETED: whole(entries[self.gone])}

    def forgotten(self, entries: pa.Table, clock: Clock) -> np.ndarray:
        """All: a row that does not wait is replaced, not built upon."""
        return np.ones(entries.num_rows, bool)

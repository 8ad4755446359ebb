"""Windows that are rows once they are closed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.fold.aggregates.kind import highest_by, whole
from headrace.fold.changes.deltas import AFTER, KEYS, SIGN, delta_schema
from headrace.fold.changes.station import ByOwnKey, Ports, Route, Station, StationResult
from headrace.fold.contract import (
    BATCH,
    EVENT,
    HASH,
    INGESTED,
    KEY,
    OFFSET,
    PARTITION,
    TOPIC,
    Clock,
    Needs,
    StateTable,
    Times,
)
from headrace.fold.grouped.group_rows import group_schema, shown_groups
from headrace.fold.keys import group
from headrace.fold.values.columns import MOMENT, int64
from headrace.fold.window_shape import START
from headrace.fold.windows.fold_windows import closing_commits
from headrace.fold.windows.shape import Shape

START_MS = "__start_ms"
# The place of a change that no record causes, but the time of a log commit: before the records of that commit.
CLOSED_BY_TIME = {TOPIC: ("", pa.string()), PARTITION: (-1, pa.int32()), OFFSET: (-1, pa.int64())}


@dataclass
class FinalWindows(Station):
    """The windows of a stream that are closed. State: the partials of those that are open; rows of a window add up.

    Law (L5, L23): a window is there after the first commit at which the lowest stream time of its topics has reached its end
    and grace. No record enters it afterwards, so it never changes.

    shape  of the windows; their aggregates are those of the node, and ROWS
    """

    part: str
    shape: Shape
    per_commit: bool = True
    timed = True

    def __post_init__(self) -> None:
        self.routes: Mapping[str, Route] = {self.part: ByOwnKey()}
        self.by = pa.schema([*self.shape.by, (START, MOMENT)])
        self.columns = group_schema(self.by, self.shape.aggregates, windowed=True)
        self.kept = pa.schema(
            [*self.by, *self.shape.aggregates.fields, *KEYS, (START_MS, pa.int64()), (EVENT, pa.int64())]
        )
        table = StateTable(self.kept, (START_MS, HASH), self._merged, START_MS, self._expired)
        self.state: Mapping[str, StateTable] = {self._state: table}

    def needs(self, ports: Ports, times: Times) -> Mapping[str, Needs]:
        """The windows that close."""
        closing = self._closing(times)
        return {} if closing is None else {self._state: Needs(times=closing)}

    def fold(self, ports: Ports, state: Ports, times: Times) -> StationResult:
        """See the class."""
        partials = ports[self.part]
        starts = pa.array(int64(partials[START].cast(pa.int64())) // 1000)
        partials = partials.append_column(START_MS, starts).select(self.kept.names).cast(self.kept)
        known = state.get(self._state, self.state[self._state].empty()).select(self.kept.names)
        first_ms, last_ms = self._closing(times) or (0, -1)
        both = pa.concat_tables([known, partials])
        closes = (int64(both[START_MS]) >= first_ms) & (int64(both[START_MS]) <= last_ms)
        first_open_ms = self.shape.panes.first_open_ms(self.shape.closed_ms(times.after))
        is_open = int64(partials[START_MS]) >= first_open_ms
        closed = self._summed(both.filter(pa.array(closes)))
        return StationResult(self._deltas(closed, times), {self._state: partials.filter(pa.array(is_open))})

    @property
    def _state(self) -> str:
        return f"{self.part}_open"

    def _closing(self, times: Times) -> tuple[int, int] | None:
        """First and last start of the windows that close in a micro-batch; None: none does."""
        return self.shape.panes.closing(self.shape.closed_ms(times.before), self.shape.closed_ms(times.after))

    def _deltas(self, closed: pa.Table, times: Times) -> pa.Table:
        count = closed.num_rows
        columns = {name: closed[name] for name in (*self.by.names, *KEYS.names, EVENT)}
        columns |= shown_groups(closed, self.shape.aggregates, self.shape.panes)
        columns[INGESTED] = pa.array(closing_commits(pa.table(columns), self.shape, times), pa.int64())
        columns |= {n: pa.repeat(pa.scalar(value, of), count) for n, (value, of) in CLOSED_BY_TIME.items()}
        columns[SIGN] = pa.array(np.full(count, AFTER, np.int8))
        schema = delta_schema(self.columns)
        return pa.table(columns).select(schema.names).cast(schema)

    def _summed(self, rows: pa.Table) -> pa.Table:
        """The partials of each window as one row."""
        groups = group(rows[KEY])
        first = pa.array(groups.first)
        columns = {name: whole(rows[name]).take(first) for name in (*self.by.names, *KEYS.names, START_MS)}
        columns |= self.shape.aggregates.merge(rows, groups.codes, len(groups))
        columns[EVENT] = pa.array(highest_by(groups.codes, len(groups), int64(rows[EVENT])))
        return pa.table(columns).select(self.kept.names).cast(self.kept)

    def _merged(self, rows: pa.Table) -> pa.Table:
        """See `StateTable.merge`."""
        groups = group(rows[KEY])
        batch = highest_by(groups.codes, len(groups), int64(rows[BATCH]))
        return self._summed(rows).append_column(BATCH, pa.array(batch).cast(pa.int32()))

    def _expired(self, rows: pa.Table, after: Clock) -> pa.Array:
        """Windows that are closed."""
        first_ms = self.shape.panes.first_open_ms(self.shape.closed_ms(after))
        return pa.array(int64(rows[START_MS]) < first_ms)

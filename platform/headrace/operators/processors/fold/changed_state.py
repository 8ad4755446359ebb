"""The gains of the state once groups were called: rows of timers, of reminders, and of entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.description.processor import STREAM, WALL
from headrace.fold.contract import DELETED, HASH, KEY, StateTable
from headrace.operators.processors.fold.context import Group
from headrace.operators.processors.fold.shape import Shape, StoreShape
from headrace.operators.processors.fold.state_tables import (
    CLOCK,
    DUE,
    INTERVAL,
    METHOD,
    NAME,
    ONCE,
    STREAM_DUE,
    TIMERS,
    WALL_DUE,
    entry_columns,
    named,
    store_table,
)


@dataclass(frozen=True)
class ChangedState:
    """The rows that state tables gain.

    state        the tables
    groups       that were called, with what they hold now
    keys         KEY and HASH of each
    initial      the names of the timers that `init` schedules
    frontier_ms  through which commit time the logs were read
    """

    shape: Shape
    state: Mapping[str, StateTable]
    groups: Sequence[Group]
    keys: pa.Table
    initial: frozenset[str]
    frontier_ms: int

    def rows(self) -> dict[str, pa.Table]:
        """By table."""
        found = {store_table(store.name): self._entries(store) for store in self.shape.stores}
        if TIMERS in self.state:
            found[TIMERS] = self._timers()
        if STREAM_DUE in self.state:
            found[STREAM_DUE] = self._reminders(STREAM)
        if WALL_DUE in self.state:
            found[WALL_DUE] = self._reminders(WALL)
        return found

    def _entries(self, store: StoreShape) -> pa.Table:
        """Entries that were put, and those that are gone."""
        who, rows, gone = list[Group](), list[tuple[Any, ...]](), list[bool]()
        nothing = (None,) * (len(store.value) + store.has_ttl)
        for each in self.groups:
            entries = each.stores[store.name]
            for key in entries.changed:
                value = entries.values.get(key)
                if value is not None or key in entries.known:
                    who.append(each)
                    rows.append((*key, *(nothing if value is None else value)))
                    gone.append(value is None)
        columns = zip(*rows, strict=True) if rows else ((),) * len(entry_columns(store))
        values = dict(zip(entry_columns(store), columns, strict=True))
        return self._table(store_table(store.name), who, {**values, DELETED: gone})

    def _timers(self) -> pa.Table:
        """Timers that were set, and those that are gone; of those of `init` it is remembered that they are."""
        changed = [(each, each.timers[name]) for each in self.groups for name in each.changed]
        some = [timer for _, timer in changed]
        values: dict[str, Iterable[Any]] = {
            NAME: (timer.name for timer in some),
            METHOD: (timer.method for timer in some),
            CLOCK: (timer.clock for timer in some),
            INTERVAL: (timer.interval_ms for timer in some),
            ONCE: (timer.once for timer in some),
            DUE: (timer.due_ms for timer in some),
            DELETED: (timer.due_ms is None and timer.name not in self.initial for timer in some),
        }
        return self._table(TIMERS, [each for each, _ in changed], values)

    def _reminders(self, clock: str) -> pa.Table:
        """When to look at which hashes.

        A timer of the wall clock may be due at a time that the logs were read through, and that no log commit has reached:
        the next increment has to look at it.
        """
        soonest = self.frontier_ms + 1 if clock == WALL else None
        due = [
            (each.number, timer.due_ms if soonest is None else max(timer.due_ms, soonest))
            for each in self.groups
            for timer in each.timers.values()
            if timer.clock == clock
            and timer.due_ms is not None
            and (timer.name in each.changed or (soonest is not None and timer.due_ms < soonest))
        ]
        who, due_ms = (
            pa.array(column, pa.int64()) for column in (zip(*due, strict=True) if due else ((), ()))
        )
        own = self.keys.take(who)
        return pa.table({KEY: own[KEY], HASH: own[HASH], DUE: due_ms})

    def _table(self, name: str, who: Sequence[Group], values: Mapping[str, Iterable[Any]]) -> pa.Table:
        """Rows of a state table. In: who  the group of each row; values: its other columns."""
        schema = self.state[name].schema
        own = self.keys.take(pa.array([each.number for each in who], pa.int64()))
        columns: dict[str, Any] = {KEY: own[KEY], HASH: own[HASH]}
        for field in self.shape.group:
            columns[named("by", field).name] = pa.array([each.key[field.name] for each in who], field.type)
        for column, some in values.items():
            columns[column] = pa.array([*some], schema.field(column).type)
        return pa.table([columns[column] for column in schema.names], schema=schema)

"""The state of processors: timers, reminders of when they are due, and the entries of stores.

Timers are found by group, reminders by time: a reminder says which hashes to look at when a clock has reached it. One that
is out of date makes a group be looked at for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.contract import DELETED, HASH, KEY, Clock, StateTable
from headrace.fold.keys import combined, group, newest
from headrace.fold.segments import HIGHEST, LOWEST
from headrace.fold.values.columns import int64
from headrace.operators.processors.fold.shape import Shape, StoreShape

TIMERS, STREAM_DUE, WALL_DUE = "timers", "stream_due", "wall_due"
NAME, METHOD, CLOCK, INTERVAL, ONCE, DUE = (
    "__name",
    "__method",
    "__clock",
    "__interval_ms",
    "__once",
    "__due_ms",
)
ENDS = "__ends_ms"  # of an entry with a time to live; null: it has none
_STORE = "store_"
BEGIN = LOWEST + 1  # due as soon as a clock has begun


def tables_of(shape: Shape) -> dict[str, StateTable]:
    """All state tables of a processor."""
    found = {store_table(store.name): _entries(shape, store) for store in shape.stores}
    if not shape.has_timers:
        return found
    key, hashed = pa.field(KEY, pa.binary()), pa.field(HASH, pa.int64())
    own = [
        (NAME, pa.string()),
        (METHOD, pa.string()),
        (CLOCK, pa.string()),
        (INTERVAL, pa.int64()),
        (ONCE, pa.bool_()),
    ]
    rest = [pa.field(name, of) for name, of in [*own, (DUE, pa.int64()), (DELETED, pa.bool_())]]
    timers = pa.schema([key, hashed, *(named("by", field) for field in shape.group), *rest])
    found[TIMERS] = StateTable(timers, (HASH,), partial(newest, of=(KEY, NAME)), expired=_is_deleted)
    reminder = pa.schema([key, hashed, pa.field(DUE, pa.int64())])
    if shape.by_partition:
        return found
    if shape.stream_wait_ms is not None:
        is_over = partial(_stream_is_over, shape=shape)
        found[STREAM_DUE] = StateTable(reminder, (DUE, HASH), _once, DUE, is_over)
    if shape.wall_wait_ms is not None:
        found[WALL_DUE] = StateTable(
            reminder, (DUE, HASH), _once, DUE, partial(_wall_is_over, topics=shape.read)
        )
    return found


def store_table(name: str) -> str:
    """The state table of a store."""
    return f"{_STORE}{name}"


def stores_in(tables: Iterable[str]) -> list[str]:
    """The names of the stores that have tables among those of a state."""
    return [name.removeprefix(_STORE) for name in tables if name.startswith(_STORE)]


def named(side: str, field: pa.Field) -> pa.Field:
    """A user's column in a state table: those of group, key and value may have equal names."""
    return field.with_name(f"{side}_{field.name}").with_nullable(True)


def entry_columns(store: StoreShape) -> list[str]:
    """The names of a store's columns in its table; with a time to live the last one is ENDS."""
    own = [
        named(side, field).name
        for side, fields in (("key", store.key), ("value", store.value))
        for field in fields
    ]
    return [*own, ENDS] if store.has_ttl else own


def shown_entries(shape: Shape, store: str, rows: pa.Table, clock: Clock) -> pa.Table:
    """Entries under the users' own names. In: merged rows of a store's table; the clock after the last log commit."""
    expired = tables_of(shape)[store_table(store)].expired
    assert expired is not None
    rows = rows.filter(pc.invert(expired(rows, clock)))
    found = {}
    for name in rows.column_names:
        side, _, own = name.partition("_")
        if side in ("by", "key", "value"):
            found[own] = rows[name]
    return pa.table(found)


def frontier_ms(clock: Clock, topics: Sequence[str]) -> int:
    """How far the logs were read together."""
    return max((clock.upto_ms[topic] for topic in topics if topic in clock.upto_ms), default=0)


def lowest_ms(clock: Clock, grace_ms: int = 0) -> int:
    """The stream clock of groups: the lowest stream time, less a grace; LOWEST: it has not begun."""
    found = clock.lowest_ms
    return LOWEST if found is None else found - grace_ms


def _entries(shape: Shape, store: StoreShape) -> StateTable:
    key, value = (
        [named(side, field) for field in of] for side, of in (("key", store.key), ("value", store.value))
    )
    group_of = [named("by", field) for field in shape.group]
    shared = [pa.field(KEY, pa.binary()), pa.field(HASH, pa.int64())]
    ends = [pa.field(ENDS, pa.int64())] if store.has_ttl else []
    schema = pa.schema([*shared, *group_of, *key, *value, *ends, pa.field(DELETED, pa.bool_())])
    merge = partial(newest, of=(KEY, *(field.name for field in key)))
    expired = _is_deleted if store.lives_ms is None else partial(_has_ended, shape=shape, store=store)
    return StateTable(schema, (HASH,), merge, expired=expired)


def _once(rows: pa.Table) -> pa.Table:
    if not rows.num_rows:
        return rows
    first = combined(group(rows[KEY]).codes, int64(rows[DUE])).first
    return rows.take(pa.array(np.sort(first)))


def _is_deleted(rows: pa.Table, after: Clock) -> pa.Array:
    return rows[DELETED].combine_chunks()


def _has_ended(rows: pa.Table, after: Clock, *, shape: Shape, store: StoreShape) -> pa.Array:
    """Deleted entries, and those whose end the stream clock of their group has reached."""
    ends = int64(rows[ENDS], null=HIGHEST) if store.has_ttl else _ends_of_keys(rows, store)
    over: int | np.ndarray = lowest_ms(after, shape.grace_ms)
    if shape.by_partition:
        places = [rows[named("by", field).name].to_pylist() for field in shape.group]
        reached = [after.partition_ms(place) for place in zip(*places, strict=True)]
        over = np.array([LOWEST if ms is None else ms for ms in reached], np.int64)
    return pc.or_(_is_deleted(rows, after), pa.array(ends <= over))


def _ends_of_keys(rows: pa.Table, store: StoreShape) -> np.ndarray:
    last = rows[named("key", store.key[-1]).name].cast(pa.int64())  # microseconds
    return int64(last) // 1000 + (store.lives_ms or 0)


def _stream_is_over(rows: pa.Table, after: Clock, *, shape: Shape) -> pa.Array:
    return pa.array(int64(rows[DUE]) <= lowest_ms(after, shape.grace_ms))


def _wall_is_over(rows: pa.Table, after: Clock, *, topics: Sequence[str]) -> pa.Array:
    return pa.array(int64(rows[DUE]) <= frontier_ms(after, topics))

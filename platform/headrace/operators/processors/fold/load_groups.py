"""Groups as the state has them, and records as lists: what user code reads, of all groups at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.contract import DELETED, EVENT, INGESTED, OFFSET, PARTITION, STREAM, TOPIC
from headrace.fold.keys import canonical
from headrace.operators.processors.fold.context import Group, Scheduled
from headrace.operators.processors.fold.release import MOMENT
from headrace.operators.processors.fold.run_groups import Records
from headrace.operators.processors.fold.shape import Shape, StoreShape
from headrace.operators.processors.fold.state_tables import (
    CLOCK,
    DUE,
    INTERVAL,
    METHOD,
    NAME,
    ONCE,
    TIMERS,
    entry_columns,
    named,
    store_table,
)
from headrace.operators.processors.fold.stores.stores import Entries

POSITION = (TOPIC, PARTITION, OFFSET)
TIMES = (INGESTED, EVENT, STREAM)


def load_groups(
    shape: Shape,
    records: tuple[pa.Table, np.ndarray],
    tables: Mapping[str, tuple[pa.Table, np.ndarray]],
    count: int,
) -> list[Group]:
    """All groups, as the state has them.

    In: records  the records, and the number of each one's group
        tables   the same of the timers and of each store's entries
        count    how many groups there are
    """
    own = [named("by", field).name for field in shape.group]
    keys = [({name: records[0][name] for name in shape.by}, records[1])]
    keys += [({name: table[name] for name in own}, code) for table, code in tables.values()]
    groups = _groups(shape, keys, count)
    for name, (table, code) in tables.items():
        if name == TIMERS:
            _fill_timers(groups, table, code)
    for store in shape.stores:
        _fill_store(groups, store, *tables[store_table(store.name)])
    return groups


def listed_records(shape: Shape, kept: pa.Table, commit: np.ndarray, late: np.ndarray) -> Records:
    """Records as lists. In: rows with MOMENT; the number of the log commit that gives each; whether it came late."""
    columns, position, times = (
        [_listed(kept[name]) for name in of] for of in (shape.columns, POSITION, TIMES)
    )
    moments = _listed(kept[MOMENT])
    return Records(shape.columns, columns, position, times, moments, commit.tolist(), late.tolist())


def _groups(
    shape: Shape, keys: Sequence[tuple[Mapping[str, pa.ChunkedArray], np.ndarray]], count: int
) -> list[Group]:
    """A group of each number, with the columns of its key. In: these columns of some rows, and the group of each."""
    found: dict[int, Group] = {}
    names = [field.name for field in shape.group]
    for columns, code in keys:
        numbers, first = np.unique(code, return_index=True)
        chosen = [_listed(canonical(_whole(column.take(pa.array(first))))) for column in columns.values()]
        for number, *values in zip(numbers.tolist(), *chosen, strict=True):
            if number not in found:
                found[number] = Group(number, dict(zip(names, values, strict=True)))
    return [found[number] for number in range(count)]


def _fill_timers(groups: Sequence[Group], rows: pa.Table, code: np.ndarray) -> None:
    rows = rows.append_column("code", pa.array(code)).filter(pc.invert(rows[DELETED]))
    names = ("code", NAME, METHOD, CLOCK, INTERVAL, ONCE, DUE)
    for number, *timer in zip(*(_listed(rows[name]) for name in names), strict=True):
        groups[number].timers[timer[0]] = Scheduled(*timer)


def _fill_store(groups: Sequence[Group], store: StoreShape, rows: pa.Table, code: np.ndarray) -> None:
    entries = [each.stores.setdefault(store.name, Entries()) for each in groups]
    rows = rows.append_column("code", pa.array(code)).filter(pc.invert(rows[DELETED]))
    width = len(store.key)
    columns = (_listed(rows[name]) for name in entry_columns(store))
    for number, *values in zip(_listed(rows["code"]), *columns, strict=True):
        mine, key = entries[number], tuple(values[:width])
        mine.values[key] = tuple(values[width:])
        mine.known.add(key)


def _listed(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    found: list[Any] = column.to_pylist()
    return found


def _whole(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found

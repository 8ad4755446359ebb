"""One global table at each place of an increment: the rows before it, and the versions in it.

Law: a key finds the row that counts among its versions before the place, by the table's order; see `tables_as_of`.
Work: rows before the increment become Python values when they are asked for. All else on them is passes of Arrow over the
columns of keys. The first key that no record names costs an index over all keys.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.contract import EVENT
from headrace.fold.group_order import order_by_group
from headrace.fold.keys import group, key_of_row
from headrace.fold.lookups.latest import highest_so_far, in_table_order
from headrace.fold.lookups.sides import ABSENT
from headrace.fold.positions import order_of, position_columns
from headrace.fold.values.columns import int64
from headrace.operators.processors.fold.global_tables.global_tables import TableShape
from headrace.operators.processors.fold.stores.stores import Key, Value

BEFORE = -1  # the number of a version that stands before the increment
Entries = tuple[list[Key], list[Value]]


class TableInLog:
    """One global table."""

    def __init__(
        self, of: TableShape, before: pa.Table, arrived: tuple[pa.Table, np.ndarray], records: pa.Table
    ) -> None:
        """In: before  the rows before the increment, one of each key (see `TableShape.versions`).

        arrived  the versions in the increment, in the order of the logs, and the number of each among those of all tables
        records  of the increment
        """
        rows, number = arrived
        changes = _has_key_of(before, rows, of)
        older = before.take(pa.array(np.flatnonzero(changes)))
        numbers = np.concatenate([np.full(older.num_rows, BEFORE), number])
        self._changed = _Versions(of, pa.concat_tables([older, rows]).combine_chunks(), numbers)
        self._kept = _Rows(of, before, changes, records)
        self._entries: tuple[int, Entries] | None = None

    def value(self, key: Key, seen: int) -> Value | None:
        """The value of a key as of a place; None: there is no row.

        In: seen  how many versions of the increment stand before the place
        """
        return self._changed.value(key, seen) if key in self._changed.codes else self._kept.value(key)

    def entries(self, seen: int) -> Entries:
        """All keys and values as of a place, in the order of keys."""
        if self._entries is None or self._entries[0] != seen:
            found = sorted([*self._kept.entries, *self._changed.entries(seen)], key=itemgetter(0))
            self._entries = seen, ([key for key, _ in found], [value for _, value in found])
        return self._entries[1]


class _Rows:
    """The rows before the increment, one of each key.

    changes  marks those whose keys change in it
    """

    def __init__(self, of: TableShape, rows: pa.Table, changes: np.ndarray, records: pa.Table) -> None:
        self._of, self._rows, self._changes, self._records = of, rows, changes, records
        self._absent = rows[ABSENT].to_numpy()

    def value(self, key: Key) -> Value | None:
        """See `TableInLog.value`. In: key  one that does not change."""
        row = self._near[key] if key in self._near else self._codes.get(key)
        return None if row is None or self._absent[row] else _value(self._rows, self._of, row)

    @cached_property
    def entries(self) -> list[tuple[Key, Value]]:
        """The keys that do not change and their values, in the order of keys."""
        return _entries(self._rows.filter(pa.array(~(self._changes | self._absent))), self._of)

    @cached_property
    def _near(self) -> dict[Key, int | None]:
        """The row of each value that a record holds in a column of the key's type; None: there is none."""
        of = self._of.key
        own = [name for name in self._records.column_names if not name.startswith("__")]
        like = [name for name in own if len(of) == 1 and self._records.schema.field(name).type == of[0].type]
        if not like:
            return {}
        chunks = [chunk for name in like for chunk in self._records[name].chunks]
        values = pc.unique(pa.chunked_array(chunks, of[0].type))
        found = pc.index_in(values, value_set=self._rows[of[0].name].combine_chunks())
        return {(value,): row for value, row in zip(values.to_pylist(), found.to_pylist(), strict=True)}

    @cached_property
    def _codes(self) -> dict[Key, int]:
        return {key: row for row, key in enumerate(_tuples(self._rows, self._of.key))}


class _Versions:
    """The versions of the keys that change in the increment. Arrays are by key, and then in the order of the logs.

    number  of each among the versions of all tables
    """

    def __init__(self, of: TableShape, rows: pa.Table, number: np.ndarray) -> None:
        self._of, self._rows, self._number = of, rows, number
        self._absent = rows[ABSENT].to_numpy()
        self._values: dict[int, Value] = {}

    def value(self, key: Key, seen: int) -> Value | None:
        """See `TableInLog.value`. In: key  one of theirs."""
        code = self.codes[key]
        first = self._starts[code]
        at = bisect_left(self._numbers, seen, first, self._starts[code + 1])
        row = int(self._counts[at - 1]) if at > first else -1
        if row < 0 or self._absent[row]:
            return None
        if row not in self._values:
            self._values[row] = _value(self._rows, self._of, row)
        return self._values[row]

    def entries(self, seen: int) -> list[tuple[Key, Value]]:
        """Their keys and values as of a place, in the order of keys."""
        starts = np.array(self._starts, np.int64)
        # More than any number, and than any place after all of them.
        wide = int(self._number.max(initial=0)) + 2
        keys = min(seen, wide - 1) + wide * np.arange(len(starts) - 1)
        before = np.searchsorted(np.array(self._numbers, np.int64) + wide * self._code, keys)
        rows = self._counts[before[before > starts[:-1]] - 1]
        return _entries(self._rows.take(pa.array(rows[~self._absent[rows]])), self._of)

    @cached_property
    def codes(self) -> dict[Key, int]:
        """The number of each key."""
        first = self._rows.take(pa.array(self._groups[1]))
        return {key: code for code, key in enumerate(_tuples(first, self._of.key))}

    @cached_property
    def _groups(self) -> tuple[np.ndarray, np.ndarray]:
        """The number of each version's key, and for each key one version."""
        if not self._rows.num_rows:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        same = group(key_of_row(self._rows, [field.name for field in self._of.key])[0])
        return same.codes, same.first

    @cached_property
    def _sequence(self) -> np.ndarray:
        """The versions by key, and then in the order of the logs."""
        return order_by_group(self._groups[0], self._number)

    @cached_property
    def _code(self) -> np.ndarray:
        found: np.ndarray = self._groups[0][self._sequence]
        return found

    @cached_property
    def _starts(self) -> list[int]:
        """Where each key begins; last, how many versions there are."""
        found: list[int] = np.searchsorted(self._code, np.arange(len(self._groups[1]) + 1)).tolist()
        return found

    @cached_property
    def _numbers(self) -> list[int]:
        found: list[int] = self._number[self._sequence].tolist()
        return found

    @cached_property
    def _counts(self) -> np.ndarray:
        """The row that counts after each version: the last one by the table's order, of those through it."""
        rows, codes = self._rows, self._groups[0]
        place = order_of(position_columns(rows))
        in_order = in_table_order(codes, place, int64(rows[EVENT]), by_timestamp=self._of.by_timestamp)
        found: np.ndarray = in_order[highest_so_far(self._sequence, in_order, rows.num_rows)]
        return found


def _has_key_of(rows: pa.Table, others: pa.Table, of: TableShape) -> np.ndarray:
    """Marks of the rows whose key others have; some rows more, if a key has several columns."""
    found = np.full(rows.num_rows, others.num_rows > 0)
    for field in of.key if others.num_rows else ():
        values = others[field.name].combine_chunks()
        found &= pc.is_in(rows[field.name], value_set=values).to_numpy()
    return found


def _value(rows: pa.Table, of: TableShape, row: int) -> Value:
    return tuple(rows[field.name][row].as_py() for field in of.value)


def _entries(rows: pa.Table, of: TableShape) -> list[tuple[Key, Value]]:
    found = zip(_tuples(rows, of.key), _tuples(rows, of.value), strict=True)
    return sorted(found, key=itemgetter(0))


def _tuples(rows: pa.Table, fields: tuple[pa.Field, ...]) -> list[tuple[Any, ...]]:
    columns = [rows[field.name].to_pylist() for field in fields]
    return [*zip(*columns, strict=True)] if columns else [()] * rows.num_rows

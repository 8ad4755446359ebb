"""Global tables as user code reads them: as of the place at which it stands.

Law (L39): a record finds the versions that stand before it in the order of the logs. A timer by the wall clock finds those
of earlier log commits; a timer by the stream clock, and `close`, also those of its own. The last one by the table's order
counts.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import cached_property
from operator import itemgetter
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description import ProcessorError
from headrace.description.stores import KEY_VALUE
from headrace.fold.columns import int64
from headrace.fold.contract import EVENT, INGESTED, TOPIC
from headrace.fold.group_order import order_by_group
from headrace.fold.keys import group, key_of_row
from headrace.fold.lookups.latest import highest_so_far, in_table_order
from headrace.fold.lookups.sides import ABSENT, SIDE
from headrace.fold.positions import POSITION, order_of, position_columns
from headrace.fold.processors.global_tables import Packing, TableShape
from headrace.fold.processors.shape import StoreShape
from headrace.fold.processors.stores import GroupStore, Key, Value


class TablesAsOf:
    """The global tables of an increment.

    stores  by name, as of where user code stands
    seen    how many versions, of all tables, stand before that; None: it stands nowhere
    """

    def __init__(self, packing: Packing, versions: pa.Table, records: pa.Table) -> None:
        """In: versions  as rows (see `Packing`), those before the increment among them; records: in their order."""
        self.seen: int | None = None
        order, self._before = _places(packing, versions, records)
        versions = versions.take(pa.array(order)).combine_chunks()
        self._at_ms = int64(versions[INGESTED]).tolist()
        sides = versions[SIDE].to_numpy()
        self.stores = {}
        for each in packing.tables:
            mine = np.flatnonzero(sides == each.side)
            rows = each.read(versions.take(pa.array(mine))).combine_chunks()
            self.stores[each.name] = GlobalStore(each, _Versions(each, rows, mine), lambda: self.seen)

    def at_record(self, number: int) -> None:
        """Stand at a record."""
        self.seen = int(self._before[number])

    def before_commit(self, at_ms: int) -> None:
        """Stand before a log commit."""
        self.seen = bisect_left(self._at_ms, at_ms)

    def after_commit(self, at_ms: int) -> None:
        """Stand after a log commit."""
        self.seen = bisect_right(self._at_ms, at_ms)


class GlobalStore(GroupStore):
    """A global table as user code sees it."""

    def __init__(self, of: TableShape, versions: _Versions, seen: Callable[[], int | None]) -> None:
        super().__init__(StoreShape(of.name, of.key, of.value, KEY_VALUE, None), lambda: 0)
        self._versions, self._seen = versions, seen

    def put(self, *key_and_value: Any) -> None:
        """See the base class."""
        self._refuse("put")

    def delete(self, *key: Any) -> None:
        """See the base class."""
        self._refuse("delete")

    def _refuse(self, what: str) -> NoReturn:
        raise ProcessorError(
            f"Store '{self._name}': {what}: it is a global table, which processors only read.",
            hint="Write to a store of the group: stores=[hr.key_value_store('…', '…', '…')].",
        )

    def _get(self, key: Key) -> Any:
        found = self._versions.value(key, self._stands_at)
        return None if found is None else self._shown(found)

    def _sorted(self, lowest: Key | None = None, highest: Key | None = None) -> list[tuple[Key, Any]]:
        keys, values = self._versions.entries(self._stands_at)
        first = 0 if lowest is None else bisect_left(keys, lowest)
        end = len(keys) if highest is None else bisect_right(keys, highest)
        return [
            (key, self._shown(value)) for key, value in zip(keys[first:end], values[first:end], strict=True)
        ]

    @property
    def _stands_at(self) -> int:
        seen = self._seen()
        if seen is None:
            raise ProcessorError(
                f"Store '{self._name}': there is no place in the logs in init, as of which the table could be read.",
                hint="Read it in process, in a timer's method, or in close.",
            )
        return seen


class _Versions:
    """The versions of one table. Arrays are by key, and then in the order of the logs.

    number  of each among the versions of all tables
    """

    def __init__(self, of: TableShape, rows: pa.Table, number: np.ndarray) -> None:
        self._of, self._rows, self._number = of, rows, number
        self._absent = rows[ABSENT].to_numpy()
        self._values: dict[int, Value] = {}
        self._entries: tuple[int, tuple[list[Key], list[Value]]] | None = None

    def value(self, key: Key, seen: int) -> Value | None:
        """The value of a key as of a place; None: there is no row. In: seen  how many versions stand before the place."""
        code = self._codes.get(key)
        if code is None:
            return None
        first = self._starts[code]
        at = bisect_left(self._numbers, seen, first, self._starts[code + 1])
        row = int(self._counts[at - 1]) if at > first else -1
        if row < 0 or self._absent[row]:
            return None
        if row not in self._values:
            self._values[row] = tuple(self._rows[field.name][row].as_py() for field in self._of.value)
        return self._values[row]

    def entries(self, seen: int) -> tuple[list[Key], list[Value]]:
        """All keys and values as of a place, in the order of keys."""
        if self._entries is None or self._entries[0] != seen:
            self._entries = seen, self._read(seen)
        return self._entries[1]

    def _read(self, seen: int) -> tuple[list[Key], list[Value]]:
        starts = np.array(self._starts, np.int64)
        wide = (
            int(self._number.max(initial=0)) + 2
        )  # more than any number, and than any place after all of them
        keys = min(seen, wide - 1) + wide * np.arange(len(starts) - 1)
        before = np.searchsorted(np.array(self._numbers, np.int64) + wide * self._code, keys)
        rows = self._counts[before[before > starts[:-1]] - 1]
        found = self._rows.take(pa.array(rows[~self._absent[rows]]))
        entries = sorted(
            zip(_tuples(found, self._of.key), _tuples(found, self._of.value), strict=True), key=itemgetter(0)
        )
        return [key for key, _ in entries], [value for _, value in entries]

    @cached_property
    def _groups(self) -> tuple[np.ndarray, np.ndarray]:
        """The number of each version's key, and for each key one version."""
        if not self._rows.num_rows:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        same = group(key_of_row(self._rows, [field.name for field in self._of.key])[0])
        return same.codes, same.first

    @cached_property
    def _codes(self) -> dict[Key, int]:
        """The number of each key."""
        first = self._rows.take(pa.array(self._groups[1]))
        return {key: code for code, key in enumerate(_tuples(first, self._of.key))}

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


def _places(packing: Packing, versions: pa.Table, records: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """The versions in the order of the logs, and how many of them stand before each record.

    At one place the record comes first: it does not find what it says itself. The versions of some topics follow from a
    whole log commit, and stand after its records.
    """
    both = pa.concat_tables([versions.select(POSITION), records.select(POSITION)])
    is_told = np.zeros(both.num_rows, bool)
    is_told[: versions.num_rows] = pc.is_in(
        versions[TOPIC], value_set=pa.array(packing.told, pa.string())
    ).to_numpy()
    place = order_of(position_columns(both))
    is_version = np.arange(both.num_rows) < versions.num_rows
    in_order = np.lexsort((is_version, place, is_told, int64(both[INGESTED])))
    before = np.cumsum(is_version[in_order])
    found = np.empty(both.num_rows, np.int64)
    found[in_order] = before
    return in_order[is_version[in_order]], found[versions.num_rows :]


def _tuples(rows: pa.Table, fields: tuple[pa.Field, ...]) -> list[tuple[Any, ...]]:
    columns = [rows[field.name].to_pylist() for field in fields]
    return [*zip(*columns, strict=True)] if columns else [()] * rows.num_rows

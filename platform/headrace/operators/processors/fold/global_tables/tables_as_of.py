"""Global tables as user code reads them: as of the place at which it stands.

Law (L39): a record finds the versions that stand before it in the order of the logs. A timer by the wall clock finds those
of earlier log commits; a timer by the stream clock, and `close`, also those of its own. The last one by the table's order
counts. The records up to the log commit that completes the tables, if that is waited for, find those of this commit, too.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description import ProcessorError
from headrace.description.stores import KEY_VALUE
from headrace.fold.contract import INGESTED, TOPIC
from headrace.fold.lookups.sides import SIDE
from headrace.fold.positions import POSITION, order_of, position_columns
from headrace.fold.segments import HIGHEST
from headrace.fold.values.columns import int64
from headrace.operators.processors.fold.global_tables.global_tables import Packing, TableShape
from headrace.operators.processors.fold.global_tables.table_in_log import TableInLog
from headrace.operators.processors.fold.shape import StoreShape
from headrace.operators.processors.fold.stores.stores import GroupStore, Key


class TablesAsOf:
    """The global tables of an increment.

    stores  by name, as of where user code stands
    seen    how many versions of the increment, of all tables, stand before that; None: it stands nowhere
    """

    def __init__(
        self,
        packing: Packing,
        versions: pa.Table,
        records: pa.Table,
        at_ms: Sequence[int],
        completed_ms: int | None = None,
    ) -> None:
        """In: versions  as rows (see `Packing`), those before the increment among them; records: in their order.

        at_ms         commit times of the increment, rising
        completed_ms  that which completes tables that are waited for; None: none does
        """
        self.seen: int | None = None
        versions = versions.combine_chunks()
        is_held = int64(versions[INGESTED]) < (at_ms[0] if at_ms else HIGHEST)
        came = versions.take(pa.array(np.flatnonzero(~is_held)))
        order, self._before = _places(packing, came, records, completed_ms)
        came = came.take(pa.array(order)).combine_chunks()
        self._at_ms = int64(came[INGESTED]).tolist()
        of_held, of_came = (rows[SIDE].to_numpy() for rows in (versions, came))
        self.stores = {}
        for each in packing.tables:
            mine = np.flatnonzero(of_came == each.side)
            rows = each.read(came.take(pa.array(mine))).combine_chunks()
            before = each.read(versions).filter(pa.array(is_held & (of_held == each.side))).combine_chunks()
            table = TableInLog(each, before, (rows, mine), records)
            self.stores[each.name] = GlobalStore(each, table, lambda: self.seen)

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

    def __init__(self, of: TableShape, table: TableInLog, seen: Callable[[], int | None]) -> None:
        super().__init__(StoreShape(of.name, of.key, of.value, KEY_VALUE, None), lambda: 0)
        self._table, self._seen = table, seen

    def get(self, *key: Any) -> Any:
        """The row of a key; a key with a null refers to nothing, as in `on` of a lookup."""
        parts = key[0] if len(key) == 1 and isinstance(key[0], tuple) else key
        return None if len(parts) == len(self._keys) and None in parts else super().get(*key)

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
        found = self._table.value(key, self._stands_at)
        return None if found is None else self._shown(found)

    def _sorted(self, lowest: Key | None = None, highest: Key | None = None) -> list[tuple[Key, Any]]:
        keys, values = self._table.entries(self._stands_at)
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


def _places(
    packing: Packing, versions: pa.Table, records: pa.Table, completed_ms: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """The versions in the order of the logs, and how many of them stand before each record.

    At one place the record comes first: it does not find what it says itself. The versions of some topics follow from a
    whole log commit, and stand after its records. Records that have waited stand after all of the commit that gives them.
    """
    both = pa.concat_tables([versions.select(POSITION), records.select(POSITION)])
    after = np.zeros(both.num_rows, np.int8)
    after[: versions.num_rows] = pc.is_in(
        versions[TOPIC], value_set=pa.array(packing.after_commit, pa.string())
    ).to_numpy()
    place, at_ms = order_of(position_columns(both)), int64(both[INGESTED])
    is_version = np.arange(both.num_rows) < versions.num_rows
    if completed_ms is not None:
        waited = ~is_version & (at_ms <= completed_ms)
        after, at_ms = np.where(waited, 2, after), np.where(waited, completed_ms, at_ms)
    in_order = np.lexsort((is_version, place, after, at_ms))
    before = np.cumsum(is_version[in_order])
    found = np.empty(both.num_rows, np.int64)
    found[in_order] = before
    return in_order[is_version[in_order]], found[versions.num_rows :]

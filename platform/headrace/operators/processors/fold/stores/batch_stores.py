"""The stores of a vectorised processor: entries of many groups, as tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description import BatchContext, BatchStore, ProcessorError
from headrace.description.batch_processor import GROUP
from headrace.description.wording import a_value, listed
from headrace.fold.contract import DELETED
from headrace.fold.keys import group, key_of_row
from headrace.operators.processors.fold.shape import Shape, StoreShape


class GroupsStore(BatchStore):
    """A store of the groups of an increment, of which a batch has some that follow one another.

    Entries are rows of `schema`: GROUP, the columns of key and value, and DELETED.
    """

    def __init__(self, store: StoreShape) -> None:
        self._name = store.name
        self._key = [field.name for field in store.key]
        self._value = [field.name for field in store.value]
        fields = [pa.field(GROUP, pa.int64()), *store.key, *store.value]
        self._value_schema = pa.schema([field.with_nullable(True) for field in fields])
        self.schema = self._value_schema.append(pa.field(DELETED, pa.bool_()))
        self.changed: list[pa.Table] = []  # what was put and deleted, in that order
        self._entries = self.schema.empty_table()
        self._groups: tuple[int, int] | None = None

    def hold(self, entries: pa.Table) -> None:
        """Begin with the entries that the state holds."""
        self._entries = entries

    def enter(self, first: int, end: int) -> None:
        """Stand for a batch of the groups of some numbers."""
        self._groups = first, end

    def entries(self) -> pa.Table:
        """See the base class."""
        first, end = self._of_batch
        rows = self.newest([self._entries, *self.changed])
        mine = pc.and_(pc.greater_equal(rows[GROUP], first), pc.less(rows[GROUP], end))
        rows = rows.filter(pc.and_(mine, pc.invert(rows[DELETED]))).select(self._value_schema.names)
        return rows.set_column(0, GROUP, pc.subtract(rows[GROUP], first))

    def put(self, entries: pa.Table) -> None:
        """See the base class."""
        rows = self._checked(entries, self._value_schema, "put")
        value = rows[self._value[0]]
        gone = value.is_null() if len(self._value) == 1 else pa.repeat(pa.scalar(False), rows.num_rows)
        self._change(rows, gone)

    def delete(self, keys: pa.Table) -> None:
        """See the base class."""
        wanted = pa.schema([self._value_schema.field(name) for name in (GROUP, *self._key)])
        rows = self._checked(keys, wanted, "delete")
        for name in self._value:
            rows = rows.append_column(
                self._value_schema.field(name), pa.nulls(len(rows), self._value_schema.field(name).type)
            )
        self._change(rows, pa.repeat(pa.scalar(True), rows.num_rows))

    def newest(self, tables: Sequence[pa.Table]) -> pa.Table:
        """The last row of each group and key. In: tables of `schema`, the later ones of later rows."""
        rows = pa.concat_tables(tables).combine_chunks()
        if not rows.num_rows:
            return rows
        codes = group(key_of_row(rows, [GROUP, *self._key])[0] if self._key else rows[GROUP]).codes
        last = np.zeros(int(codes.max()) + 1, np.int64)
        last[codes] = np.arange(len(codes))  # of equal codes the last one written stays
        return rows.take(pa.array(np.sort(last)))

    @property
    def _of_batch(self) -> tuple[int, int]:
        if self._groups is None:
            raise ProcessorError(
                f"Store '{self._name}': there is no batch in init.",
                hint="Read and write stores in process_batch.",
            )
        return self._groups

    def _change(self, rows: pa.Table, gone: pa.Array | pa.ChunkedArray) -> None:
        rows = rows.set_column(0, GROUP, pc.add(rows[GROUP], self._of_batch[0]))
        self.changed.append(rows.append_column(DELETED, gone).select(self.schema.names))

    def _checked(self, rows: object, wanted: pa.Schema, what: str) -> pa.Table:
        """The table of user code, as columns of these types."""
        first, end = self._of_batch
        if not isinstance(rows, pa.Table) or {*rows.column_names} != {*wanted.names}:
            found = listed(rows.column_names) if isinstance(rows, pa.Table) else a_value(rows)
            raise ProcessorError(
                f"Store '{self._name}': {what} takes a table of {listed(wanted.names)}, not {found}."
            )
        try:
            made = rows.select(wanted.names).cast(wanted)
        except (pa.ArrowException, ValueError) as error:
            raise ProcessorError(f"Store '{self._name}': {what}: {error}") from error
        if any(made[name].null_count for name in (GROUP, *self._key)):
            raise ProcessorError(f"Store '{self._name}': {what}: a key, or {GROUP}, is null.")
        beyond = pc.or_(pc.less(made[GROUP], 0), pc.greater_equal(made[GROUP], end - first))
        if pc.any(beyond).as_py():
            raise ProcessorError(
                f"Store '{self._name}': {what}: the batch has the groups 0 through {end - first - 1}."
            )
        return made


class BatchRunContext(BatchContext):
    """The context of one object of a vectorised processor."""

    def __init__(self, shape: Shape) -> None:
        self.stores = {store.name: GroupsStore(store) for store in shape.stores}

    def store(self, name: str) -> GroupsStore:
        """See the base class."""
        if name not in self.stores:
            raise ProcessorError(
                f"context.store: there is no store {a_value(name)}; there are {listed([*self.stores])}.",
                hint="Describe it: .process(…, stores=[hr.value_store('…', '…')]).",
            )
        return self.stores[name]

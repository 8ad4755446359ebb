"""A vectorised processor, called for each record by itself.

Law: a batch is one record, so nothing that the processor makes can depend on other groups, or on where a batch ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.description.arrow_types import arrow_type
from headrace.description.batch_processor import (
    GROUP,
    PLACE,
    RECORD,
    BatchContext,
    BatchProcessor,
    BatchStore,
)
from headrace.description.outputs import OUTPUT, TO
from headrace.description.processor import Context, Processor, Record, freeze

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.description import Column, KeyValueStore, Processed
    from headrace.description.stores import Store


class OneByOne(Processor):
    """A processor that gives each record to a vectorised one, as a table."""

    def __init__(self, batches: BatchProcessor, node: Processed, columns: pa.Schema | None) -> None:
        """In: columns  of the stream."""
        assert columns is not None
        self.batches, self.node, self.columns = batches, node, columns

    def init(self, context: Context) -> None:
        """See the base class."""
        self.context = context
        self.batches.init(_Tables(context, self.node))
        freeze(self.batches)

    def process(self, record: Record) -> None:
        """A batch of one record."""
        row = {name: record[name] for name in self.node.stream.columns or ()}
        place = record.topic, record.partition, record.offset
        times = (record._event_ms, record._stream_ms, record._ingested_ms)
        types = pa.string(), pa.int32(), *[pa.int64()] * 4
        own = [self.columns.field(name) for name in row]
        schema = pa.schema([*own, (GROUP, pa.int64()), *zip(PLACE, types, strict=True)])
        made = self.batches.process_batch(
            pa.Table.from_pylist([row | {GROUP: 0} | dict(zip(PLACE, (*place, *times), strict=True))], schema)
        )
        for given in [] if made is None else made.to_pylist():
            given.pop(RECORD, None)
            if self.node.outputs:
                name = given[OUTPUT]
                given = {TO: name} | {each.name: given[each.name] for each in self.node.outputs[name]}
            self.context.forward(**given)


class _Tables(BatchContext):
    def __init__(self, context: Context, node: Processed) -> None:
        self.context, self.by_name = context, {store.name: store for store in node.stores}

    def store(self, name: str) -> BatchStore:
        return _Entries(self.by_name[name], self.context.store(name))


class _Entries(BatchStore):
    """A store's entries of one group, as tables."""

    def __init__(self, of: Store, entries: KeyValueStore) -> None:
        self.of, self.kept = of, entries

    def entries(self) -> pa.Table:
        rows = []
        for key, value in self.kept.all():
            row: dict[str, Any] = {GROUP: 0}
            parts = key if isinstance(key, tuple) else (key,)
            row |= dict(zip([each.name for each in self.of.key], parts, strict=True))
            row |= value if len(self.of.value) > 1 else {self.of.value[0].name: value}
            rows.append(row)
        return pa.Table.from_pylist(rows, _schema(self.of.columns))

    def put(self, entries: pa.Table) -> None:
        for row in entries.select(_schema(self.of.columns).names).to_pylist():
            value = {each.name: row[each.name] for each in self.of.value}
            self.kept.put(*self._key(row), value if len(value) > 1 else next(iter(value.values())))

    def delete(self, keys: pa.Table) -> None:
        for row in keys.to_pylist():
            self.kept.delete(*self._key(row))

    def _key(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        parts = tuple(row[each.name] for each in self.of.key)
        return (parts,) if len(parts) > 1 else parts


def _schema(columns: Iterable[Column]) -> pa.Schema:
    return pa.schema([(GROUP, pa.int64()), *((each.name, arrow_type(each.type)) for each in columns)])

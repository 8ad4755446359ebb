"""A Parquet file with rows of a log, and Delta's statistics of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.log.columns import SKIPPING
from headrace.log.plain.sequence import NOTHING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

REPEATING = frozenset(
    {"kind", "topic", "root_topic", "path"}
)  # come as dictionaries, and are written as such
# Of these nearly each value is another, and a dictionary of them nothing but work.
DIFFERENT = frozenset({"offset", "timestamp", "stream_time", "root_offset", "headers.list.element.value"})


class LogFile:
    """Written chunk by chunk; nobody knows of it before a commit names it."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        """In: schema of the log. Nothing is written yet."""
        self._path = path
        text = pa.dictionary(pa.int32(), pa.string())
        self._schema = pa.schema(
            [field.with_type(text) if field.name in REPEATING else field for field in schema]
        )
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0
        self._bounds: dict[str, tuple[Any, Any]] = {}
        self._nulls: dict[str, int] = {}

    def write(self, columns: Mapping[str, pa.Array], rows: int) -> None:
        """Write rows; columns that are not given are null."""
        arrays = [_as(columns.get(field.name), field.type, rows) for field in self._schema]
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._path,
                self._schema,
                compression="snappy",
                use_dictionary=[name for name in _leaves(self._schema) if name not in DIFFERENT],
                write_statistics=list(SKIPPING),
                store_schema=False,
            )
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema), row_group_size=rows)
        self._rows += rows

    def bound(self, name: str, numbers: np.ndarray, *, in_ms: bool = False) -> None:
        """Note the lowest and the highest of some rows, for the statistics; of times as Delta writes them."""
        there = numbers[numbers != NOTHING]
        self._nulls[name] = self._nulls.get(name, 0) + len(numbers) - len(there)
        if len(there):
            ends = int(there.min()), int(there.max())
            self.bound_by(name, *(map(_iso, ends) if in_ms else ends))

    def bound_by(self, name: str, lowest: Any, highest: Any) -> None:
        """The same, where both ends are known; a column that is never null."""
        before = self._bounds.get(name, (lowest, highest))
        self._bounds[name] = min(lowest, before[0]), max(highest, before[1])
        self._nulls.setdefault(name, 0)

    def close(self) -> dict[str, Any] | None:
        """Finish the file: its name, its bytes, and its statistics by Delta's protocol (JSON). None: it has no rows."""
        if self._writer is None:
            return None
        self._writer.close()
        lowest, highest = ({name: ends[side] for name, ends in self._bounds.items()} for side in (0, 1))
        stats = {
            "numRecords": self._rows,
            "minValues": lowest,
            "maxValues": highest,
            "nullCount": self._nulls,
        }
        return {"path": self._path.name, "size": self._path.stat().st_size, "stats": json.dumps(stats)}

    def remove(self) -> None:
        """Leave nothing behind."""
        if self._writer is not None:
            self._writer.close()
        self._path.unlink(missing_ok=True)


def _iso(ms: int) -> str:
    return f"{np.datetime64(ms, 'ms')}Z"


def _leaves(fields: Iterable[pa.Field], within: str = "") -> Iterator[str]:
    """The columns of a Parquet file, by their paths."""
    for field in fields:
        path, held = f"{within}{field.name}", field.type
        while pa.types.is_list(held):
            path, held = f"{path}.list.element", held.value_type
        if pa.types.is_struct(held):
            yield from _leaves(held, f"{path}.")
        else:
            yield path


def _as(column: pa.Array | None, wanted: pa.DataType, rows: int) -> pa.Array:
    if column is None:
        return pa.nulls(rows, wanted)
    return column if column.type == wanted else column.cast(wanted)

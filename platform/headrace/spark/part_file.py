"""A Parquet file that Arrow writes into the folder of a Delta table, and Delta's statistics of it.

Nobody knows of it before a commit names it (`headrace.spark.actions`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

NOTHING = np.iinfo(np.int64).min  # stands for null among integers


@dataclass(frozen=True)
class Encoding:
    """How columns are written.

    repeating   texts that come as dictionaries, and are written as such
    different   of these (by their paths in the file) nearly each value is another, and a dictionary nothing but work
    statistics  for these Parquet has minima and maxima, too; None: for all
    """

    repeating: frozenset[str] = frozenset()
    different: frozenset[str] = frozenset()
    statistics: tuple[str, ...] | None = None


class PartFile:
    """Written chunk by chunk."""

    def __init__(self, folder: Path, schema: pa.Schema, encoding: Encoding) -> None:
        """In: schema of the table. Nothing is written yet."""
        self._path = folder / f"part-00000-{uuid4()}-c000.snappy.parquet"
        text = pa.dictionary(pa.int32(), pa.string())
        self._encoding = encoding
        self._schema = pa.schema(
            [field.with_type(text) if field.name in encoding.repeating else field for field in schema]
        )
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0
        self._bounds: dict[str, tuple[Any, Any]] = {}
        self._nulls: dict[str, int] = {}

    def write(self, columns: Mapping[str, pa.Array | pa.ChunkedArray], rows: int) -> None:
        """Write rows; columns that are not given are null."""
        arrays = [_as(columns.get(field.name), field.type, rows) for field in self._schema]
        if self._writer is None:
            statistics = self._encoding.statistics
            self._writer = pq.ParquetWriter(
                self._path,
                self._schema,
                compression="snappy",
                use_dictionary=[
                    name for name in leaves(self._schema) if name not in self._encoding.different
                ],
                write_statistics=True if statistics is None else list(statistics),
                store_schema=False,
                store_decimal_as_integer=True,  # where it has few digits, as Spark does
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

    def bound_numbers(self, columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> None:
        """Note the lowest and the highest of all columns of integers and of times, which here have whole milliseconds."""
        for name, column in columns.items():
            is_time = pa.types.is_timestamp(column.type)
            if pa.types.is_integer(column.type) or is_time:
                ends = pc.min_max(column.cast(pa.int64()))
                self._nulls[name] = self._nulls.get(name, 0) + column.null_count
                if ends["min"].is_valid:
                    lowest, highest = ends["min"].as_py(), ends["max"].as_py()
                    if is_time:
                        lowest, highest = _iso(lowest // 1000), _iso(highest // 1000)
                    self.bound_by(name, lowest, highest)

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


def leaves(fields: Iterable[pa.Field], within: str = "") -> Iterator[str]:
    """The columns of a Parquet file, by their paths."""
    for field in fields:
        path, held = f"{within}{field.name}", field.type
        while pa.types.is_list(held):
            path, held = f"{path}.list.element", held.value_type
        if pa.types.is_struct(held):
            yield from leaves(held, f"{path}.")
        else:
            yield path


def _as(
    column: pa.Array | pa.ChunkedArray | None, wanted: pa.DataType, rows: int
) -> pa.Array | pa.ChunkedArray:
    if column is None:
        return pa.nulls(rows, wanted)
    return column if column.type == wanted else column.cast(wanted)

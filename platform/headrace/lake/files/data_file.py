"""A Parquet file that a task writes into the folder of a Delta table, and Delta's statistics of it.

No reader knows of the file before a commit names it (see `headrace.lake.commits.writer`).
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

from headrace.lake import small_files
from headrace.lake.files.local_files import flush
from headrace.lake.files.stored_file import OWN_FILES, SMALL_BYTES
from headrace.lake.storage import is_local, local_path, store_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

BUFFER_BYTES = 1 << 20
# The years 1 to 9999 in µs since 1970: statistics of other times have no text that every reader understands.
YEARS_US = (-62_135_596_800_000_000, 253_402_300_800_000_000)


@dataclass(frozen=True)
class Encoding:
    """How columns are written.

    repeating   texts that come as dictionaries, and are written as such
    different   columns, by their paths in the file, whose values rarely repeat; they are written without a dictionary
    statistics  for these Parquet has minima and maxima, too; None: for all
    """

    repeating: frozenset[str] = frozenset()
    different: frozenset[str] = frozenset()
    statistics: tuple[str, ...] | None = None


@dataclass(frozen=True)
class NewFile:
    """A Parquet file in a table's folder that no commit names yet: its name, its bytes, Delta's statistics (JSON)."""

    path: str
    size: int
    stats: str


class DataFileWriter:
    """Writes one file, chunk by chunk, to a local disk or to an object store."""

    def __init__(self, folder: str, schema: pa.Schema, encoding: Encoding) -> None:
        """Nothing is written yet.

        In: folder  URI of the table; `schema`: of the table
        """
        self._name = f"part-00000-{uuid4()}-c000.snappy.parquet"
        self._sink = Sink(f"{folder}/{self._name}")
        text = pa.dictionary(pa.int32(), pa.string())
        self._encoding = encoding
        self._schema = pa.schema(
            [field.with_type(text) if field.name in encoding.repeating else field for field in schema]
        )
        self._writer: pq.ParquetWriter | None = None
        self._stream: pa.BufferedOutputStream | None = None
        self._footers: list[pq.FileMetaData] = []
        self._rows = 0
        self._bounds: dict[str, tuple[Any, Any]] = {}
        self._nulls: dict[str, int] = {}
        self._zones: dict[str, str | None] = {}  # of the columns that are times

    def write(
        self, columns: Mapping[str, pa.Array | pa.ChunkedArray], rows: int, group_rows: int | None = None
    ) -> None:
        """Write rows; columns that are not given are null. In: group_rows  of a group of rows; None: all are one."""
        arrays = [_as(columns.get(field.name), field.type, rows) for field in self._schema]
        if self._writer is None:
            statistics = self._encoding.statistics
            # Parquet writes page by page, and each call of Python waits for the threads that run Python.
            self._stream = pa.BufferedOutputStream(pa.PythonFile(self._sink, mode="w"), BUFFER_BYTES)
            self._writer = pq.ParquetWriter(
                self._stream,
                self._schema,
                compression="snappy",
                use_dictionary=[
                    name for name in leaves(self._schema) if name not in self._encoding.different
                ],
                write_statistics=True if statistics is None else list(statistics),
                store_schema=False,
                store_decimal_as_integer=True,  # where it has few digits, as Spark does
                metadata_collector=self._footers,
            )
        self._writer.write_table(
            pa.Table.from_arrays(arrays, schema=self._schema), row_group_size=group_rows or rows
        )
        self._rows += rows

    def bound_by(self, name: str, lowest: Any, highest: Any) -> None:
        """Note the lowest and the highest of a column that is never null, for the statistics."""
        before = self._bounds.get(name, (lowest, highest))
        self._bounds[name] = min(lowest, before[0]), max(highest, before[1])
        self._nulls.setdefault(name, 0)

    def bound_numbers(self, columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> None:
        """Note the lowest and the highest of all columns of integers and of times in microseconds."""
        for name, column in columns.items():
            is_time = pa.types.is_timestamp(column.type)
            if pa.types.is_integer(column.type) or is_time:
                ends = pc.min_max(column.cast(pa.int64()))
                self._nulls[name] = self._nulls.get(name, 0) + column.null_count
                if ends["min"].is_valid:
                    lowest, highest = ends["min"].as_py(), ends["max"].as_py()
                    if is_time:
                        self._bound_time(name, lowest, highest, column.type.tz)
                    else:
                        self.bound_by(name, lowest, highest)

    def _bound_time(self, name: str, lowest_us: int, highest_us: int, zone: str | None) -> None:
        """Times stay numbers until the end: as texts they would not compare."""
        self._zones[name] = zone
        self.bound_by(name, lowest_us, highest_us)

    def close(self) -> dict[str, Any] | None:
        """Finish the file: its name, its bytes, and its statistics by Delta's protocol (JSON). None: it has no rows."""
        if self._writer is None:
            return None
        self._end(self._writer)
        bounds = {name: self._bounds_text(name, ends) for name, ends in self._bounds.items()}
        lowest, highest = (
            {n: ends[side] for n, ends in bounds.items() if ends is not None} for side in (0, 1)
        )
        stats = {
            "numRecords": self._rows,
            "minValues": lowest,
            "maxValues": highest,
            "nullCount": self._nulls,
        }
        return {
            "path": self._name,
            "size": self._sink.finish(),
            "stats": json.dumps(stats, ensure_ascii=False),
        }

    def _end(self, writer: pq.ParquetWriter) -> None:
        writer.close()
        assert self._stream is not None
        self._stream.close()

    @property
    def footer(self) -> pq.FileMetaData:
        """The footer of the file; it has one once it is closed."""
        return self._footers[0]

    def _bounds_text(self, name: str, ends: tuple[Any, Any]) -> tuple[Any, Any] | None:
        """Bounds as Delta writes them; None: it has no text for them that every reader understands."""
        if name not in self._zones:
            return ends
        if ends[0] < YEARS_US[0] or ends[1] >= YEARS_US[1]:
            return None
        zone = self._zones[name]
        return time_text(ends[0], zone), time_text(ends[1], zone)

    def remove(self) -> None:
        """Leave nothing behind."""
        try:
            if self._writer is not None:
                self._end(self._writer)
                self._sink.finish()
        finally:
            small_files.delete(self._sink.uri)


class Sink:
    """The bytes of one file on their way to a disk or an object store; a file as far as Parquet's writer needs one."""

    def __init__(self, uri: str) -> None:
        """Nothing is opened yet."""
        self.uri = uri
        self.closed, self._size = False, 0
        self._file: Any = None
        self._small: list[bytes] | None = None if is_local(uri) else []

    def writable(self) -> bool:
        """It is written to."""
        return True

    def write(self, data: Any) -> int:
        """Take in some bytes."""
        if self._file is None:
            self._file = self._open()
        self._file.write(data)
        self._size += len(data)
        if self._small is not None:
            self._small.append(bytes(data))
            self._small = self._small if self._size <= SMALL_BYTES else None
        return len(data)

    def tell(self) -> int:
        """How many bytes came."""
        return self._size

    def flush(self) -> None:
        """Nothing is readable before the file is closed."""

    def close(self) -> None:
        """Parquet's writer is done; the file is finished by `finish`."""

    def finish(self) -> int:
        """Make the file readable; its size in bytes. On a local disk it survives a power cut before a commit can name it."""
        if self._file is not None:
            self._file.close()
            if is_local(self.uri):
                flush(local_path(self.uri))
            if self._small is not None:
                OWN_FILES.put(self.uri, b"".join(self._small), self._size)
        return self._size

    def _open(self) -> Any:
        if is_local(self.uri):
            path = local_path(self.uri)
            path.parent.mkdir(parents=True, exist_ok=True)
            return path.open("wb")
        import obstore

        return obstore.open_writer(*store_of(self.uri))


def time_text(us: int, zone: str | None) -> str:
    """A time as Delta writes it: to the millisecond where that is exact; with a zone only where the type has one."""
    text = str(np.datetime64(us // 1000, "ms") if us % 1000 == 0 else np.datetime64(us, "us"))
    return f"{text}Z" if zone else text


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

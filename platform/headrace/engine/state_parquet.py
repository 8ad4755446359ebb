"""Parquet files of the state, read by groups of rows. Footers are remembered, for a file never changes.

Law: the bytes that are counted are those that are read of a file: its footer if it is not known yet, and the columns of
each group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.lake.files.byte_cache import ByteCache
from headrace.lake.files.row_groups import open_local, parquet_file, read_row_groups
from headrace.lake.files.stored_file import StoredFile
from headrace.lake.storage import is_local

# A micro-batch reads all runs of its tables: up to a hundred small files of each node, and a few large ones. In memory
# a footer takes some 830 bytes for each column of each group of rows: 50 kB of a small file, 5 MB of a large one.
FOOTERS_BYTES_MAX, COLUMN_CHUNK_BYTES = 64 << 20, 1_024
WHOLE_BYTES = 256 << 10  # up to this size, one request reads a whole file of an object store
HASH_PLACE, TIME_PLACE = 1, 2  # in `state_layout.SHARED`
ANY = (-(1 << 63), (1 << 63) - 1)  # the bounds where a file does not tell them


@dataclass(frozen=True)
class Footer:
    """The footer of a file, and what a read asks of it.

    columns       the names at the top level
    hashes, times of each group of rows the bounds (see `pairs`)
    """

    parquet: pq.FileMetaData
    columns: frozenset[str]
    hashes: np.ndarray
    times: np.ndarray

    @classmethod
    def of(cls, parquet: pq.FileMetaData, columns: Iterable[str]) -> Footer:
        """Look at all groups once.

        Its schema is not asked: a footer that has given it out belongs to a circle, which is freed late.
        """
        groups = [parquet.row_group(number) for number in range(parquet.num_row_groups)]
        hashes, times = (
            pairs([_bounds(group, place) for group in groups]) for place in (HASH_PLACE, TIME_PLACE)
        )
        return cls(parquet, frozenset(columns), hashes, times)

    @property
    def rows_bytes(self) -> int:
        """The size of all rows of the file, not compressed."""
        groups = range(self.parquet.num_row_groups)
        return sum(self.parquet.row_group(number).total_byte_size for number in groups)

    @property
    def memory_bytes(self) -> int:
        """About what the footer takes in memory."""
        chunks: int = self.parquet.num_columns * (self.parquet.num_row_groups + 1)
        return COLUMN_CHUNK_BYTES * chunks


class Footers:
    """The footers of files that were used last, by URI. Several threads may ask."""

    def __init__(self, bytes_max: int = FOOTERS_BYTES_MAX) -> None:
        """In: bytes_max  of memory for all that are remembered."""
        self._known: ByteCache[str, Footer] = ByteCache(bytes_max)

    def of(self, uri: str, size: int) -> tuple[Footer, int]:
        """The footer of a file of so many bytes, and how many bytes were read for it."""
        found = self._known.get(uri)
        if found is not None:
            return found, 0
        with open_parquet(uri, size, None) as file:
            parquet, columns = file.metadata, file.schema_arrow.names
        return self.put(uri, parquet, columns), int(parquet.serialized_size)

    def put(self, uri: str, parquet: pq.FileMetaData, columns: Iterable[str]) -> Footer:
        """Remember the footer of a file that was read or written. In: columns  the names at the top level."""
        footer = Footer.of(parquet, columns)
        self._known.put(uri, footer, footer.memory_bytes)
        return footer

    @property
    def bytes(self) -> int:
        """The memory that all of them take."""
        return self._known.bytes

    def clear(self) -> None:
        """Remember none."""
        self._known.clear()


FOOTERS = Footers()


def pairs(bounds: Sequence[tuple[int, int]]) -> np.ndarray:
    """Bounds side by side: one row for each, with the lowest and the highest value."""
    return np.array(bounds, np.int64).reshape(-1, 2)


def read_groups(uri: str, size: int, footer: Footer, groups: Sequence[int]) -> tuple[pa.Table, int]:
    """Some groups of rows of a file of so many bytes, one after the other, and how many bytes they take there."""
    with open_parquet(uri, size, footer.parquet) as file:
        rows = read_row_groups(file, groups)
    return rows, sum(_bytes(footer.parquet.row_group(number)) for number in groups)


def open_parquet(uri: str, size: int, footer: pq.FileMetaData | None) -> pq.ParquetFile:
    """A file of so many bytes. In: footer  if it is known already."""
    if is_local(uri):
        return open_local(uri, footer)
    stored = StoredFile(uri, size)
    if footer is None and size <= WHOLE_BYTES:
        return parquet_file(pa.BufferReader(stored.read()))
    source = pa.PythonFile(stored, mode="r")
    return parquet_file(source, footer, pre_buffer=True)


def _bounds(group: pq.RowGroupMetaData, place: int) -> tuple[int, int]:
    statistics = group.column(place).statistics
    if statistics is None or not statistics.has_min_max:
        return ANY
    return int(statistics.min), int(statistics.max)


def _bytes(group: pq.RowGroupMetaData) -> int:
    return sum(group.column(at).total_compressed_size for at in range(group.num_columns))

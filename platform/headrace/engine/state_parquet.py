"""Parquet files of the state, read by groups of rows. Footers are remembered, for a file never changes.

Law: what is counted is what is read of a file: its footer if it is not known yet, and the columns of each group.
"""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.lake.storage import is_local, local_path, store_of

FOOTERS_MAX = 64  # of about 1 MB at most each


class Footers:
    """The footers of files that were read last, by URI. Several threads may ask."""

    def __init__(self, most: int = FOOTERS_MAX) -> None:
        """In: most  how many are remembered."""
        self._most = most
        self._known: OrderedDict[str, pq.FileMetaData] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, uri: str, size: int) -> tuple[pq.FileMetaData, int]:
        """The footer of a file of so many bytes, and how many bytes were read for it."""
        with self._lock:
            found = self._known.get(uri)
            if found is not None:
                self._known.move_to_end(uri)
                return found, 0
        with open_parquet(uri, size, None) as file:
            footer = file.metadata
        with self._lock:
            self._known[uri] = footer
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        return footer, int(footer.serialized_size)


FOOTERS = Footers()


def read_groups(uri: str, size: int, footer: pq.FileMetaData, groups: Sequence[int]) -> tuple[pa.Table, int]:
    """Some groups of rows of a file of so many bytes, and how many bytes they take there."""
    with open_parquet(uri, size, footer) as file:
        rows = file.read_row_groups(list(groups))
    return rows, sum(_bytes(footer.row_group(number)) for number in groups)


class _RangeFile(io.RawIOBase):
    """A file in an object store, of which the size is known. Each read is one request for a range of bytes."""

    def __init__(self, uri: str, size: int) -> None:
        self._store, self._path = store_of(uri)
        self._size, self._at = size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        import obstore

        end = self._size if size < 0 else min(self._size, self._at + size)
        if end <= self._at:
            return b""
        found = bytes(obstore.get_range(self._store, self._path, start=self._at, end=end))
        self._at = end
        return found


def open_parquet(uri: str, size: int, footer: pq.FileMetaData | None) -> pq.ParquetFile:
    """A file of so many bytes. In: footer  if it is known already."""
    if is_local(uri):
        return pq.ParquetFile(local_path(uri), metadata=footer)
    source = pa.PythonFile(_RangeFile(uri, size), mode="r")
    return pq.ParquetFile(source, metadata=footer, pre_buffer=True)


def _bytes(group: pq.RowGroupMetaData) -> int:
    return sum(group.column(at).total_compressed_size for at in range(group.num_columns))

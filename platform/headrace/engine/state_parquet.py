"""Parquet files of the state, read by groups of rows. Footers are remembered, for a file never changes.

Law: what is counted is what is read of a file: its footer if it is not known yet, and the columns of each group.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.lake.sorted_rows import _StoredFile as StoredFile
from headrace.lake.storage import is_local, local_path

FOOTERS_MAX = 64  # of about 1 MB at most each


class Footers:
    """The footers of files that were read last, by URI. Several threads may ask."""

    def __init__(self, most: int = FOOTERS_MAX) -> None:
        """In: most  how many are remembered."""
        self._most = most
        self._known: OrderedDict[str, pq.FileMetaData] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, uri: str) -> tuple[pq.FileMetaData, int]:
        """The footer of a file, and how many bytes were read for it."""
        with self._lock:
            found = self._known.get(uri)
            if found is not None:
                self._known.move_to_end(uri)
                return found, 0
        with _open(uri, None) as file:
            footer = file.metadata
        with self._lock:
            self._known[uri] = footer
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        return footer, int(footer.serialized_size)


FOOTERS = Footers()


def read_groups(uri: str, footer: pq.FileMetaData, groups: Sequence[int]) -> tuple[pa.Table, int]:
    """Some groups of rows of a file, and how many bytes they take there."""
    with _open(uri, footer) as file:
        rows = file.read_row_groups(list(groups))
    return rows, sum(_bytes(footer.row_group(number)) for number in groups)


def _open(uri: str, footer: pq.FileMetaData | None) -> pq.ParquetFile:
    if is_local(uri):
        return pq.ParquetFile(local_path(uri), metadata=footer)
    return pq.ParquetFile(pa.PythonFile(StoredFile(uri), mode="r"), metadata=footer, pre_buffer=True)


def _bytes(group: pq.RowGroupMetaData) -> int:
    return sum(group.column(at).total_compressed_size for at in range(group.num_columns))

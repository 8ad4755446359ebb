"""Groups of rows of Parquet files. A few rows are read by the thread that asks, and a small file is read whole.

To hand thirty rows over to a pool of threads, or to look for their columns in a file, takes longer than to read them.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.lake.storage import local_path

ROWS_OF_ONE_THREAD_MAX = 10_000
WHOLE_BYTES_MAX = 64 << 10


def open_local(uri: str, footer: pq.FileMetaData | None = None) -> pq.ParquetFile:
    """A file of this machine. In: footer  if it is known already."""
    path = local_path(uri)
    with open(path, "rb") as file:
        content = file.read(WHOLE_BYTES_MAX + 1)
    source = path if len(content) > WHOLE_BYTES_MAX else pa.BufferReader(content)
    return pq.ParquetFile(source, metadata=footer)


def read_row_groups(
    file: pq.ParquetFile, groups: Sequence[int], columns: Sequence[str] | None = None
) -> pa.Table:
    """The rows of some groups, one group after the other.

    In: columns  paths with dots; None: all
    """
    rows = sum(file.metadata.row_group(number).num_rows for number in groups)
    wanted = None if columns is None else [*columns]
    return file.read_row_groups([*groups], columns=wanted, use_threads=rows > ROWS_OF_ONE_THREAD_MAX)

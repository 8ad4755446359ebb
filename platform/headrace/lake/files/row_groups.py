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
INT96_UNIT = "us"


def open_local(uri: str, footer: pq.FileMetaData | None = None) -> pq.ParquetFile:
    """A file of this machine. In: footer  if it is known already."""
    path = local_path(uri)
    with open(path, "rb") as file:
        content = file.read(WHOLE_BYTES_MAX + 1)
    return parquet_file(path if len(content) > WHOLE_BYTES_MAX else pa.BufferReader(content), footer)


def parquet_file(
    source: str | pa.NativeFile, footer: pq.FileMetaData | None = None, *, pre_buffer: bool = False
) -> pq.ParquetFile:
    """Open a file that any client may have written. Times come in microseconds, as in the tables.

    Spark by its own defaults writes times as INT96. Arrow reads these as nanoseconds: other numbers than the log's, and no
    dates after 2262.
    """
    return pq.ParquetFile(
        source, metadata=footer, pre_buffer=pre_buffer, coerce_int96_timestamp_unit=INT96_UNIT
    )


def read_row_groups(
    file: pq.ParquetFile, groups: Sequence[int], columns: Sequence[str] | None = None
) -> pa.Table:
    """The rows of some groups, one group after the other.

    In: columns  paths with dots; None: all
    """
    rows = sum(file.metadata.row_group(number).num_rows for number in groups)
    wanted = None if columns is None else [*columns]
    return file.read_row_groups([*groups], columns=wanted, use_threads=rows > ROWS_OF_ONE_THREAD_MAX)

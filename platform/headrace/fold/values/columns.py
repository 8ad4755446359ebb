"""Columns of times and numbers, between Arrow and NumPy."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

MOMENT = pa.timestamp("us", "UTC")


def moments(ms: np.ndarray) -> pa.Array:
    """Milliseconds since 1970 as TIMESTAMP."""
    return pa.array(ms * 1000, pa.int64()).cast(MOMENT)


def int64(values: pa.ChunkedArray | pa.Array, null: int = 0) -> np.ndarray:
    """Whole numbers as int64; `null` where one is null."""
    if values.null_count:
        values = values.fill_null(null)
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
    found: np.ndarray = values.to_numpy(zero_copy_only=False)
    return found.astype(np.int64, copy=False)

"""Columns of times and numbers, between Arrow and NumPy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

MOMENT = pa.timestamp("us", "UTC")


def moments(ms: np.ndarray, none: int | None = None) -> pa.Array:
    """Milliseconds since 1970 as TIMESTAMP; null where one is `none`."""
    nothing = None if none is None else ms == none
    if nothing is not None:
        ms = np.where(nothing, 0, ms)
    return pa.array(ms * 1000, pa.int64(), mask=nothing).cast(MOMENT)


def int64(values: pa.ChunkedArray | pa.Array, null: int = 0) -> np.ndarray:
    """Whole numbers as int64; `null` where one is null."""
    if values.null_count:
        values = values.fill_null(null)
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
    found: np.ndarray = values.to_numpy(zero_copy_only=False)
    return found.astype(np.int64, copy=False)


def table_of(schema: pa.Schema, columns: Mapping[str, pa.Array | pa.ChunkedArray], rows: int) -> pa.Table:
    """The columns of a schema, with its types; those that are missing are null. In: rows  how many there are."""
    return pa.table(
        [
            _cast(columns[field.name], field.type) if field.name in columns else pa.nulls(rows, field.type)
            for field in schema
        ],
        schema=schema,
    )


def fitted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with the columns and types of a schema; those that are missing are null."""
    return table_of(schema, dict(zip(rows.column_names, rows.columns, strict=True)), rows.num_rows)


def _cast(values: pa.Array | pa.ChunkedArray, of: pa.DataType) -> pa.Array | pa.ChunkedArray:
    return values if values.type == of else values.cast(of)

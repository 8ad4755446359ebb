"""Rows of Arrow as Python's values, each by itself: Python lacks some values, as a time in the year 10000."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def python_rows(rows: pa.Table | pa.StructArray) -> list[Any]:
    """Each row as a dict; None where a struct is null; the error where Python has no such value."""
    try:
        found: list[Any] = rows.to_pylist()
        return found
    except (ValueError, OverflowError) as error:
        if len(rows) == 1:
            return [error]
    return [row for at in range(len(rows)) for row in python_rows(rows.slice(at, 1))]

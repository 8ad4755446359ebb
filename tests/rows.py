"""Rows that a test driver gives, in the shapes in which tests compare them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.lake import open_table
from headrace.lake.files.sorted_rows import all_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.testing import TestDriver


def columns(rows: Iterable[Mapping[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    """Some columns of rows."""
    return [tuple(row[name] for name in names) for row in rows]


def state_rows(driver: TestDriver, node: str, table: str) -> list[dict[str, Any]]:
    """The rows of one table of a node's state, as its files have them."""
    state = open_table(driver._lake.state(node))
    files = [f"{state.uri}/{name}" for name in state.snapshot().files]
    rows = (row for part in all_rows(files, state.columns) for row in part.to_pylist())
    return [row[table] for row in rows if row["__table"] == table]

"""Rows of a lake, read by the test's process, in the shapes in which tests compare them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.engine.slices.log_slices import whole_log
from headrace.lake import open_table
from headrace.lake.files.sorted_rows import all_rows
from headrace.nodes.rows import state_views
from headrace.nodes.rows.state_frames import StateTables
from headrace.observe.local_views import LocalViews

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake
    from headrace.testing import TestDriver


def columns(rows: Iterable[Mapping[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    """Some columns of rows."""
    return [tuple(row[name] for name in names) for row in rows]


def in_order(rows: pa.Table, *names: str) -> list[tuple[Any, ...]]:
    """Rows in the order of their values. In: names  of columns; none: all"""
    chosen = rows.select([*names]) if names else rows
    return sorted((tuple(row.values()) for row in chosen.to_pylist()), key=repr)


def file_rows(uri: str) -> list[dict[str, Any]]:
    """The rows of a table as its files have them; of a log commit rows, too."""
    table = open_table(uri)
    files = [f"{uri}/{name}" for name in table.snapshot().files]
    return [row for part in all_rows(files, table.columns) for row in part.to_pylist()]


def log_rows(uri: str) -> list[dict[str, Any]]:
    """The rows of a log, without commit rows."""
    rows: list[dict[str, Any]] = whole_log(uri).rows(open_table(uri).columns).to_pylist()
    return rows


def state_rows(driver: TestDriver, node: str, table: str) -> list[dict[str, Any]]:
    """The rows of one table of a node's state, as its files have them."""
    rows = file_rows(driver._lake.state(node))
    return [row[table] for row in rows if row["__table"] == table]


def require_backfilled(spark: SparkSession, lake: Lake, *nodes: Node) -> None:
    """Fail unless the table of each node has the rows that a fold of its whole logs gives."""
    views = LocalViews(spark, lake)
    for node in nodes:
        tables = views.read(node), views.recompute(node)
        stored, recomputed = (in_order(rows, *node.columns) for rows in tables)
        assert stored == recomputed, node.required_name


def windows_shown(spark: SparkSession, lake: Lake, node: Node) -> list[list[tuple[Any, ...]]]:
    """The windows of a node as readers see them: closed ones, open ones, the ledger."""
    views = LocalViews(spark, lake)
    stored = views.stored(node)
    still_open = state_views.open_windows(stored.of, StateTables(stored.state), stored.progress.clock)
    assert still_open is not None
    return [*map(in_order, (views.read(node), still_open, views.ledger(node)))]

"""Rows of a table that somebody else alters, deletes or brings back, on a local disk.

delta-rs does it in a tenth of a CPU second; Spark's UPDATE and RESTORE of a few rows take one or two. What Spark's own
commands leave behind is tried in `test_foreign_hands.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from deltalake import DeltaTable


def alter(uri: str, values: Mapping[str, str], where: str | None = None) -> None:
    """Set columns to SQL expressions, in all rows or in those that a condition holds for."""
    changed = _open(uri).update(updates=dict(values), predicate=where)
    assert changed["num_updated_rows"], f"no row of {uri} where {where}"


def delete(uri: str, where: str) -> None:
    """Delete the rows that a condition holds for."""
    table = _open(uri)
    if table.metadata().configuration.get("delta.appendOnly") == "true":
        table.alter.set_table_properties({"delta.appendOnly": "false"})
    assert table.delete(where)["num_deleted_rows"], f"no row of {uri} where {where}"


def bring_back(uri: str, version: int) -> None:
    """Put the rows of an older version in the place of today's."""
    _open(uri).restore(version)


def pack(uri: str) -> None:
    """Pack small files, and delete those that left the newest version a week ago."""
    table = _open(uri)
    table.optimize.compact()
    table.vacuum(retention_hours=168, dry_run=False)


def _open(uri: str) -> DeltaTable:
    return DeltaTable(uri.removeprefix("file:"))

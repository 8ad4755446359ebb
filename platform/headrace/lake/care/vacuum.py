"""Deletion of files that no version of late names.

Law: a file is deleted only if a look at the table, at least the retention ago, found it in no version, and it still is in
none. So a version that was the newest within the retention keeps all of its files.

The looks are kept in small files of the table's folder. Delta's tombstones would tell the same, but every checkpoint repeats
them: after a week of commits they would be most of what a reader of the table reads.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import TYPE_CHECKING

from headrace.lake import small_files
from headrace.lake.storage import delta_uri, storage_options

if TYPE_CHECKING:
    from headrace.lake.table import LakeTable

UNUSED = "_unused"  # hidden, so that no vacuum takes it for rows
HIDDEN = ("_", ".")  # names that begin so are not of rows
SETTLED_HOURS = 24  # a file that is older is not on its way into a commit: no run lives longer
HOUR_MS = 3_600_000


def vacuum(
    table: LakeTable,
    retention_hours: float,
    *,
    settled_hours: float = SETTLED_HOURS,
    keeps: Collection[str] = (),
) -> list[str]:
    """Look at a table, and delete the files that a look long enough ago found unused. No commit is made.

    In:  settled_hours  younger files are passed over: a commit may be about to name them
         keeps          files that somebody else names, such as a mirror: they count as used
    Out: the names of the files that are gone
    """
    now_ms = time.time_ns() // 1_000_000
    unused = set(in_no_version(table, settled_hours)).difference(keeps)
    looks = _looks(table)
    looks[now_ms] = unused.difference(*looks.values())
    gone: list[str] = []
    for at_ms, found in looks.items():
        still, uri = found & unused, f"{table.uri}/{UNUSED}/{at_ms}.json"
        if at_ms <= now_ms - retention_hours * HOUR_MS:
            gone += sorted(still)
            small_files.delete_files(f"{table.uri}/{name}" for name in still)
            still = set()
        if not still:
            small_files.delete_files([uri])
        elif at_ms == now_ms or still != found:
            small_files.write_json(uri, sorted(still))
    return gone


def in_no_version(table: LakeTable, settled_hours: float) -> list[str]:
    """The files that the newest version does not name and that left it, or were written, some hours ago.

    delta-rs names them, also some that are gone already; if the folder has the files of the version alone, it is not asked.
    """
    from deltalake import DeltaTable

    there = {path for path in small_files.names_below(table.uri) if not path.startswith(HIDDEN)}
    if there <= table.snapshot().files.keys():
        return []
    handle = DeltaTable(delta_uri(table.uri), storage_options=storage_options(table.uri))
    named = handle.vacuum(round(settled_hours), dry_run=True, enforce_retention_duration=False, full=True)
    return [name for name in named if name in there]


def _looks(table: LakeTable) -> dict[int, set[str]]:
    """The looks so far, by their time: the files that were found unused then for the first time."""
    folder = f"{table.uri}/{UNUSED}"
    return {
        int(name.removesuffix(".json")): set(small_files.read_json(f"{folder}/{name}") or ())
        for name in small_files.names(folder)
        if name.removesuffix(".json").isdigit()  # a store may list the folder itself
    }

"""Compaction in levels, of tables whose rows are merged: fewer files, and work in proportion to what came.

A *run* is the files of one micro-batch or of one compaction; all of them name the same highest BATCH in their statistics.
Runs that outweigh the younger ones together stay, so a row is rewritten only as often as the logarithm of all rows, and
the number of runs is bounded by it.

Law: what a merged read of the table gives stays the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.engine.exchange import bucket_hashes
from headrace.engine.state_files import Bounds
from headrace.fold.contract import BATCH
from headrace.lake import (
    ConflictError,
    DataFile,
    FencedError,
    LakeTable,
    NewFile,
    Snapshot,
    TableWriter,
    small_files,
)
from headrace.lake.upkeep import choose

RUNS_MAX = 8
FILE_ROWS = 500_000  # about as many are in memory at a time, and in one file
Files = Mapping[str, DataFile]


@dataclass(frozen=True)
class Rewriting:
    """How rows are rewritten.

    read   the merged rows of files whose hash is within bounds; third: whether these are all files that there are
    write  writes rows into a file whose statistics name this highest BATCH; None: there were no rows
    """

    read: Callable[[Files, Bounds, bool], pa.Table]
    write: Callable[[pa.Table, int], NewFile | None]


def compact_runs(
    table: LakeTable,
    writer: TableWriter,
    files: Files,
    rewriting: Rewriting,
    record: Callable[[], Mapping[str, Any]],
    *,
    runs_max: int = RUNS_MAX,
    file_rows: int = FILE_ROWS,
    whole: bool = False,
) -> bool:
    """Put runs into one, if there are more than `runs_max`.

    In:     files   of a snapshot of the table, those that are merged with one another
            record  of the commit; called if there is one
            whole   put all runs into one, few as they may be
    Out:    False if nothing was done: few runs, or another maintainer came first
    Raises: FencedError
    """
    runs = _runs(files)
    chosen = sorted(runs) if whole else _chosen(runs) if len(runs) > runs_max else []
    if not chosen:
        return False
    gone = {name: file for batch in chosen for name, file in runs[batch].items()}
    parts = _parts(sum(file.rows or 0 for file in gone.values()), file_rows)
    added: list[NewFile] = []
    try:
        for part in range(parts):
            rows = rewriting.read(gone, bucket_hashes(part, parts), len(gone) == len(files))
            written = rewriting.write(rows, max(chosen))
            added += [written] if written is not None else []
        writer.replace(gone, added, record(), changes_data=False)
    except (ConflictError, FencedError) as error:
        for file in added:
            small_files.delete(f"{table.uri}/{file.path}")
        if isinstance(error, FencedError):
            raise
        return False
    return True


def _runs(files: Files) -> dict[int, dict[str, DataFile]]:
    """The files of each run, by its highest BATCH."""
    runs: dict[int, dict[str, DataFile]] = defaultdict(dict)
    for name, file in files.items():
        runs[int(file.highest[BATCH])][name] = file
    return runs


def _chosen(runs: Mapping[int, Files]) -> Sequence[int]:
    """The runs worth putting into one (see `upkeep.choose`, to which a run is a file)."""
    whole = {
        str(batch): DataFile(1, sum(file.rows or 0 for file in files.values()), {}, {BATCH: batch})
        for batch, files in runs.items()
    }
    return [int(name) for name in choose(Snapshot(0, whole), BATCH, max(runs))]


def _parts(rows: int, file_rows: int) -> int:
    """Into how many files rows go: a power of two, so that files of different runs have nested ranges of hashes."""
    return 1 << max(0, -(-rows // file_rows) - 1).bit_length()

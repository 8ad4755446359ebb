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

from headrace.engine.folding.exchange import bucket_hashes
from headrace.engine.state_needs import Bounds
from headrace.engine.state_parquet import FOOTERS
from headrace.fold.contract import BATCH
from headrace.lake import (
    ConflictError,
    DataFile,
    FencedError,
    LakeTable,
    NewFile,
    TableWriter,
    small_files,
)
from headrace.lake.care.upkeep import not_outweighed

RUNS_MAX = 8
LARGE_ROWS = (
    32_768  # of a run in which each random key lies in a group of its own; smaller ones stay in memory
)
REST_ROWS = 200_000  # worth merging as soon as a node has caught up
# About as many rows are in memory at a time, and in one file, and as many bytes before Parquet compresses them.
FILE_ROWS, FILE_BYTES = 500_000, 256 << 20
Files = Mapping[str, DataFile]


@dataclass(frozen=True)
class Rewriting:
    """How rows are rewritten.

    read   the merged rows of files whose hash is within bounds; third: whether these are all files that there are
    write  writes rows into a file whose statistics name this highest BATCH; None: there were no rows
    """

    read: Callable[[Files, Bounds, bool], pa.Table]
    write: Callable[[pa.Table, int], NewFile | None]


@dataclass(frozen=True)
class Packing:
    """When runs are put into one.

    runs_max   more than so many are
    rows_min   if they have so many rows together
    file_rows  rows in each file of the result
    whole      all runs, few as they may be: what nothing reads any more leaves
    """

    runs_max: int = RUNS_MAX
    rows_min: int = 0
    file_rows: int = FILE_ROWS
    whole: bool = False


OFTEN = Packing()
AT_REST = Packing(runs_max=1, rows_min=REST_ROWS)


def compact_runs(
    table: LakeTable,
    writer: TableWriter,
    files: Files,
    rewriting: Rewriting,
    record: Callable[[], Mapping[str, Any]],
    packing: Packing,
) -> bool:
    """Put runs into one, if there are more than the most.

    In:     files   of a snapshot of the table, those that are merged with one another
            record  of the commit; called if there is one
    Out:    False if nothing was done: few runs, or another maintainer came first
    Raises: FencedError
    """
    runs = _runs(files)
    chosen = sorted(runs) if packing.whole else _chosen(runs, packing)
    if not chosen:
        return False
    gone = {name: file for batch in chosen for name, file in runs[batch].items()}
    rows, size = _rows(gone), _bytes(table.uri, gone)
    parts = _parts(max(-(-rows // packing.file_rows), -(-size // FILE_BYTES)))
    added: list[NewFile] = []
    try:
        for part in range(parts):
            merged = rewriting.read(gone, bucket_hashes(part, parts), len(gone) == len(files))
            written = rewriting.write(merged, max(chosen))
            added += [written] if written is not None else []
        writer.replace(gone, added, record(), changes_data=False)
    except (ConflictError, FencedError) as error:
        small_files.delete_files(f"{table.uri}/{file.path}" for file in added)
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


def is_due(files: Files, *, at_rest: bool) -> bool:
    """Whether a state table has many large runs, each of which a read of random keys reads.

    In: files    those of the table
        at_rest  whether its node has caught up; while it has not, packing competes with it
    """
    if at_rest:
        return bool(_chosen(_runs(files), AT_REST))
    large = [run for run in _runs(files).values() if _rows(run) >= LARGE_ROWS]
    return len(large) > RUNS_MAX


def _chosen(runs: Mapping[int, Files], packing: Packing) -> Sequence[int]:
    """The runs worth putting into one (see `upkeep.not_outweighed`, to which a run is a file)."""
    if len(runs) <= packing.runs_max:
        return []
    rows = {str(batch): _rows(files) for batch, files in runs.items()}
    chosen = not_outweighed(rows)
    enough = len(chosen) > 1 and sum(rows[batch] for batch in chosen) >= packing.rows_min
    return [int(batch) for batch in chosen] if enough else []


def _rows(files: Files) -> int:
    return sum(file.rows or 0 for file in files.values())


def _bytes(uri: str, files: Files) -> int:
    """The size of the rows of files, not compressed; their footers tell it, which are read for the rows anyway."""
    return sum(FOOTERS.of(f"{uri}/{name}", file.size)[0].rows_bytes for name, file in files.items())


def _parts(files: int) -> int:
    """Into how many files rows go: a power of two, so that files of different runs have nested ranges of hashes."""
    return 1 << max(0, files - 1).bit_length()

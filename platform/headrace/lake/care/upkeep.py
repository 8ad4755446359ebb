"""Upkeep of a table beside its appender: checkpoints, clean-up of old commits, fewer and larger files.

Law: the rows of the newest version stay the same, and so does the newest record of each writer (`history.last_commit`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.lake import small_files
from headrace.lake.commits.fence import ConflictError, FencedError
from headrace.lake.commits.history import all_carried
from headrace.lake.files.data_file import DataFileWriter, Encoding, NewFile
from headrace.lake.files.sorted_rows import all_rows, sorted_rows
from headrace.lake.kinds import COMMITS_MAX
from headrace.lake.storage import delta_uri, storage_options

if TYPE_CHECKING:
    from headrace.lake.commits.snapshot import Bound, DataFile, Snapshot
    from headrace.lake.commits.writer import TableWriter
    from headrace.lake.table import LakeTable

UPKEEP = "upkeep"  # the role of clean-up, whose commits are empty
GROUP_ROWS, GROUP_BYTES = 16_384, 64 << 20  # of a group of rows; bytes as they are in memory
FILE_BYTES = 128 << 20  # of a file made of small ones
YOUNG_MS = 300_000  # a commit that is younger may be the one that a paused writer waits for (see `writer.LONG_SECONDS`)
CLEAN_EVERY = 250  # commits; each clean-up reads the commits since the one before


class Upkeep:
    """The upkeep of one table in one process. It is called again and again, never on the appender's way."""

    def __init__(self, table: LakeTable, writer: Callable[[], TableWriter]) -> None:
        """Nothing is done yet.

        In: writer  takes an epoch of the table; called whenever history is to be cleaned. The role `UPKEEP` is for it: no
                    maintainer that is at work ends.
        """
        self._table, self._open = table, writer
        self._cleaned_at = -1
        self._lock = threading.Lock()

    def run(self) -> None:
        """Do what is due."""
        with self._lock:
            if not self._table.wants_checkpoint:
                return
            version = self._table.checkpoint()
            if self._cleaned_at < 0 or version - self._cleaned_at >= CLEAN_EVERY:
                clean(self._table, self._open())
                self._cleaned_at = version


def clean(table: LakeTable, writer: TableWriter) -> None:
    """Remove the commits that are older than the table's `delta.logRetentionDuration`, and those beyond `COMMITS_MAX`.

    Before that, one empty commit repeats the newest record of each writer. Only commits older than the version at which the
    handle was opened are removed. That was before the records were read, so no record is lost, however long this takes.
    """
    from deltalake import DeltaTable

    handle = DeltaTable(delta_uri(table.uri), storage_options=storage_options(table.uri))
    writer.append([], {"writer": "upkeep", **all_carried(table)})
    handle.cleanup_metadata()
    commits_max = handle.metadata().configuration.get(COMMITS_MAX)
    if commits_max is not None:
        _clean_through(table, handle.version() - int(commits_max))


def _clean_through(table: LakeTable, version: int) -> None:
    """Remove the commits before the newest checkpoint that lies at or before a version; a young one stays."""
    folder = f"{table.uri}/_delta_log"
    names = [name for name in small_files.names(folder) if name[:20].isdigit()]
    checkpoints = [int(name[:20]) for name in names if ".checkpoint" in name]
    first = max((found for found in checkpoints if found <= version), default=0)
    commit = table.commit_at(first) if first else None
    if commit is None or commit.timestamp_ms > time.time() * 1000 - YOUNG_MS:
        return
    small_files.delete_files(f"{folder}/{name}" for name in names if int(name[:20]) < first)


def choose(snapshot: Snapshot, column: str, through: Bound) -> dict[str, DataFile]:
    """The files worth putting into one, by name: none of them holds a row where a column is beyond `through`.

    Files that outweigh the others stay, so a row is rewritten only as often as the logarithm of all rows.

    Out: two files at least, or none
    """
    known = {
        name: file
        for name, file in snapshot.files.items()
        if column in file.highest and file.highest[column] <= through  # type: ignore[operator]
    }
    sizes = {name: file.rows or 0 for name, file in known.items()}
    names = not_outweighed(sizes)
    return {name: known[name] for name in names} if len(names) > 1 else {}


def choose_any(snapshot: Snapshot) -> dict[str, DataFile]:
    """The same of a table whose rows are in no order: files below half of `FILE_BYTES`."""
    known = {name: file for name, file in snapshot.files.items() if file.size <= FILE_BYTES // 2}
    names = not_outweighed({name: file.rows or 0 for name, file in known.items()})
    return {name: known[name] for name in names} if len(names) > 1 else {}


def not_outweighed(rows: Mapping[str, int]) -> list[str]:
    """The files without those that have more rows than all smaller files together. In: rows  by name, the number of rows.

    So a row is rewritten only together with at least as many other rows: as often as the logarithm of all rows.
    """
    names, rest = sorted(rows, key=lambda name: rows[name]), sum(rows.values())
    while names and rows[names[-1]] > rest - rows[names[-1]]:
        rest -= rows[names.pop()]
    return names


def small(snapshot: Snapshot) -> Iterator[dict[str, DataFile]]:
    """Groups of files that are worth putting into one each: together not much larger than `FILE_BYTES`."""
    group: dict[str, DataFile] = {}
    for name in sorted(snapshot.files, key=lambda name: snapshot.files[name].size):
        file = snapshot.files[name]
        if file.size > FILE_BYTES // 2:
            break
        group[name] = file
        if sum(file.size for file in group.values()) >= FILE_BYTES:
            yield group
            group = {}
    if len(group) > 1:
        yield group


def compact(
    table: LakeTable,
    writer: TableWriter,
    files: Mapping[str, DataFile],
    record: Mapping[str, Any],
    *,
    column: str | None = None,
) -> int | None:
    """Put files into one, with the same rows.

    Memory holds one group of rows for each file (if each is in that order) and one of the result. A group is bounded by rows
    and by the bytes that they have in memory, however well they compress.

    In:     files   of a snapshot of the table, by name
            column  in whose order the rows then lie; None: that of the files
    Out:    the version that holds the commit; None: one of the files is gone, and nothing was done
    """
    schema = table.schema
    result = DataFileWriter(table.uri, schema, Encoding())
    try:
        bounds = _Bounds(files.values())
        uris = [f"{table.uri}/{name}" for name in files]
        found = all_rows(uris, schema) if column is None else sorted_rows(uris, schema, column)
        for rows in _grouped(found, GROUP_ROWS):
            columns = dict(zip(rows.column_names, rows.columns, strict=True))
            result.write(columns, rows.num_rows)
            bounds.note(result, columns)
        bounds.finish(result)
        written = result.close()
    except BaseException:
        result.remove()
        raise
    added = [] if written is None else [NewFile(written["path"], written["size"], written["stats"])]
    try:
        return writer.replace(files, added, record, changes_data=False)
    except (ConflictError, FencedError) as error:
        small_files.delete_files(f"{table.uri}/{file.path}" for file in added)
        if isinstance(error, ConflictError):
            return None
        raise


class _Bounds:
    """The statistics of a file that holds the rows of others: of those columns that all of the others have bounds of."""

    def __init__(self, files: Iterable[DataFile]) -> None:
        files = list(files)
        names = {name for file in files for name in file.lowest}
        self._known = {n for n in names if all(n in f.lowest and n in f.highest for f in files)}
        self._texts = {
            name: (min(file.lowest[name] for file in files), max(file.highest[name] for file in files))
            for name in self._known
            if isinstance(files[0].lowest[name], str)
        }
        self._nulls: set[str] = set()

    def note(self, result: DataFileWriter, columns: Mapping[str, pa.ChunkedArray]) -> None:
        result.bound_numbers({name: columns[name] for name in columns if name in self._known})
        self._nulls |= {name for name in self._texts if name in columns and columns[name].null_count}

    def finish(self, result: DataFileWriter) -> None:
        """Bounds of texts may be cut short, so they are merged, and not taken from the rows."""
        for name, ends in self._texts.items():
            if name not in self._nulls and "." not in name:
                result.bound_by(name, *ends)


def _grouped(tables: Iterable[pa.Table], rows_max: int, bytes_max: int = GROUP_BYTES) -> Iterator[pa.Table]:
    """The same rows in tables of one size; the last may be smaller, and so are those whose rows are large.

    In: bytes_max  of a table as it is in memory: less than twice as many, unless a row alone has more
    """
    waiting: list[pa.Table] = []
    count = size = 0
    for rows in tables:
        step = max(1, rows.num_rows * bytes_max // max(rows.nbytes, 1))
        at = 0
        while at < rows.num_rows:
            part = rows.slice(at, min(step, rows_max - count))
            at, count, size = at + part.num_rows, count + part.num_rows, size + part.nbytes
            waiting.append(part)
            if count >= rows_max or size >= bytes_max:
                yield pa.concat_tables(waiting)
                waiting, count, size = [], 0, 0
    if count:
        yield pa.concat_tables(waiting)

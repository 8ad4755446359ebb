"""A Delta table's newest version and its files, kept up with commit by commit.

Opening reads the table's checkpoint once. Afterwards one look costs one request for a file that is not there yet, and each
new commit costs the reading of its commit file: nothing grows with the table's history.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from headrace.lake import small_files
from headrace.lake.clocks import boot_seconds
from headrace.lake.commits.commit_file import CommitFile, commit_uri, own_commit, read_commit
from headrace.lake.commits.metadata import TableMetadata
from headrace.lake.files.data_file import time_text

REMEMBERED = 8  # versions before the newest whose files and commits are still known
OWN_MAX = 1_024  # versions known to be of this process; the bytes of their commits may be forgotten earlier
ACTIONS_MAX = 1_000  # of a commit that is remembered; a large compaction has many, each a kilobyte in memory
LOOK_SECONDS = 10.0  # between looks at whether the history behind the snapshot is still there
OWN_SECONDS = 2.0  # for which the newest version is known after a commit of this process
Bound = int | float | str
Of = TypeVar("Of")


@dataclass(frozen=True)
class DataFile:
    """A Parquet file of a table.

    size             in bytes
    rows             None: its statistics do not say
    lowest, highest  the bounds of some columns; of timestamps at the top level in µs since 1970
    """

    size: int
    rows: int | None = None
    lowest: Mapping[str, Bound] = field(default_factory=dict)
    highest: Mapping[str, Bound] = field(default_factory=dict)

    def may_have(self, column: str, first: Bound, last: Bound | None) -> bool:
        """True if it may have rows where a column is from `first` through `last` (None: no upper bound)."""
        lowest, highest = self.lowest.get(column), self.highest.get(column)
        too_low = highest is not None and highest < first  # type: ignore[operator]
        too_high = last is not None and lowest is not None and lowest > last  # type: ignore[operator]
        return not (too_low or too_high)


@dataclass(frozen=True)
class Snapshot:
    """A version of a table and the files that make it up, by name. Nobody changes `files` once it is handed out.

    is_vouched_for  True if the commit of this version is ours, and so are all rows before it
    """

    version: int
    files: Mapping[str, DataFile]
    metadata: TableMetadata = field(default=TableMetadata(), compare=False)
    is_vouched_for: bool = field(default=False, compare=False)

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(file.size for file in self.files.values())

    @property
    def rows(self) -> int:
        """The number of rows, by the statistics."""
        return sum(file.rows or 0 for file in self.files.values())

    def reaches(self, column: str, value: Bound) -> bool:
        """True if the statistics show a row where a column is at or beyond a value. The newest files are looked at first."""
        highest = (file.highest.get(column) for file in reversed([*self.files.values()]))
        return any(each is not None and each >= value for each in highest)  # type: ignore[operator]

    def within(self, column: str, first: Bound = 0, last: Bound | None = None) -> dict[str, DataFile]:
        """The files that may have rows where a column is from `first` through `last`."""
        # `may_have`, written out: readers ask this of all files at each commit.
        return {
            name: file
            for name, file in self.files.items()
            if ((highest := file.highest.get(column)) is None or not highest < first)  # type: ignore[operator]
            and (last is None or (lowest := file.lowest.get(column)) is None or not lowest > last)  # type: ignore[operator]
        }


class IncrementalSnapshot:
    """The newest snapshot of one table. Several threads may ask."""

    def __init__(self, uri: str, load: Callable[[], Snapshot]) -> None:
        """Nothing is read yet. In: load  reads the newest version, from its checkpoint or the first commit on."""
        self._uri, self._load = uri, load
        self._snapshot: Snapshot | None = None
        self._look_at, self._own_at, self._looked_at = 0.0, -math.inf, -math.inf
        self._recent: dict[int, Snapshot] = {}
        self._commits: dict[int, CommitFile] = {}
        self._own: dict[int, None] = {}  # versions that this process has committed, in order
        self._lock = threading.RLock()

    def now(self) -> Snapshot:
        """The newest version."""
        with self._lock:
            looked_at = boot_seconds()
            if self._snapshot is not None and time.monotonic() >= self._look_at:
                self._look_at = time.monotonic() + LOOK_SECONDS
                if not small_files.exists(commit_uri(self._uri, self._snapshot.version)):
                    self._snapshot = None  # its history was cleaned, or another table stands there
            now = self._reload() if self._snapshot is None else self._snapshot
            while (found := read_commit(self._uri, now.version + 1)) is not None:
                now = self._followed(now, found)
            self._snapshot, self._looked_at = now, looked_at
            return now

    def recent(self, seconds: float = OWN_SECONDS, *, or_looked: bool = False) -> Snapshot:
        """The newest version as of the last commit of this process, if that was so many seconds ago; else the newest.

        While a process commits to a table, others seldom do. The fence judges at the next commit what came in between.

        In: or_looked  also as of the last look
        """
        known = self._snapshot
        known_at = max(self._own_at, self._looked_at if or_looked else -math.inf)
        return known if known is not None and boot_seconds() - known_at < seconds else self.now()

    def lost_track(self) -> None:
        """Look at the next question: this process may have committed what the snapshot does not show."""
        self._own_at = -math.inf

    def take(self, commit: CommitFile, at: float) -> None:
        """Follow a commit that was just made in this process, without a request. In: at  before it, by `boot_seconds`."""
        with self._lock:
            known = self._snapshot
            if known is not None and known.version == commit.version - 1:
                self._snapshot, self._own_at = self._followed(known, commit), at
                self._own[commit.version] = None
                if len(self._own) > OWN_MAX:
                    del self._own[next(iter(self._own))]
            elif known is None or known.version < commit.version:  # others have committed before it
                self.lost_track()

    def _followed(self, before: Snapshot, commit: CommitFile) -> Snapshot:
        """The version after a commit. In: before  the version that it follows."""
        # Where columns change, what their bounds mean may be another. With vectors the table has to be judged.
        odd = commit.changes_table or any(action.get("deletionVector") for action in commit.added)
        now = self._reload() if odd else _after(before, commit)
        now = replace(now, is_vouched_for=commit.vouches and now.version == commit.version)
        self._recent[now.version] = now
        # A table that was read anew may be at a later version than this commit.
        if now.version == commit.version and len(commit.actions) <= ACTIONS_MAX:
            self._commits[commit.version] = commit
        for remembered in (self._recent, self._commits):
            remembered.pop(now.version - REMEMBERED, None)
        return now

    def _reload(self) -> Snapshot:
        found = self._load()
        self._recent, self._commits, self._own = {found.version: found}, {}, {}
        self._look_at = time.monotonic() + LOOK_SECONDS
        return found

    def at(self, version: int) -> Snapshot | None:
        """A version that was the newest not long ago; None: its files are not remembered."""
        now = self.now()
        return now if now.version == version else self._recent.get(version)

    def through(self, column: str, value: Bound) -> Snapshot:
        """See `LakeTable.snapshot_through`."""
        known, is_recent = self._snapshot, time.monotonic() < self._look_at
        if known is not None and is_recent and known.is_vouched_for and known.reaches(column, value):
            return known
        return self.now()

    def commit_at(self, version: int) -> CommitFile | None:
        """One of the newest commits, or of those that this process has made since; None: it is not remembered."""
        found = self._commits.get(version)
        return own_commit(self._uri, version) if found is None and version in self._own else found

    @property
    def is_vouched_for(self) -> bool:
        """See `LakeTable`."""
        known = self._snapshot
        return known is not None and known.is_vouched_for

    @property
    def known_version(self) -> int:
        """The newest version seen so far; -1: none."""
        known = self._snapshot
        return -1 if known is None else known.version


def _after(before: Snapshot, commit: CommitFile) -> Snapshot:
    if not commit.added and not commit.removed:
        return Snapshot(commit.version, before.files, before.metadata)
    files = dict(before.files)
    change(files, commit, lambda action: file_of(action, before.metadata))
    return Snapshot(commit.version, files, before.metadata)


def change(files: dict[str, Of], commit: CommitFile, added: Callable[[Mapping[str, Any]], Of]) -> None:
    """Take the files that a commit removes out of some, by name, and put in what is made of its `add` actions."""
    for action in commit.removed:
        files.pop(unquote(action["path"]), None)
    files.update((unquote(action["path"]), added(action)) for action in commit.added)


def file_of(action: Mapping[str, Any], metadata: TableMetadata) -> DataFile:
    """The file of an `add` action."""
    return data_file(action["size"], action.get("stats"), metadata.times)


def data_file(size: int, stats: str | None, times: Collection[str] = ()) -> DataFile:
    """A file by its size and Delta's statistics of it (JSON). In: times  the columns that are timestamps."""
    known: Mapping[str, Any] = json.loads(stats) if stats else {}
    lowest, highest = (
        {name: _moment(value) if name in times else value for name, value in known.get(key, {}).items()}
        for key in ("minValues", "maxValues")
    )
    rows = known.get("numRecords")
    return DataFile(size, None if rows is None else int(rows), lowest, highest)


def stats_json(file: DataFile, columns: Collection[str], times: Mapping[str, str | None]) -> str:
    """Delta's statistics of a file (JSON), without counts of nulls.

    In: columns  of the table, at the top level
        times    those that are timestamps, with their time zone
    """
    sides = {
        side: {
            name: time_text(int(value), times[name]) if name in times else value
            for name, value in bounds.items()
            if name in columns
        }
        for side, bounds in (("minValues", file.lowest), ("maxValues", file.highest))
    }
    counted = {} if file.rows is None else {"numRecords": file.rows}
    return json.dumps({**counted, **sides}, default=str, ensure_ascii=False)


def _moment(value: str) -> int:
    """Delta writes times as text; here they are µs since 1970, so that they compare as numbers."""
    return int(np.datetime64(value.rstrip("Z").replace(" ", "T"), "us").astype(np.int64))


def listed(files: pa.Table) -> Iterable[tuple[str, DataFile]]:
    """The files of a version, by name, as delta-rs lists them (`get_add_actions`, flattened)."""
    bounds: dict[str, dict[str, list[Any]]] = {"min": {}, "max": {}}
    for name in files.column_names:
        side, _, column = name.partition(".")
        if side in bounds:
            values = files[name]
            if pa.types.is_timestamp(values.type):
                values = values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())
            bounds[side][column] = values.to_pylist()
    rows = (
        files["num_records"].to_pylist() if "num_records" in files.column_names else [None] * files.num_rows
    )
    paths, sizes = files["path"].to_pylist(), files["size_bytes"].to_pylist()
    for at in range(files.num_rows):
        lowest, highest = (
            {column: values[at] for column, values in bounds[side].items() if values[at] is not None}
            for side in ("min", "max")
        )
        yield unquote(paths[at]), DataFile(sizes[at], rows[at], lowest, highest)

"""One Delta table of the lake: its newest snapshot, its commits, and the handle by which delta-rs commits.

Law: a commit of Headrace is one commit of Delta, at a version that it names (see `headrace.lake.commits.fence`).
"""

from __future__ import annotations

import atexit
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from headrace.lake import small_files
from headrace.lake.clocks import boot_seconds
from headrace.lake.commits.checkpoint import last_checkpoint, write_checkpoint
from headrace.lake.commits.commit_file import (
    Change,
    CommitFile,
    append_actions,
    commit_uri,
    no_hooks,
    properties,
    put_commit,
    read_commit,
)
from headrace.lake.commits.features import is_plain
from headrace.lake.commits.fence import MENDS
from headrace.lake.commits.opening import opened, replayed
from headrace.lake.commits.snapshot import OWN_SECONDS, Bound, DataFile, IncrementalSnapshot, Snapshot, listed
from headrace.lake.storage import delta_uri, is_local, local_path, storage_options

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from headrace.lake.commits.metadata import TableMetadata
    from headrace.lake.commits.writer import TableWriter

T = TypeVar("T")
UPKEEP_SECONDS = 60.0  # after its last commit, or look, a process knows well enough what upkeep is due
AHEAD = "reads ahead after a commit to"  # the names of such threads begin so
STANDS_SECONDS = 10.0  # between looks whether the versions stand that a commit follows
AHEAD_SECONDS = 5.0  # the longest that a process that ends waits for them
# Commits between two checkpoints. A reader that opens the table reads each commit after the newest one. A checkpoint that
# names more files costs more.
CHECKPOINT_EVERY, FILES_A_COMMIT = 60, 1_000


class VersionTakenError(Exception):
    """The table has moved on: the version that was asked for is taken."""


class LakeTable:
    """A table at a URI. One object in a process serves all who read and write it (see `headrace.lake.open_table`)."""

    def __init__(self, uri: str) -> None:
        """Nothing is read yet."""
        self.uri = uri
        self._handle: DeltaTable | None = None
        self._opened_at = -math.inf  # when, by `boot_seconds`, if no snapshot was made of it since
        self._lock = threading.RLock()  # of the handle and of commits
        self._snapshot = IncrementalSnapshot(uri, self._load)
        self._metadata: TableMetadata | None = None  # None: not looked at since it may have changed
        self.maintainer: TableWriter | None = None  # of this process, see `headrace.lake.care.maintaining`
        self._checkpointed = -1
        self._stood: int | None = None  # a version that was seen to stand
        self._stood_at = -math.inf  # when, by `boot_seconds`

    @property
    def exists(self) -> bool:
        """True if a Delta table stands here."""
        from deltalake import DeltaTable

        # No lock: a merge holds it for as long as it takes.
        if self.known_version >= 0:
            return True
        if is_local(self.uri) and not local_path(self.uri).is_dir():
            return False  # of a file delta-rs does not tell
        return DeltaTable.is_deltatable(delta_uri(self.uri), storage_options(self.uri))

    def snapshot(self) -> Snapshot:
        """The newest version and its files."""
        return self._snapshot.now()

    def recent_snapshot(self) -> Snapshot:
        """The same without a request, if this process has just committed (see `IncrementalSnapshot.recent`)."""
        return self._snapshot.recent()

    def snapshot_for_upkeep(self) -> Snapshot:
        """A version by which to tell what upkeep is due: for a minute after a commit or a look, no request is made."""
        return self._snapshot.recent(UPKEEP_SECONDS, or_looked=True)

    def snapshot_through(self, column: str, value: Bound) -> Snapshot:
        """A version that has every row up to a value of a column that grows from commit to commit, as a log's commit time.

        That is the known version, without a request, if three things hold: it has a row at or beyond the value; it is
        vouched for, so nobody else has taken rows away; and the store was asked for it in the last ten seconds or so.
        Otherwise it is the newest version.
        """
        return self._snapshot.through(column, value)

    def snapshot_at(self, version: int) -> Snapshot | None:
        """A version that was the newest not long ago; None: its files are not remembered."""
        return self._snapshot.at(version)

    @property
    def is_vouched_for(self) -> bool:
        """True if the newest version seen so far is ours, and so are all rows before it; asks nobody."""
        return self._snapshot.is_vouched_for

    def files_at(self, version: int) -> Mapping[str, DataFile]:
        """The files of a version, read anew from Delta's log; older ones need a history that is not cleaned."""
        from deltalake import DeltaTable

        past = DeltaTable(delta_uri(self.uri), version=version, storage_options=storage_options(self.uri))
        return dict(listed(pa.table(past.get_add_actions(flatten=True))))

    @property
    def version(self) -> int:
        """The newest version; -1: there is no table."""
        return self.snapshot().version if self.exists else -1

    @property
    def recent_version(self) -> int:
        """The same, as `recent_snapshot` has it."""
        return self.recent_snapshot().version if self.exists else -1

    @property
    def known_version(self) -> int:
        """The newest version that this process has seen; nothing is looked at."""
        return self._snapshot.known_version

    @property
    def metadata(self) -> TableMetadata:
        """Columns, properties and protocol of the newest version."""
        return self.snapshot().metadata

    @property
    def schema(self) -> pa.Schema:
        """The columns of the newest version."""
        return self.metadata.schema

    @property
    def columns(self) -> pa.Schema:
        """The same, as of the last look in this process."""
        known = self._metadata
        if known is None:
            self._metadata = known = self.metadata
        return known.schema

    def commit_at(self, version: int) -> CommitFile | None:
        """A commit; None: there is none yet, or the history was cleaned as far as that."""
        return self._snapshot.commit_at(version) or read_commit(self.uri, version)

    def commit_to_judge(self, version: int) -> CommitFile | None:
        """The same; of a commit by somebody else also whether a later one of ours has mended it."""
        found = self.commit_at(version)
        if found is not None and found.changes_table:
            self.schema_changed()
        if found is None or found.fence is not None or not found.changes_data:
            return found
        later = version + 1
        while (next_one := self.commit_at(later)) is not None:
            if (next_one.record or {}).get(MENDS):
                return replace(found, mended=True)
            later += 1
        return found

    def commits_back(self, through: int) -> Iterator[CommitFile | None]:
        """The commits from a version backwards; None where the history was cleaned, which ends it."""
        for version in range(through, -1, -1):
            found = self.commit_at(version)
            yield found
            if found is None:
                return

    def put(self, version: int, record: Mapping[str, Any], change: Change) -> None:
        """Commit a change of files at exactly this version.

        One conditional write of a commit file, if the table has the protocol that Headrace makes; else delta-rs commits.

        Raises: VersionTakenError if the table is at this version or beyond; any error of the store or delta-rs otherwise
        """
        commit = CommitFile(self.uri, version, append_actions(change, record, time.time_ns() // 1_000_000))
        with self._lock:
            metadata = self._metadata
            if metadata is None:
                now = self.snapshot()
                if now.version != version - 1:
                    raise VersionTakenError(f"{self.uri} is at version {now.version}, not {version - 1}.")
                self._metadata = metadata = now.metadata
            if is_plain(metadata):
                self._put_plain(commit)
                return
            self._put_by_delta_rs(commit, record, change, metadata.schema)
        threading.Thread(target=self._look_ahead, daemon=True, name=f"{AHEAD} {self.uri}").start()

    def _put_plain(self, commit: CommitFile) -> None:
        """A commit follows another, or the table would have a gap: somebody may have deleted it, or made it anew."""
        now = boot_seconds()
        if now - self._stood_at > STANDS_SECONDS:
            # The version of the last look: those since may be of this process. It may be cleaned away behind a checkpoint.
            looked = commit.version - 1 if self._stood is None else self._stood
            stands = small_files.exists(commit_uri(self.uri, looked))
            if not stands and last_checkpoint(self.uri) < looked:
                self.forget()
                raise VersionTakenError(
                    f"{self.uri}: version {looked}, which a commit was to follow, is gone."
                )
            self._stood, self._stood_at = commit.version - 1, now
        self._snapshot.lost_track()  # the commit may stand though its answer is lost
        if not put_commit(commit):
            raise VersionTakenError(f"{self.uri}: version {commit.version} is taken.")
        self._snapshot.take(commit, now)

    def _put_by_delta_rs(
        self, commit: CommitFile, record: Mapping[str, Any], change: Change, schema: pa.Schema
    ) -> None:
        from deltalake.transaction import AddAction, RemoveAction

        actions: list[AddAction | RemoveAction] = [
            AddAction(file.path, file.size, {}, commit.timestamp_ms, change.changes_data, file.stats)
            for file in change.added
        ]
        actions += [
            RemoveAction(name, change.changes_data, commit.timestamp_ms, file.size, {})
            for name, file in (change.removed or {}).items()
        ]
        self._handle_at(commit.version - 1).create_write_transaction(
            actions,
            mode="append",
            schema=schema,
            commit_properties=properties(record),
            post_commithook_properties=no_hooks(),
        )
        self._snapshot.lost_track()

    def _look_ahead(self) -> None:
        """Read a commit that was just made, so that the next commit finds it read. That one meets any error again."""
        with suppress(Exception):
            with self._lock:
                if self._handle is not None:
                    self._handle.update_incremental()
            if self._snapshot.known_version >= 0:  # this process reads the table
                self.snapshot()

    def alone(self) -> AbstractContextManager[object]:
        """Nobody else in this process commits to the table meanwhile."""
        return self._lock

    def with_handle_at(self, version: int, work: Callable[[DeltaTable], T]) -> T:
        """Work with delta-rs' view of exactly this version, alone in this process: its commit takes the next one or fails.

        Raises: VersionTakenError if the table has moved on
        """
        with self._lock:
            try:
                return work(self._handle_at(version))
            finally:
                self._snapshot.lost_track()

    def checkpoint(self) -> int:
        """Write Delta's checkpoint of the newest version; others may commit meanwhile.

        Out: the version of the checkpoint
        """
        version = None if is_local(self.uri) else write_checkpoint(self.uri)
        if version is None:
            fresh = self._open()
            fresh.create_checkpoint()
            version = int(fresh.version())
        with self._lock:  # a handle that is needed is opened anew, from the checkpoint
            self._handle, self._checkpointed = None, version
        return version

    @property
    def wants_checkpoint(self) -> bool:
        """True if so many commits came after the newest checkpoint that looking at them costs more than writing one."""
        if not self.exists:
            return False
        if self._checkpointed < 0:
            self._checkpointed = max(last_checkpoint(self.uri), 0)
        now = self.snapshot_for_upkeep()
        few = CHECKPOINT_EVERY + len(now.files) // FILES_A_COMMIT
        return now.version - self._checkpointed >= few

    def forget(self) -> None:
        """Forget all that was read."""
        with self._lock:
            self._handle, self._metadata, self._checkpointed = None, None, -1
            self._stood, self._stood_at = None, -math.inf
            self._snapshot = IncrementalSnapshot(self.uri, self._load)

    def schema_changed(self) -> None:
        """The columns, or the protocol, may have changed."""
        with self._lock:
            self._metadata = None

    def _handle_at(self, version: int) -> DeltaTable:
        handle = self._handle if self._handle is not None else self._open()
        if handle.version() < version:
            handle.update_incremental()
        self._handle = handle
        if handle.version() != version:
            raise VersionTakenError(f"{self.uri} is at version {handle.version()}, not {version}.")
        return handle

    def _open(self) -> DeltaTable:
        from deltalake import DeltaTable

        if self._handle is None:
            self._opened_at = boot_seconds()
        return DeltaTable(delta_uri(self.uri), storage_options=storage_options(self.uri))

    def _load(self) -> Snapshot:
        """Takes no lock: whoever holds that of the handle may ask for a snapshot."""
        if (found := replayed(self.uri)) is not None:
            return found
        handle = self._handle
        if handle is None or boot_seconds() - self._opened_at > OWN_SECONDS:
            handle = self._open()
        self._opened_at = -math.inf
        found = opened(self.uri, handle)
        self._handle = handle
        return found


@atexit.register
def _let_threads_end() -> None:
    """Wait for the threads that read ahead: when Python ends while one is inside delta-rs, the process crashes."""
    deadline = time.monotonic() + AHEAD_SECONDS
    for thread in threading.enumerate():
        if thread.name.startswith(AHEAD):
            thread.join(max(0.0, deadline - time.monotonic()))

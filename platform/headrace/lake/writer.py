"""A writer of one role on one table: it takes an epoch, then commits behind the fence (see `headrace.lake.fence`)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.lake.fence import FENCE, ConflictError, Fence, Verdict, after, commit, judge, refusal
from headrace.lake.history import carried, newest_epochs
from headrace.lake.table import Change, LakeTable

if TYPE_CHECKING:
    from headrace.lake.commit_file import CommitFile
    from headrace.lake.data_file import NewFile
    from headrace.lake.snapshot import DataFile


GIVES_WAY_SECONDS = 0.02  # a maintainer that lost a version leaves the next one to the appender


@dataclass(frozen=True)
class _Store:
    """The commits of a table, as the fence sees them, for one change of files."""

    table: LakeTable
    change: Change

    def put(self, version: int, record: Mapping[str, Any]) -> None:
        self.table.put(version, record, self.change)

    def get(self, version: int) -> CommitFile | None:
        return self.table.commit_at(version)


class TableWriter:
    """Commits to a table until a newer writer of its role takes over. Several threads may use it."""

    def __init__(self, table: LakeTable, role: str, *, carries: Sequence[str] = ()) -> None:
        """Take the next epoch of the role, by an empty commit. Progress is read after it, never before.

        In:     carries  the writers whose newest records this commit repeats, so that older commits may be cleaned
        Raises: FencedError when another writer of the role took the same epoch
        """
        self._table = table
        self._lock = threading.RLock()
        version = table.version
        epochs = dict(newest_epochs(table))
        self._fence = Fence(role, epochs.get(role, 0) + 1, epochs)
        self._judged = version  # through this version every commit is known
        self._commit(Change(), {"writer": f"epoch/{role}", **carried(table, carries)})

    @property
    def epoch(self) -> int:
        """The epoch of this writer."""
        return self._fence.epoch

    def append(self, added: Sequence[NewFile], record: Mapping[str, Any]) -> int:
        """Append the rows of files that lie in the table's folder, with a commit record; the version that holds them."""
        return self._commit(Change(added), record)

    def replace(
        self,
        removed: Mapping[str, DataFile],
        added: Sequence[NewFile],
        record: Mapping[str, Any],
        *,
        changes_data: bool,
    ) -> int:
        """Put files in the place of others, in one commit.

        In:     removed       files of a snapshot, by name
                changes_data  False if the rows stay the same
        Raises: ConflictError if one of the removed files is gone
        """
        with self._lock:
            self._require_there(removed)
            change = Change(added, removed, changes_data)
            return self._commit(change, record, lambda found: not _removes(found, removed))

    def commit_by(self, work: Callable[[Mapping[str, Any], Any], None], record: Mapping[str, Any]) -> int:
        """Let delta-rs commit something of its own (a merge, a compaction, a changed property) behind the fence.

        In:     work  called with the whole commit record and delta-rs' table at an exact version; it must commit once, with
                      `table.properties(record)`; it is called again when another commit came first
        Out:    the version that holds the commit; if `work` committed nothing, the version before
        """
        with self._lock:
            while True:
                self._catch_up()
                version, token = self._judged, _token()
                whole = {**record, FENCE: self._fence.entry(token)}
                try:
                    self._table.with_handle_at(version, partial(work, whole))
                except Exception:
                    found = self._table.commit_at(version + 1)
                    if found is None:
                        raise
                    if judge(found, self._fence, token) is not Verdict.OWN:
                        time.sleep(GIVES_WAY_SECONDS)
                        continue  # the next look judges it, and the work is done again on the newer version
                self._catch_up(token)
                self._table.schema_changed()
                return self._judged

    def _commit(
        self,
        change: Change,
        record: Mapping[str, Any],
        may_pass: Callable[[CommitFile], bool] = lambda found: True,
    ) -> int:
        with self._lock:
            while (
                self._judged < self._table.known_version
            ):  # commits of this process: no failed attempt finds them
                self._judge_next()
            store = _Store(self._table, change)
            version, self._fence = commit(store, self._fence, self._judged + 1, record, may_pass=may_pass)
            self._judged = version
            return version

    def _catch_up(self, token: str = "") -> None:
        """Judge the commits that came since the last look."""
        while self._judge_next(token):
            pass

    def _judge_next(self, token: str = "") -> bool:
        """Judge the commit after the last one judged; False if there is none."""
        found = self._table.commit_at(self._judged + 1)
        if found is None:
            return False
        verdict = judge(found, self._fence, token)
        if verdict not in (Verdict.PASSED, Verdict.OWN):
            raise refusal(found, self._fence, verdict)
        if verdict is Verdict.PASSED:
            self._fence = after(self._fence, found)
        self._judged = found.version
        return True

    def _require_there(self, removed: Mapping[str, DataFile]) -> None:
        gone = removed.keys() - self._table.snapshot().files.keys()
        if gone:
            raise ConflictError(f"{self._table.uri}: {len(gone)} of the files to be replaced are gone.")


def _removes(found: CommitFile, wanted: Mapping[str, DataFile]) -> bool:
    return any(action["path"] in wanted for action in found.removed)


def _token() -> str:
    from uuid import uuid4

    return uuid4().hex

"""A writer of one role on one table: it takes an epoch, then commits behind the fence (see `lake.commits.fence`)."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from time import sleep
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from uuid import uuid4

from headrace.errors import TransientError
from headrace.lake import small_files
from headrace.lake.clocks import boot_seconds
from headrace.lake.commits.checkpoint import last_checkpoint
from headrace.lake.commits.commit_file import Change, commit_uri
from headrace.lake.commits.epochs import known_epochs, newest_fenced
from headrace.lake.commits.fence import (
    FENCE,
    MAINTAINER,
    MENDING,
    MENDS,
    TRIES_MAX,
    ConflictError,
    Fence,
    FencedError,
    UnknownOutcomeError,
    Verdict,
    after,
    commit,
    judge,
    refusal,
)
from headrace.lake.commits.history import carried
from headrace.lake.table import LakeTable, VersionTakenError

if TYPE_CHECKING:
    from headrace.lake.commits.commit_file import CommitFile
    from headrace.lake.commits.snapshot import DataFile
    from headrace.lake.files.data_file import NewFile


OVERTAKEN_MAX = 20  # times that a command of delta-rs is worked out again
GIVES_WAY_SECONDS = 0.02  # a maintainer that lost a version leaves the next one to the appender
LONG_SECONDS = 120.0  # a commit that stood longer ago may be cleaned away by now (see `headrace.lake.kinds`)


class OvertakenError(TransientError):
    """Other commits came first again and again. Nothing was committed."""


@dataclass(frozen=True)
class _Store:
    """The commits of a table, as the fence sees them, for one change of files."""

    table: LakeTable
    change: Change
    give_way: Callable[[], None]
    look: Callable[[int], CommitFile | None]

    def put(self, version: int, record: Mapping[str, Any]) -> None:
        self.table.put(version, record, self.change)

    def get(self, version: int) -> CommitFile | None:
        return self.look(version)

    def alone(self) -> AbstractContextManager[object]:
        return self.table.alone()


class TableWriter:
    """Commits to a table until a newer writer of its role takes over. Several threads may use it."""

    def __init__(
        self, table: LakeTable, role: str, *, carries: Sequence[str] = (), mends: bool = False
    ) -> None:
        """Take the next epoch of the role, by an empty commit. Progress is read after it, never before.

        In:     carries  the writers whose newest records this commit repeats, so that older commits may be cleaned
                mends    True for a writer whose commits put right what somebody else did to the rows (a backfill)
        Raises: ForeignCommitError when somebody else has changed rows; FencedError when others take epochs all the time
        """
        self._table, self._mends = table, mends
        self._lock = threading.RLock()
        self._fence = Fence(role, 0)
        self._judged = -1  # through this version every commit is known
        # At that time the version after the last one judged was free, or had a commit file.
        self._looked_at = boot_seconds()
        self._unsure = False  # an earlier attempt may still arrive
        for tries in range(TRIES_MAX):
            try:
                self._take(carries)
                return
            except FencedError:  # another one took the same epoch: this one is the later, and takes the next
                if tries == TRIES_MAX - 1:
                    raise

    def _take(self, carries: Sequence[str]) -> None:
        role, self._looked_at = self._fence.role, boot_seconds()
        self._judged, epochs = known_epochs(self._table, mends=self._mends)
        self._fence = Fence(role, epochs.get(role, 0) + 1, epochs, taken=False)
        mending = {MENDING: True} if self._mends else {}
        self._commit(Change(), {"writer": f"epoch/{role}", **carried(self._table, carries), **mending})
        self._fence = replace(self._fence, taken=True)

    @property
    def uri(self) -> str:
        """The table's URI."""
        return self._table.uri

    @property
    def judged(self) -> int:
        """Through this version every commit is known to this writer."""
        return self._judged

    @property
    def role(self) -> str:
        """The role of this writer."""
        return self._fence.role

    @property
    def epoch(self) -> int:
        """The epoch of this writer."""
        return self._fence.epoch

    @property
    def epochs(self) -> Mapping[str, int]:
        """For each role the newest epoch that this writer has met."""
        return self._fence.epochs

    def judge_known(self) -> None:
        """Judge every commit that a snapshot in this process may show, before anything is made of its rows.

        Raises: ForeignCommitError when somebody else has changed rows; FencedError when a newer writer took over
        """
        with self._lock:
            self._follow()

    def append(self, added: Sequence[NewFile], record: Mapping[str, Any]) -> int:
        """Append the rows of files that lie in the table's folder, with a commit record; the version that holds them."""
        with self._lock:
            self._follow()
            return self._commit(Change(added), self._marked(record))

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
            self._follow()
            self._require_there(removed)
            change = Change(added, removed, changes_data)
            return self._commit(change, self._marked(record), lambda commit: not _removes(commit, removed))

    def commit_by(
        self, work: Callable[[Mapping[str, Any], Any], None], record: Mapping[str, Any]
    ) -> int | None:
        """Let delta-rs commit something of its own (a merge, a compaction, a changed property) behind the fence.

        In:     work  called with the whole commit record and delta-rs' table at an exact version; it must commit once, with
                      `table.properties(record)`; it is called again when another commit came first
        Out:    the version that holds the commit; None: `work` committed nothing
        Raises: OvertakenError when other commits came first each time, or the table was deleted
        """
        with self._lock:
            for _ in range(OVERTAKEN_MAX):
                self._follow()
                while self._judge_next():
                    pass
                version, token = self._judged, _token()
                whole = {**self._marked(record), FENCE: self._fence.entry(token)}
                was_unsure, self._unsure, began = self._unsure, True, boot_seconds()
                error: Exception | None = None
                try:
                    self._table.with_handle_at(version, partial(work, whole))
                except Exception as raised:
                    error = raised
                found = self._table.commit_at(version + 1)
                if found is None and isinstance(error, VersionTakenError):
                    self._unsure, self._looked_at = was_unsure, -math.inf
                    continue  # the table has moved on so far that its history was cleaned
                if found is None and error is not None:
                    self._require_history(version, error)
                    raise error  # it may still arrive
                self._unsure = was_unsure and found is None
                if found is None or judge(found, self._fence, token) is not Verdict.OWN:
                    if error is None:
                        return None
                    self._give_way()
                    continue  # the next look judges it, and the work is done again on the newer version
                self._stands(version + 1, began)
                self._table.schema_changed()
                return self._judged
            raise OvertakenError(
                f"{self._table.uri}: other commits came first {OVERTAKEN_MAX} times.",
                hint="Run it again when the stream has caught up and commits less often.",
            )

    def _commit(
        self,
        change: Change,
        record: Mapping[str, Any],
        may_pass: Callable[[CommitFile], bool] = lambda commit: True,
    ) -> int:
        store, began = _Store(self._table, change, self._give_way, self._look), boot_seconds()
        self._unsure = True
        try:
            version, self._fence = commit(store, self._fence, self._judged + 1, record, may_pass=may_pass)
        except (ConflictError, FencedError):
            self._unsure = False
            raise
        self._stands(version, began)
        return version

    def _stands(self, version: int, began: float) -> None:
        """Note a commit of our own.

        After a very long pause inside an attempt, the version may have been taken and cleaned away meanwhile. Then the
        store accepts a second commit file of that version, which no reader looks at.
        """
        if boot_seconds() - self._looked_at > LONG_SECONDS and last_checkpoint(self._table.uri) >= version:
            self._table.forget()
            raise UnknownOutcomeError(
                f"{self._table.uri}: version {version} was committed after so long that its history may be gone.",
                hint="The writer opens the table again by itself and reads how far it came.",
            )
        self._judged, self._looked_at, self._unsure = version, began, False

    def _follow(self) -> None:
        """Judge the commits that this process knows of, so that none of them costs an attempt."""
        now = boot_seconds()
        is_long = now - self._looked_at > LONG_SECONDS
        newest = self._table.version if is_long else self._table.known_version
        while self._judged < newest:
            if not self._judge_next():
                self._skip_cleaned()
        if is_long:
            self._looked_at = now

    def _marked(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**record, MENDS: True} if self._mends else record

    def _look(self, version: int) -> CommitFile | None:
        """The commit at a version, to be judged by this writer."""
        found = self._table.commit_to_judge(version)
        return replace(found, mended=True) if found is not None and self._mends else found

    def _judge_next(self) -> bool:
        """Judge the commit after the last one judged; False if there is none."""
        found = self._look(self._judged + 1)
        if found is None:
            return False
        verdict = judge(found, self._fence, "")
        if verdict is not Verdict.PASSED:
            raise refusal(found, self._fence, verdict)
        self._fence = after(self._fence, found)
        self._judged = found.version
        return True

    def _skip_cleaned(self) -> None:
        """Go on after commits that were cleaned away: the writer of a later fenced commit has judged them.

        Raises: FencedError when a newer writer of the role took over; UnknownOutcomeError when this cannot be told
        """
        found = newest_fenced(self._table)
        if found is None or found.fence is None or found.version <= self._judged or self._unsure:
            raise UnknownOutcomeError(
                f"{self._table.uri}: the history after version {self._judged} was cleaned before this writer read it.",
                hint="The writer opens the table again by itself and reads how far it came.",
            )
        epoch = found.fence["epochs"].get(self._fence.role, 0)
        if epoch > self._fence.epoch:
            raise refusal(found, self._fence, Verdict.OVERTAKEN)
        self._fence = after(self._fence, found)
        self._judged = found.version
        self._table.schema_changed()  # one of those that were cleaned may have changed it

    def _give_way(self) -> None:
        if self._fence.role == MAINTAINER:
            sleep(GIVES_WAY_SECONDS)

    def _require_there(self, removed: Mapping[str, DataFile]) -> None:
        gone = removed.keys() - self._table.snapshot().files.keys()
        if gone:
            raise ConflictError(f"{self._table.uri}: {len(gone)} of the files to be replaced are gone.")

    def _require_history(self, version: int, error: Exception) -> None:
        """Raise OvertakenError when the commit is gone that a failed one was to follow: the table was deleted, say."""
        if not small_files.exists(commit_uri(self._table.uri, version)):
            raise OvertakenError(
                f"{self._table.uri}: version {version}, which this change was to follow, is gone.",
                hint="Run it again.",
            ) from error


def _removes(commit: CommitFile, wanted: Mapping[str, DataFile]) -> bool:
    return any(unquote(action["path"]) in wanted for action in commit.removed)


def _token() -> str:
    return uuid4().hex

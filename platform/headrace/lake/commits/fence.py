"""The fence: a commit names its exact version, so a writer that was overtaken can never add a row.

Law: after a writer of a role has taken epoch n on a table, no commit of that role with a lower epoch follows.

1. A new writer puts an empty commit with the next epoch of its role, and only then reads its progress.
2. Each commit carries role, epoch and a token of its own, and names one version. A store lets one commit have a version.
3. If the version is taken, or the answer is lost, the writer reads what stands there and judges it (`judge`):
   its own token is success; a newer epoch of its role ends it; a commit that its role may pass makes it try the next
   version with the same files; anything else is refused.
4. A writer that did not learn the outcome of a commit may try again. If the first attempt arrives after all, the writer
   finds a commit of its own epoch with another token. It then ends, and a new writer reads the progress.

The proof stands in the formalism (L29). No clock is read, so no pause can break the law. Retrying the same version with the
same token is safe while an earlier attempt may still arrive: at most one of the two can win the version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from headrace.errors import HeadraceError, TerminalError, TransientError

if TYPE_CHECKING:
    from headrace.lake.commits.commit_file import CommitFile

APPENDER, MAINTAINER = "appender", "maintainer"
# Entries of a commit record. MENDS: this commit repairs rows that a foreign commit changed. MENDING: this writer will do so;
# until then foreign commits stay refused.
MENDS, MENDING = "mends", "mending"
FENCE = "fence"  # the entry of a commit record that holds role, epoch, token and epochs
TRIES_MAX = 5  # attempts at one version while nobody can tell whether it is taken


class FencedError(TerminalError):
    """A newer writer of the same role has taken the table over."""


class ForeignCommitError(TerminalError):
    """A commit changed rows of the table, and Headrace did not write it."""


class UnknownOutcomeError(TransientError):
    """The store does not say whether a commit went through, and it may still arrive: its files must stay.

    A new writer of the role (`TableWriter`) finds out: what its progress does not name after its epoch never arrives.
    """


class Verdict(Enum):
    """The meaning of a taken version for the writer that wanted it."""

    OWN = "the commit went through, its answer was lost"
    OVERTAKEN = "a newer writer of the role has taken over"
    LATE = "an earlier commit of this writer, whose outcome it did not learn, has arrived"
    PASSED = "the commit does not concern this writer: it tries the next version"
    REFUSED = "the commit changed rows that only Headrace may change"


@dataclass(frozen=True)
class Fence:
    """One writer of one role on one table.

    epochs  for each role the newest epoch that this writer knows
    taken   False until the commit that takes the epoch stands: until then the writer before it goes on
    """

    role: str
    epoch: int
    epochs: Mapping[str, int] = field(default_factory=dict)
    taken: bool = True

    def entry(self, token: str) -> dict[str, Any]:
        """Give the part of a commit record that tells its writer."""
        return {
            "role": self.role,
            "epoch": self.epoch,
            "token": token,
            "epochs": {**self.epochs, self.role: self.epoch},
        }


def judge(commit: CommitFile, fence: Fence, token: str) -> Verdict:
    """Judge the commit that stands at a version which a writer wanted.

    A commit of the other role was fenced by an epoch of its own, so it may change rows (a backfill's swap, an erasure).
    """
    known = commit.fence
    if known is None:
        foreign_rows = commit.changes_data and not commit.mended
        return Verdict.REFUSED if foreign_rows or commit.changes_table else Verdict.PASSED
    if known["token"] == token:
        return Verdict.OWN
    if known["role"] != fence.role:
        return Verdict.PASSED
    if known["epoch"] > fence.epoch:
        return Verdict.OVERTAKEN
    if known["epoch"] == fence.epoch:
        return Verdict.LATE if fence.taken else Verdict.OVERTAKEN
    return Verdict.REFUSED if fence.taken else Verdict.PASSED


class CommitStore(Protocol):
    """Where commits of one table lie. `lake.table` has the real one, the model test a simulated one."""

    def put(self, version: int, record: Mapping[str, Any]) -> None:
        """Commit at exactly this version. Any exception may mean that it is taken, or that the answer is lost."""

    def get(self, version: int) -> CommitFile | None:
        """The commit at a version; None: there is none yet."""

    def alone(self) -> AbstractContextManager[object]:
        """Other writers of this process wait meanwhile. Others never do."""

    def give_way(self) -> None:
        """Called when the version went to somebody else, before the next one is tried."""


def commit(
    store: CommitStore,
    fence: Fence,
    version: int,
    record: Mapping[str, Any],
    *,
    may_pass: Callable[[CommitFile], bool] = lambda commit: True,
) -> tuple[int, Fence]:
    """Commit once, at the first version that is free for this writer.

    In:     version   the first to try: one beyond the newest that the writer has judged
            record    of the commit; its fence entry is added here
            may_pass  False for a commit that this one conflicts with: then the writer has to begin anew
    Out:    the version that holds the commit, and the fence with the epochs that were met on the way
    Raises: FencedError, ForeignCommitError, ConflictError when `may_pass` says no: the commit never arrives.
            UnknownOutcomeError, or an error of the store: it may still arrive
    """
    token, tries, is_lost = uuid4().hex, 0, False
    while True:
        with store.alone():
            while is_lost and (found := store.get(version)) is not None:
                passed = _passed(found, fence, token, may_pass)
                if passed is None:
                    return version, fence
                fence, version, tries = passed, version + 1, 0
            try:
                store.put(version, {**record, FENCE: fence.entry(token)})
                return version, fence
            except Exception as raised:
                error = raised
        found = store.get(version)
        if found is not None:
            passed = _passed(found, fence, token, may_pass)
            if passed is None:
                return version, fence
            fence, version, tries, is_lost = passed, version + 1, 0, True
            store.give_way()
            continue
        tries += 1
        if tries >= TRIES_MAX:
            raise UnknownOutcomeError(
                f"Version {version} of a table could not be committed, and nothing stands there.",
                detail=str(error)[:1000],
                hint="The writer opens the table again by itself; if it goes on, look at the store.",
            ) from error


def _passed(
    commit: CommitFile, fence: Fence, token: str, may_pass: Callable[[CommitFile], bool]
) -> Fence | None:
    """The fence after a commit that was passed; None: the commit is one's own."""
    verdict = judge(commit, fence, token)
    if verdict is Verdict.OWN:
        return None
    if verdict is not Verdict.PASSED:
        raise refusal(commit, fence, verdict)
    if not may_pass(commit):
        raise ConflictError(commit.version)
    return after(fence, commit)


class ConflictError(Exception):
    """A commit took away what this one is made of; the caller looks again and works it out anew."""


def after(fence: Fence, commit: CommitFile) -> Fence:
    """The fence once a commit of another role, or of somebody else, was passed."""
    if commit.fence is None:
        return fence
    newer = {
        role: max(epoch, fence.epochs.get(role, 0))
        for role, epoch in commit.fence["epochs"].items()
        if role != fence.role
    }
    return replace(fence, epochs={**fence.epochs, **newer})


def refusal(commit: CommitFile, fence: Fence, verdict: Verdict) -> HeadraceError:
    """The error that ends a writer."""
    if verdict is Verdict.OVERTAKEN and commit.fence is not None:
        return FencedError(
            f"{commit.table}: a newer {fence.role} (epoch {commit.fence['epoch']}) has taken the table over; "
            f"this one (epoch {fence.epoch}) stops without writing.",
            hint="Another run writes this asset now. Stop one of the two.",
        )
    if verdict is Verdict.LATE:
        return UnknownOutcomeError(
            f"{commit.table}: version {commit.version} is an earlier commit of this {fence.role}, which arrived late.",
            hint="The writer opens the table again by itself and reads how far it came.",
        )
    return foreign(commit)


def foreign(commit: CommitFile) -> ForeignCommitError:
    """The error for a commit by somebody else that Headrace cannot pass."""
    return ForeignCommitError(
        f"{commit.table}: version {commit.version} ({commit.operation or 'unknown operation'}) changed the table, "
        "and Headrace did not write it.",
        detail=f"It {'changes rows' if commit.changes_data else 'changes columns, properties or the protocol'}.",
        hint="Stop the stream and run `headrace repair` with the topic: it undoes the change. "
        f"Or restore the table to version {commit.version - 1}. See docs/guides/operating.md, 'Foreign hands'.",
    )

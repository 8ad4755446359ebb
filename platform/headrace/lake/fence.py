"""The fence: a commit names its exact version, so a writer that was overtaken can never add a row.

Law: after a writer of a role has taken epoch n on a table, no commit of that role with a lower epoch follows.

1. A new writer puts an empty commit with the next epoch of its role, and only then reads its progress.
2. Each commit carries role, epoch and a token of its own, and names one version. A store lets one commit have a version.
3. If the version is taken, or the answer is lost, the writer reads what stands there and judges it (`judge`):
   its own token is success; a newer epoch of its role ends it; a commit that its role may pass makes it try the next
   version with the same files; anything else is refused.

The proof stands in the formalism (L29). No clock is read, so no pause can break the law. Retrying the same version with the
same token is safe while an earlier attempt may still arrive: at most one of the two can win the version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from headrace.errors import TerminalError, TransientError

if TYPE_CHECKING:
    from headrace.lake.commit_file import CommitFile

APPENDER, MAINTAINER = "appender", "maintainer"
FENCE = "fence"  # the entry of a commit record that holds role, epoch, token and epochs
TRIES_MAX = 5  # attempts at one version while nobody can tell whether it is taken


class FencedError(TerminalError):
    """A newer writer of the same role has taken the table over."""


class ForeignCommitError(TerminalError):
    """A commit changed rows of the table, and Headrace did not write it."""


class UnknownOutcomeError(TransientError):
    """The store does not say whether a commit went through. Opening the table again finds out."""


class Verdict(Enum):
    """What a taken version means for the writer that wanted it."""

    OWN = "the commit went through, its answer was lost"
    OVERTAKEN = "a newer writer of the role has taken over"
    PASSED = "the commit does not concern this writer: it tries the next version"
    REFUSED = "the commit changed rows that only Headrace may change"


@dataclass(frozen=True)
class Fence:
    """One writer of one role on one table.

    epochs  for each role the newest epoch that this writer knows
    """

    role: str
    epoch: int
    epochs: Mapping[str, int] = field(default_factory=dict)

    def entry(self, token: str) -> dict[str, Any]:
        """What a commit record says of its writer."""
        return {
            "role": self.role,
            "epoch": self.epoch,
            "token": token,
            "epochs": {**self.epochs, self.role: self.epoch},
        }


def judge(found: CommitFile, fence: Fence, token: str) -> Verdict:
    """Judge the commit that stands at a version which a writer wanted.

    A commit of the other role was fenced by an epoch of its own, so it may change rows (a backfill's swap, an erasure).
    """
    known = found.fence
    if known is None:
        return Verdict.REFUSED if found.changes_data or found.changes_table else Verdict.PASSED
    if known["token"] == token:
        return Verdict.OWN
    if known["role"] != fence.role:
        return Verdict.PASSED
    return Verdict.OVERTAKEN if known["epoch"] >= fence.epoch else Verdict.REFUSED


class CommitStore(Protocol):
    """Where commits of one table lie. `lake.table` has the real one, the model test a simulated one."""

    def put(self, version: int, record: Mapping[str, Any]) -> None:
        """Commit at exactly this version. Any exception may mean that it is taken, or that the answer is lost."""

    def get(self, version: int) -> CommitFile | None:
        """The commit at a version; None: there is none yet."""


def commit(
    store: CommitStore,
    fence: Fence,
    version: int,
    record: Mapping[str, Any],
    *,
    may_pass: Callable[[CommitFile], bool] = lambda found: True,
) -> tuple[int, Fence]:
    """Commit once, at the first version that is free for this writer.

    In:     version   the first to try: one beyond the newest that the writer has judged
            record    of the commit; its fence entry is added here
            may_pass  False for a commit that this one conflicts with: then the writer has to begin anew
    Out:    the version that holds the commit, and the fence with the epochs that were met on the way
    Raises: FencedError, ForeignCommitError, UnknownOutcomeError; ConflictError when `may_pass` says no
    """
    token, tries = uuid4().hex, 0
    while True:
        try:
            store.put(version, {**record, FENCE: fence.entry(token)})
        except Exception as error:
            found = store.get(version)
            if found is None:
                tries += 1
                if tries >= TRIES_MAX:
                    raise UnknownOutcomeError(
                        f"Version {version} of a table could not be committed, and nothing stands there.",
                        detail=str(error)[:1000],
                        hint="The writer opens the table again by itself; if it goes on, look at the store.",
                    ) from error
                continue
            verdict = judge(found, fence, token)
            if verdict is Verdict.PASSED:
                if not may_pass(found):
                    raise ConflictError(version) from error
                fence, version, tries = after(fence, found), version + 1, 0
                continue
            if verdict is not Verdict.OWN:
                raise refusal(found, fence, verdict) from error
        return version, fence


class ConflictError(Exception):
    """A commit took away what this one is made of; the caller looks again and works it out anew."""


def after(fence: Fence, found: CommitFile) -> Fence:
    """The fence once a commit of another role, or of somebody else, was passed."""
    if found.fence is None:
        return fence
    newer = {
        role: max(epoch, fence.epochs.get(role, 0))
        for role, epoch in found.fence["epochs"].items()
        if role != fence.role
    }
    return Fence(fence.role, fence.epoch, {**fence.epochs, **newer})


def refusal(found: CommitFile, fence: Fence, verdict: Verdict) -> TerminalError:
    """The error that ends a writer."""
    if verdict is Verdict.OVERTAKEN and found.fence is not None:
        return FencedError(
            f"{found.table}: a newer {fence.role} (epoch {found.fence['epoch']}) has taken the table over; "
            f"this one (epoch {fence.epoch}) stops without writing.",
            hint="Another run writes this asset now. Stop one of the two.",
        )
    return ForeignCommitError(
        f"{found.table}: version {found.version} ({found.operation or 'unknown operation'}) changed the table, "
        "and Headrace did not write it.",
        detail=f"It {'changes rows' if found.changes_data else 'changes columns, properties or the protocol'}.",
        hint=f"Restore the table to version {found.version - 1}, or rebuild it: "
        "see docs/guides/operating.md, 'Foreign hands'.",
    )

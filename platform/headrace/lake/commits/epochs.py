"""A table's history as a new writer needs it: the epochs that were taken, and that nobody else changed rows since.

Law: the newest fenced commit names, for each role, the newest epoch taken at or before its version (L29). So one commit
tells all, however much of the history before it was cleaned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.lake.commits.fence import APPENDER, foreign
from headrace.lake.commits.history import LostHistoryError, looking_back

if TYPE_CHECKING:
    from headrace.lake.commits.commit_file import CommitFile
    from headrace.lake.table import LakeTable


def known_epochs(table: LakeTable, *, mends: bool = False) -> tuple[int, Mapping[str, int]]:
    """The newest version of the table, and for each role the newest epoch taken at or before it.

    A table that has no fenced commit is new: no epoch was taken yet.

    In:     mends  True for a writer that is going to put right what somebody else did to rows
    Raises: ForeignCommitError when somebody else has changed rows since the newest fenced commit, and has not restored them;
            LostHistoryError
    """
    return looking_back(table, lambda newest: (newest, _epochs(table, newest, mends=mends)))


def _epochs(table: LakeTable, newest: int, *, mends: bool) -> Mapping[str, int]:
    others: list[CommitFile] = []
    epochs: Mapping[str, int] = {}
    for number, found in enumerate(table.commits_back(newest)):
        if found is None:
            raise LostHistoryError(table, newest - number, "its writers")
        if found.fence is not None:
            epochs = epochs or found.fence["epochs"]
            if found.vouches:
                require_undone([] if mends else others[::-1])
                return epochs
            continue  # its writer may have ended before it put anything right
        others.append(found)
    return epochs


def foreign_commits(table: LakeTable) -> list[CommitFile]:
    """The commits by somebody else for which a new writer would refuse the table, in its order; none: it would not."""
    if not table.exists:
        return []

    def unvouched(newest: int) -> list[CommitFile]:
        others: list[CommitFile] = []
        for each in table.commits_back(newest):
            if each is None:
                break
            if each.vouches:
                return others[::-1]
            if each.fence is None:
                others.append(each)
        return []  # no writer of ours is known, so there is nobody whose rows they could have changed

    return _not_undone(looking_back(table, unvouched))


def require_own_rows(table: LakeTable) -> None:
    """Refuse to read rows that somebody else has put there, or has left of ours.

    A writer of ours commits nothing after such a change, so it is among the newest commits. They are read only if the
    newest one that is known does not vouch for those before it.

    Raises: ForeignCommitError
    """
    others = [] if table.is_vouched_for else foreign_commits(table)
    if others:
        raise foreign(others[0])


def require_undone(commits: Sequence[CommitFile]) -> None:
    """Refuse commits by somebody else that changed rows, unless the later ones put back exactly the files of before.

    In:     commits  in the table's order, none of them fenced
    Raises: ForeignCommitError
    """
    others = _not_undone(commits)
    if others:
        raise foreign(others[0])


def _not_undone(commits: Sequence[CommitFile]) -> list[CommitFile]:
    """Those that changed rows; none: they changed nothing together. In: see `require_undone`."""
    changing = [commit for commit in commits if commit.changes_data]
    if not changing:
        return []
    between = [commit for commit in commits if changing[0].version <= commit.version <= changing[-1].version]
    compacted = {path for commit in between if not commit.changes_data for path in _balance([commit])}
    alone = _balance(changing)
    is_undone = not any(alone.values()) and not compacted & alone.keys()
    return changing if not is_undone and any(_balance(between).values()) else []


def _balance(commits: Sequence[CommitFile]) -> Counter[str]:
    """For each file how often it was added, less how often it was removed; other deletion vectors make it another file."""
    found: Counter[str] = Counter()
    for commit in commits:
        found.update(map(_identity, commit.added))
        found.subtract(map(_identity, commit.removed))
    return found


def _identity(action: Mapping[str, Any]) -> str:
    vector = action.get("deletionVector")
    suffix = f" {vector['pathOrInlineDv']} {vector.get('offset')}" if vector else ""
    return f"{action['path']}{suffix}"


def appender_epoch(table: LakeTable) -> int:
    """The newest epoch that an appender of the table has taken; 0: none has."""
    found = newest_fenced(table)
    return 0 if found is None or found.fence is None else found.fence["epochs"].get(APPENDER, 0)


def newest_fenced(table: LakeTable) -> CommitFile | None:
    """The newest commit that carries a fence, as far as the history is kept."""
    for found in table.commits_back(table.version):
        if found is None or found.fence is not None:
            return found
    return None

"""The commit records of a table: which commit of a writer is the newest, however long ago it was.

A *commit record* is a small JSON document kept in Delta's `userMetadata`. It is atomic with the change that it describes.
A commit of a maintainer repeats the newest records of the other writers (`carried`). So older history may be cleaned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.errors import TerminalError

if TYPE_CHECKING:
    from headrace.lake.table import LakeTable

T = TypeVar("T")


@dataclass(frozen=True)
class Commit:
    """A commit of ours: the table's version and the record that it carried."""

    version: int
    record: Mapping[str, Any]


class LostHistoryError(TerminalError):
    """The history that would tell was cleaned."""

    def __init__(self, table: LakeTable, version: int, what: str) -> None:
        super().__init__(
            f"The table at {table.uri} has lost the history that names {what} (version {version}).",
            hint="Rebuild it from the log, or restore the table's _delta_log from a backup.",
        )


def last_commit(
    table: LakeTable, writer: str, *, through: int | None = None, recent: bool = False
) -> Commit | None:
    """The newest commit, through a version, whose record names this writer; None: there is none.

    In:     recent  as of the last commit of this process, if that was just now (see `LakeTable.recent_snapshot`)
    Raises: LostHistoryError
    """
    if recent and table.exists:
        through = table.recent_version
    if through is not None:
        return _last_commit(table, writer, through)
    return looking_back(table, lambda newest: _last_commit(table, writer, newest)) if table.exists else None


def carried(table: LakeTable, writers: Sequence[str]) -> dict[str, Any]:
    """The last commits of some writers, for the record of another writer. They are found there after Delta's clean-up.

    Out: `carried`: the last commit of each writer as of a version. A reader also looks at the commits between that version
         and the commit that carries this.
    """

    def last_commits(as_of: int) -> dict[str, Any]:
        commits = {writer: _last_commit(table, writer, as_of) for writer in writers}
        last = {
            writer: None if commit is None else _repeated(commit.version, commit.record)
            for writer, commit in commits.items()
        }
        return {"carried": {"as_of": as_of, "last": last}}

    return looking_back(table, last_commits)


def all_carried(table: LakeTable) -> dict[str, Any]:
    """The same for all writers of the table, so that history may be cleaned. A writer that is not listed has made no commit.

    Where other hands have cleaned history before, nothing is said of those who are not named.
    """

    def last_commits(as_of: int) -> dict[str, Any]:
        last: dict[str, Any] = {}
        known, knows_all = -1, True
        for number, commit in enumerate(table.commits_back(as_of)):
            if commit is None:
                knows_all = False
                break
            record, version = commit.record or {}, as_of - number
            told = record.get("carried", {})
            if not str(record.get("writer", "epoch/")).startswith("epoch/"):
                _keep_newest(last, record["writer"], _repeated(version, record))
            for writer, repeated in told.get("last", {}).items():
                _keep_newest(last, writer, repeated)
            known = max(known, told["as_of"] if told.get("all") else -1)
            if known >= version - 1:
                break
        return {"carried": {"as_of": as_of, "last": last, "all": knows_all}}

    return looking_back(table, last_commits)


def _keep_newest(last: dict[str, Any], writer: str, repeated: Mapping[str, Any] | None) -> None:
    if repeated is not None and (writer not in last or last[writer]["version"] < repeated["version"]):
        last[writer] = repeated


def _repeated(version: int, record: Mapping[str, Any]) -> dict[str, Any]:
    """A record as another one repeats it; without what it repeats itself."""
    return {
        "version": version,
        "record": {name: value for name, value in record.items() if name != "carried"},
    }


def looking_back(table: LakeTable, look: Callable[[int], T]) -> T:
    """Look at the history from the newest version on backwards; again if it was cleaned meanwhile.

    In: look  called with the newest version; raises LostHistoryError
    """
    while True:
        newest = table.version
        try:
            return look(newest)
        except LostHistoryError:
            if table.version == newest:
                raise


def _last_commit(table: LakeTable, writer: str, newest: int) -> Commit | None:
    known: Mapping[str, Any] | None = None
    for number, found in enumerate(table.commits_back(newest)):
        version = newest - number
        if found is None:
            raise LostHistoryError(table, version, "its last commit")
        record = found.record or {}
        if record.get("writer") == writer:
            return Commit(version, record)
        told = _carried_for(record, writer)
        if told is not None and (known is None or told["as_of"] > known["as_of"]):
            known = told  # a commit that waited for long tells less than one before it
        if known is not None and known["as_of"] >= version - 1:
            last = known["last"].get(writer)
            return None if last is None else Commit(last["version"], last["record"])
    return None


def _carried_for(record: Mapping[str, Any], writer: str) -> Mapping[str, Any] | None:
    known: Mapping[str, Any] | None = record.get("carried")
    return known if known is not None and (known.get("all") or writer in known["last"]) else None

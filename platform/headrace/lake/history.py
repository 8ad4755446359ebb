"""The commit records of a table: which commit of a writer is the newest, however long ago it was.

A *commit record* is a small JSON document kept in Delta's `userMetadata`. It is atomic with the change that it describes.
A commit of a maintainer repeats the newest records of the other writers (`carried`). So the history before it may be cleaned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.errors import TerminalError

if TYPE_CHECKING:
    from headrace.lake.table import LakeTable


@dataclass(frozen=True)
class Commit:
    """A commit of ours: the table's version and the record that it carried."""

    version: int
    record: Mapping[str, Any]


def last_commit(table: LakeTable, writer: str, *, through: int | None = None) -> Commit | None:
    """The newest commit, through a version, whose record names this writer; None: there is none.

    Raises: TerminalError when the history that would tell was cleaned
    """
    known: Mapping[str, Any] | None = None
    newest = table.version if through is None else through
    for number, found in enumerate(table.commits_back(newest)):
        version = newest - number
        if found is None:
            raise TerminalError(
                f"The table at {table.uri} has lost the history that names its last commit (version {version}).",
                hint="Rebuild it from the log, or restore the table's _delta_log from a backup.",
            )
        record = found.record or {}
        if record.get("writer") == writer:
            return Commit(version, record)
        known = known or _carried_for(record, writer)
        if known is not None and known["as_of"] >= version - 1:
            last = known["last"][writer]
            return None if last is None else Commit(last["version"], last["record"])
    return None


def carried(table: LakeTable, writers: Sequence[str]) -> dict[str, Any]:
    """What a record by none of these writers has to say, so that their last commits are found behind it.

    Out: `carried`: the last commit of each writer as of a version. A reader looks at the commits between that version and
         the commit that carries this, too.
    """
    as_of = table.version
    found = {writer: last_commit(table, writer, through=as_of) for writer in writers}
    last = {
        writer: None if commit is None else {"version": commit.version, "record": dict(commit.record)}
        for writer, commit in found.items()
    }
    return {"carried": {"as_of": as_of, "last": last}}


def _carried_for(record: Mapping[str, Any], writer: str) -> Mapping[str, Any] | None:
    known: Mapping[str, Any] | None = record.get("carried")
    return known if known is not None and writer in known["last"] else None


def newest_epochs(table: LakeTable) -> Mapping[str, int]:
    """For each role the newest epoch taken on the table; a role that is missing has none."""
    for found in table.commits_back(table.version):
        if found is None:
            break
        if found.fence is not None:
            epochs: Mapping[str, int] = found.fence["epochs"]
            return epochs
    return {}

"""One commit of a Delta table, as its commit file says it (public protocol of Delta Lake)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from headrace.lake import small_files
from headrace.lake.commits.fence import FENCE, MENDING
from headrace.lake.files import object_files

if TYPE_CHECKING:
    from deltalake import CommitProperties, PostCommitHookProperties

    from headrace.lake.commits.snapshot import DataFile
    from headrace.lake.files.data_file import NewFile


@dataclass(frozen=True)
class Change:
    """The changes that a commit makes to the files of a table.

    added         files that lie in the table's folder
    removed       files of the newest snapshot, by name
    changes_data  False if the added files hold the rows of the removed ones (a compaction)
    """

    added: Sequence[NewFile] = ()
    removed: Mapping[str, DataFile] | None = None
    changes_data: bool = True


@dataclass(frozen=True)
class CommitFile:
    """A commit.

    table    the table's URI
    actions  as the protocol writes them, one object each
    mended   True if a later commit of ours has put right what this one did to rows
    """

    table: str
    version: int
    actions: Sequence[Mapping[str, Any]]
    mended: bool = False

    @cached_property
    def record(self) -> Mapping[str, Any] | None:
        """The commit record that Headrace put into `userMetadata`; None: it has none of ours."""
        metadata = self._info.get("userMetadata")
        try:
            found = json.loads(metadata) if metadata else None
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    @property
    def fence(self) -> Mapping[str, Any] | None:
        """Role, epoch, token and epochs of its writer; None: a commit of somebody else."""
        found: Mapping[str, Any] | None = (self.record or {}).get(FENCE)
        return found

    @property
    def vouches(self) -> bool:
        """True if it is ours, and its writer found all rows before it to be ours, too."""
        return self.fence is not None and not (self.record or {}).get(MENDING)

    @property
    def operation(self) -> str:
        """The name that its writer has for it."""
        return str(self._info.get("operation", ""))

    @property
    def timestamp_ms(self) -> int:
        """When its writer made it, in ms since 1970; 0: it does not say. For people alone."""
        return int(self._info.get("timestamp", 0))

    @property
    def changes_data(self) -> bool:
        """True if it adds or removes rows."""
        return any(
            action[kind].get("dataChange", True)
            for action in self.actions
            for kind in ("add", "remove")
            if kind in action
        )

    @property
    def changes_table(self) -> bool:
        """True if it changes columns, properties or the protocol."""
        return any("metaData" in action or "protocol" in action for action in self.actions)

    @property
    def added(self) -> list[Mapping[str, Any]]:
        """The files that it adds."""
        return [action["add"] for action in self.actions if "add" in action]

    @property
    def removed(self) -> list[Mapping[str, Any]]:
        """The files that it removes."""
        return [action["remove"] for action in self.actions if "remove" in action]

    @cached_property
    def _info(self) -> Mapping[str, Any]:
        return next((action["commitInfo"] for action in self.actions if "commitInfo" in action), {})


def commit_uri(table: str, version: int) -> str:
    """Where a commit lies."""
    return f"{table}/_delta_log/{version:020d}.json"


def append_actions(change: Change, record: Mapping[str, Any], now_ms: int) -> list[dict[str, Any]]:
    """The actions of a commit that changes files of a table, as the protocol writes them. In: record  of Headrace."""
    info = {
        "timestamp": now_ms,
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": "[]"},
        "engineInfo": "headrace",
        "userMetadata": json.dumps(record, sort_keys=True),
    }
    added = (
        {
            "path": quote(file.path),
            "partitionValues": {},
            "size": file.size,
            "modificationTime": now_ms,
            "dataChange": change.changes_data,
            "stats": file.stats,
        }
        for file in change.added
    )
    removed = (
        {
            "path": quote(name),
            "dataChange": change.changes_data,
            "deletionTimestamp": now_ms,
            "extendedFileMetadata": True,
            "partitionValues": {},
            "size": file.size,
        }
        for name, file in (change.removed or {}).items()
    )
    return [{"commitInfo": info}, *({"add": each} for each in added), *({"remove": each} for each in removed)]


def put_commit(commit: CommitFile) -> bool:
    """Write a commit file, unless its version is taken. Out: False if it is."""
    # As text, not escaped: delta-rs reads the two escapes of a letter beyond U+FFFF as another letter.
    text = "\n".join(
        json.dumps(action, separators=(",", ":"), ensure_ascii=False) for action in commit.actions
    )
    return small_files.write_bytes(commit_uri(commit.table, commit.version), text.encode(), overwrite=False)


def read_commit(table: str, version: int) -> CommitFile | None:
    """A commit; None: there is none yet, or the table's history was cleaned as far as that."""
    return _parsed(table, version, small_files.read_bytes(commit_uri(table, version)))


def own_commit(table: str, version: int) -> CommitFile | None:
    """The last commit that this process has made at a version of such a table, without a request; None: not remembered."""
    _, content = object_files.OWN_OBJECTS.get(commit_uri(table, version)) or ("", None)
    return _parsed(table, version, content)


def _parsed(table: str, version: int, content: bytes | None) -> CommitFile | None:
    if content is None:
        return None
    lines = content.decode().split("\n")
    return CommitFile(table, version, [json.loads(line) for line in lines if line])


def properties(record: Mapping[str, Any]) -> CommitProperties:
    """How delta-rs is to commit: with our record, and at the next version or not at all."""
    from deltalake import CommitProperties

    text = json.dumps(record, sort_keys=True)
    return CommitProperties(custom_metadata={"userMetadata": text}, max_commit_retries=0)


def no_hooks() -> PostCommitHookProperties:
    """Nothing happens inside a commit beside the commit: checkpoints and clean-up have a time of their own."""
    from deltalake import PostCommitHookProperties

    return PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)

"""One commit of a Delta table, as its commit file says it (public protocol of Delta Lake)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headrace.lake import small_files
from headrace.lake.fence import FENCE, MENDING


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


def read_commit(table: str, version: int) -> CommitFile | None:
    """A commit; None: there is none yet, or the table's history was cleaned as far as that."""
    text = small_files.read_text(commit_uri(table, version))
    if text is None:
        return None
    return CommitFile(table, version, [json.loads(line) for line in text.split("\n") if line])

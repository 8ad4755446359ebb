"""Where the state of a replay guard lies between commits.

Law: a guard's state after a commit is a function of the state before it and of the commit's rows, so it is recovered
from the last commit's record and rows; history is read only when a guard is new to a log.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from headrace.lake import small_files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.sequence.replays.guards import Guard

INLINE_CHARACTERS_MAX = 16_384  # some 250 paths or 1,000 intervals; a larger state has a file of its own
FOLDER = "_guard"  # below the log's table; Delta leaves alone what begins with an underscore


class GuardStore:
    """Keeps a guard's state in commit records or, when it is large, in a file that the record names.

    A file is named by its content and written before the commit that names it; the one before goes when that commit
    is settled. So a record never names a file that is not there, and there are at most two.
    """

    def __init__(self, log_path: str) -> None:
        self._folder = f"{log_path}/{FOLDER}"
        self._named: str | None = None

    def entry(self, guard: Guard | None) -> dict[str, Any]:
        """The guard's entry in a commit record. A large state is written to a file first."""
        if guard is None:
            return {}
        document = guard.to_json()
        text = json.dumps(document, sort_keys=True)
        if len(text) <= INLINE_CHARACTERS_MAX:
            return {"guard": document}
        name = f"{hashlib.sha256(text.encode()).hexdigest()}.json"
        if name != self._named:
            small_files.write_json(f"{self._folder}/{name}", document)
        return {"guard_file": name}

    def settled(self, entry: Mapping[str, Any]) -> None:
        """A commit with this entry went through: the file named before is no longer needed."""
        name = entry.get("guard_file")
        if self._named is not None and name != self._named:
            small_files.delete_files([f"{self._folder}/{self._named}"])
        self._named = name

    def read(self, record: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The state that the newest record names, None if it names none; what a crash left behind is removed."""
        self._named = record.get("guard_file")
        left = [name for name in small_files.names(self._folder) if name != self._named]
        small_files.delete_files(f"{self._folder}/{name}" for name in left)
        if self._named is None:
            return record.get("guard")
        content: Mapping[str, Any] | None = small_files.read_json(f"{self._folder}/{self._named}")
        return content

"""The rows of a result table as they come: read from the files that its commits add, without Spark."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from headrace.errors import TerminalError
from headrace.lake import open_table, small_files
from headrace.lake.commits.commit_file import read_commit
from headrace.lake.files.row_groups import parquet_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from headrace.description import Node
    from headrace.lake.commits.commit_file import CommitFile
    from headrace.lake.paths import Lake


@dataclass(frozen=True)
class TailRow:
    """Holds a row that a commit has made, changed or removed.

    gone  True if the row of this content is no longer in the table
    row   the node's columns by name
    """

    gone: bool
    row: Mapping[str, Any]


class Tail:
    """Follows a node's result table from a version on. Current totals are folded into it about once a minute.

    Law: rows that a commit moves from one file to another are told by nobody, for both files have them.
    """

    def __init__(self, lake: Lake, node: Node) -> None:
        """Begin after the newest commit.

        Raises: TerminalError when the node has no table yet.
        """
        self._uri, self._columns = lake.table(node.required_name), list(node.columns)
        table = open_table(self._uri)
        if not table.exists:
            raise TerminalError(
                f"Node '{node.required_name}' has no table in {lake.root}.", hint="Start its stream first."
            )
        self._version = table.version

    def newest(self, rows: int) -> list[TailRow]:
        """Read the rows that the last commits have made, changed or removed, the newest last."""
        found: list[TailRow] = []
        version = self._version
        while len(found) < rows and (commit := read_commit(self._uri, version)) is not None:
            found = [*self._changes(commit), *found]
            version -= 1
        return found[-rows:] if rows else []

    def news(self) -> Iterator[TailRow]:
        """Read the rows of the commits since the last call: first those that are gone, then those that came."""
        while (commit := read_commit(self._uri, self._version + 1)) is not None:
            self._version += 1
            yield from self._changes(commit)

    def _changes(self, commit: CommitFile) -> Iterator[TailRow]:
        if commit.changes_data:
            before = [*self._rows(action["path"] for action in commit.removed)]
            after = [*self._rows(action["path"] for action in commit.added)]
            yield from (TailRow(True, each.row) for each in _without(before, after))
            yield from _without(after, before)

    def _rows(self, paths: Iterable[str]) -> Iterator[TailRow]:
        for path in paths:
            content = small_files.read_bytes(f"{self._uri}/{unquote(path)}")
            if content is not None:  # else maintenance has deleted it since
                table = parquet_file(pa.BufferReader(content)).read(columns=self._columns)
                yield from (TailRow(False, row) for row in table.to_pylist())


def _without(rows: Sequence[TailRow], others: Sequence[TailRow]) -> list[TailRow]:
    """The rows that the others lack, each as often as it is more often among these."""
    known = Counter(repr(each.row) for each in others)
    left = []
    for each in rows:
        if known[repr(each.row)]:
            known[repr(each.row)] -= 1
        else:
            left.append(each)
    return left

"""Log commits whose files still lie in the table's folder, although no version of the table names them.

A foreign program that overwrites a commit file leaves the Parquet files that it named. Files of attempts that never became
commits lie there, too. So a commit is taken from such files only if they fit the chain: its commit row follows the commit
before and leads to the next one, and the files with its commit time hold each of its records once.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headrace.description.epoch_time import milliseconds
from headrace.lake import open_table
from headrace.lake.care.vacuum import in_no_version
from headrace.lake.files.sorted_rows import all_rows, bounds_of
from headrace.log.commit_row import PREFIX, CommitRow
from headrace.sequence.log_columns import log_schema
from headrace.spark.one_task import Target, arrow_schema

if TYPE_CHECKING:
    from headrace.description import Topic
    from headrace.lake import NewFile
    from headrace.log.history.chain import Gap


class StrayCommits:
    """Lost commits of one log whose files are still in its folder."""

    def __init__(self, path: str, topic: Topic) -> None:
        """Nothing is read yet."""
        self._path, self._schema = path, arrow_schema(log_schema(topic))

    def between(self, gap: Gap) -> list[NewFile] | None:
        """The lost commits of a gap, in new files of the log's folder; None: the files that are left lack a part of them."""
        files = self._files_between(gap.after_ms, gap.later.after.ingested_at_ms)
        rows = {
            at_ms: [row for each in tables for row in _commit_rows(each)] for at_ms, tables in files.items()
        }
        found = sorted(
            (row for told in rows.values() for row in told), key=lambda row: -row.after.ingested_at_ms
        )
        for commits in _chains(gap.before, gap.later, found):
            wholes = [_whole(files[row.after.ingested_at_ms], row) for row in commits]
            if all(whole is not None for whole in wholes):
                target = Target(self._path, self._schema)
                return [self._written(target, whole) for whole in wholes if whole is not None]
        return None

    @staticmethod
    def _written(target: Target, rows: pa.Table) -> NewFile:
        from headrace.lake import NewFile

        return NewFile(**(target.write([rows]) or {}))

    def _files_between(self, after_ms: int, before_ms: int) -> dict[int, list[pa.Table]]:
        """The rows of each stray file whose rows have one commit time between two, by that time."""
        found: dict[int, list[pa.Table]] = defaultdict(list)
        for uri, at_ms in self._strays:
            if after_ms < at_ms < before_ms:
                found[at_ms].append(pa.concat_tables(all_rows([uri], self._schema)))
        return found

    @cached_property
    def _strays(self) -> list[tuple[str, int]]:
        """The files that are rows of one commit time, with that time in ms."""
        found = []
        for name in in_no_version(open_table(self._path), settled_hours=0):
            uri = f"{self._path}/{name}"
            bounds = bounds_of(uri, "ingested_at")
            if bounds is not None and bounds[0] == bounds[1]:
                found.append((uri, milliseconds(bounds[0])))
        return found


def _commit_rows(rows: pa.Table) -> Iterator[CommitRow]:
    for control in pc.drop_null(rows["control"].unique()).to_pylist() if rows.num_rows else ():
        if control.startswith(PREFIX):
            yield CommitRow.from_json(control)


def _chains(before: CommitRow, later: CommitRow, rows: Sequence[CommitRow]) -> Iterator[list[CommitRow]]:
    """The ways in which commit rows lead from one commit to another; those made last come first."""
    if before.after.batch + 1 == later.after.batch:
        if before.next == dict(later.previous):
            yield []
        return
    for row in rows:
        follows = row.after.batch == before.after.batch + 1 and dict(row.previous) == before.next
        if follows and row.after.ingested_at_ms > before.after.ingested_at_ms:
            for rest in _chains(row, later, rows):
                yield [row, *rest]


def _whole(files: Sequence[pa.Table], row: CommitRow) -> pa.Table | None:
    """The rows of a commit, each once; None: they are not those that its commit row counted.

    A task that was tried twice left its rows twice, and so does a repair that had copied them and died.
    """
    taken: list[pa.Table] = []
    offsets: set[tuple[int, int]] = set()
    decided: set[str] = set()
    for rows in files:
        theirs = {each for each in _places(rows) if each[1] is not None}
        if theirs & offsets or any(other != row for other in _commit_rows(rows)):
            continue
        said = [*map(json.dumps, rows.select(["kind", "partition", "control"]).to_pylist())]
        records = pc.is_valid(rows["offset"]).to_pylist()
        new = [is_record or text not in decided for is_record, text in zip(records, said, strict=True)]
        taken.append(rows.filter(pa.array(new, pa.bool_())))
        offsets |= theirs
        decided.update(said)
    return pa.concat_tables(taken) if taken and len(offsets) == row.records else None


def _places(rows: pa.Table) -> Iterator[tuple[int, int]]:
    yield from zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True)

"""The control row that each log commit holds: where the log stands after the commit, and where it stood before.

Law: the rows of a log form a chain. The next offsets before a commit equal the next offsets after the commit before it, and
commits are numbered without a gap. A log commit that is lost breaks the chain, and the offsets that are gone are known.

A rebuild needs only this row, which outlives Delta's clean-up of commit files. The metadata of a commit repeats it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from headrace.lake.files.data_file import DataFileWriter, NewFile
from headrace.log.decision_rows import Decision, LogFolder, write_decisions
from headrace.sequence.log_columns import COMMIT, CONTROL
from headrace.sequence.log_state import LogState

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame

PREFIX = f'{{"action": "{COMMIT}"'  # of the row's JSON, whose keys are sorted
TIME_ALONE = '"time_alone": true}'  # ends it, if the commit tells of the time alone


@dataclass(frozen=True)
class CommitRow:
    """The content of one commit row.

    after       the log after the commit
    previous    for each partition the next offset before it
    records     how many records and dead letters the commit holds
    time_alone  True: it tells of nothing but the time, so it ends waits of the wall clock alone (see `log.deadlines`)
    """

    after: LogState
    previous: Mapping[int, int]
    records: int = 0
    time_alone: bool = False

    @property
    def next(self) -> dict[int, int]:
        """For each partition the next offset after it."""
        return self.after.next_offsets

    def to_json(self) -> str:
        """The row's JSON."""
        entry = {
            "action": COMMIT,
            "after": self.after.to_json(),
            "next": {str(p): offset for p, offset in self.next.items()},
            "previous": {str(p): offset for p, offset in self.previous.items()},
            "records": self.records,
            **({"time_alone": True} if self.time_alone else {}),
        }
        return json.dumps(entry, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> CommitRow:
        """The row that `to_json` wrote."""
        entry = json.loads(text)
        previous = {int(p): offset for p, offset in entry["previous"].items()}
        after = LogState.from_json(entry["after"])
        return cls(after, previous, entry["records"], entry.get("time_alone", False))


def write_commit_row(
    uri: str, schema: pa.Schema, topic: str, row: CommitRow, file: DataFileWriter | None = None
) -> NewFile:
    """Write the row of a commit to a file in the log's folder. In: file  see `write_decisions`."""
    after = row.after
    partition = min(after.partitions, default=0)
    stream_ms = after.partitions[partition].stream_ms if after.partitions else None
    decision = Decision(partition, stream_ms, row.to_json())
    return write_decisions(LogFolder(uri, schema), topic, CONTROL, after.ingested_at_ms, [decision], file)


def is_commit_row() -> Expr:
    """True for the row of a log that says where the log stands after a commit."""
    return (F.col("kind") == CONTROL) & F.col("control").startswith(PREFIX)


def without_commit_rows(log: DataFrame) -> DataFrame:
    """The rows that operators see: commit rows repeat what others say."""
    return log.where(F.col("control").isNull() | ~F.col("control").startswith(PREFIX))

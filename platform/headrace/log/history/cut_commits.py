"""The cut of a log: what it leaves where the log stood, and the note of the deadlines of commits that went.

Law: a cut changes no stream time and no deadline. At the last commit that is cut the log keeps the commit row, a tick of
each partition and, if the topic is idle, the control row that says so. So a reader that is new, or that sequences the log
again, knows the stream times of partitions that have been silent since. It knows them from that commit on.

A commit with records that was cut keeps its deadlines of wall-clock time. The note is written before rows go, so it holds
the cuts before, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.lake import small_files
from headrace.log.commit_row import CommitRow, write_commit_row
from headrace.log.decision_rows import Decision, LogFolder, write_decisions
from headrace.log.decisions.moves import idleness
from headrace.sequence.log_columns import CONTROL, TICK

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.lake import NewFile
    from headrace.sequence.log_state import LogState

NAME = "_cut.json"  # below the log's table; Delta leaves alone what begins with an underscore
CUTS_KEPT = 50  # more than a job leaves behind that fails between its note and the deletion of the rows


@dataclass(frozen=True)
class CutCommits:
    """The commits of a log through one that were cut off.

    through_ms  the commit time of the last one
    records_ms  rising commit times of those with records from which readers might wait for the wall clock
    others_ms   those of commits without records
    times_ms    those of commits that tell of the time alone
    """

    through_ms: int
    records_ms: Sequence[int] = ()
    others_ms: Sequence[int] = ()
    times_ms: Sequence[int] = ()


def write_standing(uri: str, schema: pa.Schema, topic: str, after: LogState) -> list[NewFile]:
    """Write what a cut leaves: where the log stands after its last commit.

    In: uri, schema  of the log's table
    """
    at_ms = after.ingested_at_ms
    ticks = [
        Decision(partition, of.stream_ms)
        for partition, of in sorted(after.partitions.items())
        if of.stream_ms is not None
    ]
    idle = [Decision(row.partition, row.stream_ms, entry) for row, entry in idleness(after).items()]
    decided = [(TICK, ticks), (CONTROL, idle if after.idle else [])]
    files = [
        write_decisions(LogFolder(uri, schema), topic, kind, at_ms, rows) for kind, rows in decided if rows
    ]
    return [*files, write_commit_row(uri, schema, topic, CommitRow(after, after.next_offsets))]


def note_commits(log_path: str, cut: CutCommits) -> None:
    """Note a cut before its rows go."""
    before = [each for each in cuts_noted(log_path) if each.through_ms < cut.through_ms]
    cuts = [
        {
            "through_ms": each.through_ms,
            "records_ms": [*each.records_ms],
            "others_ms": [*each.others_ms],
            "times_ms": [*each.times_ms],
        }
        for each in [*before, cut][-CUTS_KEPT:]
    ]
    small_files.write_json(f"{log_path}/{NAME}", {"cuts": cuts})


def cuts_noted(log_path: str) -> list[CutCommits]:
    """The last cuts of a log, in their order; of the newest the rows may still be there."""
    note = small_files.read_json(f"{log_path}/{NAME}") or {"cuts": []}
    return [CutCommits(**each) for each in note["cuts"]]


def cut_commits_ms(log_path: str, after_ms: int) -> tuple[set[int], set[int], set[int]]:
    """The times after a commit time of commits that were cut off, as `CutCommits` has them."""
    records, others, times = set[int](), set[int](), set[int]()
    for cut in cuts_noted(log_path):
        for found, noted in ((records, cut.records_ms), (others, cut.others_ms), (times, cut.times_ms)):
            found.update(ms for ms in noted if ms > after_ms)
    return records, others, times

"""The note of commits whose rows were cut off a log: where the log stood after the last one, and the deadlines of others.

Law: a cut changes no stream time and no deadline. A node that is new after a cut begins with the stream times and idle
topics that the commit row of the cut said, not with those of the rows that are left. A commit with records that was cut
keeps its deadlines of wall-clock time.

The note is written before rows go, so it holds the cuts before, too: the newest of which the rows are gone counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.lake import small_files
from headrace.sequence.log_state import LogState

NAME = "_cut.json"  # below the log's table; Delta leaves alone what begins with an underscore
CUTS_KEPT = 50  # more than a job leaves behind that fails between its note and the deletion of the rows


@dataclass(frozen=True)
class CutCommits:
    """The commits of a log through one that were cut off.

    after       the log after the last of them
    records_ms  rising commit times of those with records from which readers might wait for the wall clock
    """

    after: LogState
    records_ms: Sequence[int] = ()

    @property
    def through_ms(self) -> int:
        """The commit time of the last one."""
        return self.after.ingested_at_ms


def note_commits(log_path: str, cut: CutCommits) -> None:
    """Note a cut before its rows go."""
    before = [each for each in cuts_noted(log_path) if each.through_ms < cut.through_ms]
    cuts = [
        {"after": each.after.to_json(), "records_ms": [*each.records_ms]}
        for each in [*before, cut][-CUTS_KEPT:]
    ]
    small_files.write_json(f"{log_path}/{NAME}", {"cuts": cuts})


def cuts_noted(log_path: str) -> list[CutCommits]:
    """The last cuts of a log, in their order; of the newest the rows may still be there."""
    note = small_files.read_json(f"{log_path}/{NAME}") or {"cuts": []}
    return [CutCommits(LogState.from_json(each["after"]), each["records_ms"]) for each in note["cuts"]]


def cut_records_ms(log_path: str, after_ms: int) -> list[int]:
    """The commit times of records that were cut off after a commit time, rising."""
    return sorted({ms for cut in cuts_noted(log_path) for ms in cut.records_ms if ms > after_ms})

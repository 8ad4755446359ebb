"""What a cut leaves of a log: where it stood, at the commit at which it stood so. No Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace import lake as lakes
from headrace.lake import kinds, small_files
from headrace.lake.paths import Lake
from headrace.log.commit_row import CommitRow, write_commit_row
from headrace.log.history.cut_commits import CutCommits, cut_commits_ms, note_commits, write_standing
from headrace.nodes.progress import Progress
from headrace.nodes.rows.reader_frames import reader_time
from headrace.nodes.standing.reader_commits import read_commits, reader_times
from headrace.sequence.formats import RecordFormat
from headrace.sequence.log_columns import SKIPPING
from headrace.sequence.log_state import LastRow, LogState
from headrace.sequence.sequence_records import Sequencer

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.fast

CUT, WHOLE = (hr.Topic(name, key="id STRING", value="n INT") for name in ("cut", "whole"))


def test_a_new_reader_has_the_stream_time_of_a_cut_topic_from_the_cut_on(tmp_path: Path) -> None:
    """The other topic reaches further back: before the cut there is no L, so nothing leaves and nothing is late."""
    lake, read = Lake(f"file:{tmp_path}"), {}
    state = LogState().after(30, [LastRow(0, 4, 900), LastRow(1, 2, 700)])
    for topic in (CUT, WHOLE):
        uri, schema = lake.log(topic.name), Sequencer(RecordFormat.of(topic)).schema
        writer = lakes.TableWriter(lakes.create(uri, schema, kinds.log(SKIPPING)), lakes.APPENDER)
        if topic is CUT:
            files = write_standing(uri, schema, topic.name, state)
        else:
            states = (LogState().after(at_ms, [LastRow(0, at_ms, 500 + at_ms)]) for at_ms in (10, 20, 40))
            files = [write_commit_row(uri, schema, topic.name, CommitRow(each, {})) for each in states]
        writer.append(files, {"writer": "log"})
        read[topic.name] = read_commits(topic, uri, 0, 40)
    times = reader_times(reader_time(Progress().clock, ["cut", "whole"]), read, ["cut", "whole"])
    assert [(at_ms, time.lowest_ms) for at_ms, time in times] == [
        (10, None),
        (20, None),
        (30, 520),
        (40, 540),
    ]


def test_a_note_of_cut_commits_tells_which_of_them_told_of_the_time_alone(tmp_path: Path) -> None:
    """In a note from before there are none: then they count as commits that may have told more."""
    path = f"file:{tmp_path}"
    small_files.write_json(
        f"{path}/_cut.json", {"cuts": [{"through_ms": 3, "records_ms": [1], "others_ms": [3]}]}
    )
    note_commits(path, CutCommits(9, [4, 6], [7], [8, 9]))
    assert cut_commits_ms(path, 2) == ({4, 6}, {3, 7}, {8, 9})
    assert cut_commits_ms(path, 6) == (set(), {7}, {8, 9})

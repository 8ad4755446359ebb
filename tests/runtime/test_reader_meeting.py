"""A run serves the readers of its logs, whatever is wrong with one of its nodes. No Spark."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.errors import TerminalError
from headrace.lake import small_files
from headrace.lake.paths import Lake
from headrace.log.clock import ManualClock
from headrace.streams import reader_meeting
from headrace.streams.reader_meeting import ReaderMeeting
from headrace.writing.leases.readers import Asked, readers_of, register

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.fast

READINGS = hr.Topic("readings", key="sensor STRING", value="value INT")


def test_a_node_that_cannot_be_read_keeps_no_log_from_serving_its_readers(tmp_path: Path) -> None:
    lake, served = Lake(f"file:{tmp_path}"), list[Asked]()
    register(lake, READINGS, "theirs", Asked(longest_wait_ms=7))
    said = {"longest_wait_ms": 0, "wall_waits": [], "ordered": False}
    small_files.write_json(f"{lake.readers('counts@')}/theirs.json", said)
    looked = list[str]()

    def refuse(*, is_read_by_name: bool) -> None:
        looked.append("readers")
        raise TerminalError("its opening balance was written by another description of it")

    stream: Any = SimpleNamespace(
        name="counts", look_at_readers=refuse, look_at_generations=lambda: looked.append("generations")
    )
    log: Any = SimpleNamespace(name="readings", topic=READINGS, serve=served.append, is_shared=None)
    ReaderMeeting(lake, ManualClock(0), [], [log], [stream]).keep()
    assert looked == ["readers", "generations"]
    assert [each.longest_wait_ms for each in served] == [7]
    assert log.is_shared is False


def test_a_registration_that_was_removed_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that waits for its change to be applied is taken for one that reads the log no more."""
    monkeypatch.setattr(reader_meeting, "MEET_EVERY_SECONDS", 0.0)
    lake, node = Lake(f"file:{tmp_path}"), READINGS.table().named("newest")
    stream: Any = SimpleNamespace(name="newest", look_at_generations=lambda: None)
    meeting = ReaderMeeting(lake, ManualClock(0), [node], [], [stream])
    meeting.keep()
    small_files.delete(f"{lake.readers('readings')}/newest.json")
    meeting.keep()
    assert readers_of(lake, "readings") == []
    later = time.monotonic() + reader_meeting.REGISTER_EVERY_SECONDS
    monkeypatch.setattr(time, "monotonic", lambda: later)
    meeting.keep()
    assert readers_of(lake, "readings") == ["newest"]

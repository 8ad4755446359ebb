"""A run serves the readers of its logs, whatever is wrong with one of its nodes. No Spark."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

import headrace as hr
from headrace.description.clocks import WallWait
from headrace.errors import TerminalError
from headrace.lake import notices, small_files
from headrace.lake.paths import Lake
from headrace.log.clock import ManualClock
from headrace.nodes.descriptions.topics import upstream_first
from headrace.streams import reader_meeting
from headrace.streams.reader_meeting import ReaderMeeting
from headrace.writing.leases.readers import Asked, readers_of, register

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.description import Node

pytestmark = pytest.mark.fast

READINGS, OTHERS = (hr.Topic(name, key="sensor STRING", value="value INT") for name in ("readings", "others"))
COUNTS = READINGS.where("value > 0").named("counts")


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
    ReaderMeeting(lake, ManualClock(0), [COUNTS], [log], [stream]).keep()
    assert looked == ["readers", "generations"]
    assert [each.longest_wait_ms for each in served] == [7]
    assert log.is_shared is False


class Pipeline:
    """A run of some nodes, and of a log if it writes one."""

    def __init__(self, lake: Lake, node: Node, *topics: hr.Topic) -> None:
        self.served = list[Asked]()
        self.stream = cast("Any", SimpleNamespace(name=node.required_name))
        self.stream.look_at_readers = lambda *, is_read_by_name: None
        self.stream.look_at_generations = lambda: None
        logs: list[Any] = [
            SimpleNamespace(name=topic.name, topic=topic, serve=self.served.append, is_shared=None)
            for topic in topics
        ]
        self.meeting = ReaderMeeting(lake, ManualClock(0), upstream_first([node]), logs, [self.stream])


def test_requests_go_up_through_any_number_of_pipelines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader of the second pipeline's node needs promises and ticks of the first one's topic."""
    monkeypatch.setattr(reader_meeting, "MEET_EVERY_SECONDS", 0.0)
    monkeypatch.setattr(notices, "LOCAL_SECONDS", 0.0)
    lake, rows = Lake(f"file:{tmp_path}"), "sensor STRING, value INT"
    second = hr.node("counts", schema=rows).where("value > 1").named("second")
    merged = hr.node("second", schema=rows).merge(OTHERS.stream).group_by("sensor")
    third = merged.batch(max_wait="7 seconds", collect=["value"]).named("third")
    first, between = Pipeline(lake, COUNTS, READINGS), Pipeline(lake, second)
    for each in (first, between):
        each.meeting.keep()
    assert first.served[-1].ordered is first.stream.is_ordered is between.stream.is_ordered is False
    for each in (Pipeline(lake, third), between, first):
        each.meeting.keep()
    assert (first.served[-1].ordered, first.served[-1].wall_waits) == (True, (WallWait(7_000),))
    assert first.stream.is_ordered is between.stream.is_ordered is True


def test_a_node_that_another_run_hosts_hands_on_requests(tmp_path: Path) -> None:
    """One run hosts the log of a topic, and another one the nodes of the same pipeline."""
    lake = Lake(f"file:{tmp_path}")
    register(lake, hr.node("counts", schema="value INT"), "theirs", Asked(ordered=True))
    served = list[Asked]()
    log: Any = SimpleNamespace(name="readings", topic=READINGS, serve=served.append, is_shared=None)
    ReaderMeeting(lake, ManualClock(0), [COUNTS], [log], []).keep()
    assert [each.ordered for each in served] == [True]


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

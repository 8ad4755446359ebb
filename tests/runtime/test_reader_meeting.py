"""A run serves the readers of its logs, whatever is wrong with one of its nodes. No Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.errors import TerminalError
from headrace.lake import small_files
from headrace.lake.paths import Lake
from headrace.log.clock import ManualClock
from headrace.streams.reader_meeting import ReaderMeeting
from headrace.writing.readers import Asked, register

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

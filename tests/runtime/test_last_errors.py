"""The last error of a query: kept until the query commits again. No Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.lake.paths import Lake
from headrace.log.clock import ManualClock
from headrace.nodes.standing.last_error import last_error
from headrace.orchestration.events.progress import figures
from headrace.streams.status.last_errors import LastErrors
from tests.runtime.test_waits import NOON, status

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.fast


def test_the_last_error_stays_until_the_node_commits_again_whoever_runs_it(tmp_path: Path) -> None:
    lake = Lake(f"file:{tmp_path}")
    run = LastErrors(lake, ManualClock(NOON))
    (kept,) = run.follow([status("restarting", "broken", 4)])
    assert kept.last_error == "broken"
    run.follow([status("stopped", None, 4)])
    found = last_error(lake, "stream/counts_stream", 4)
    assert found is not None
    assert (found.error, found.at_ms, found.batches) == ("broken", NOON, 4)
    later = LastErrors(lake, ManualClock(NOON + 1))
    (starting,) = later.follow([status("running", None, 4)])
    assert figures(starting, 0.0)["error"] == "broken"
    assert later.follow([status("running", None, 5)])[0].last_error is None
    assert last_error(lake, "stream/counts_stream", 4) is None


def test_a_node_that_was_rebuilt_and_commits_again_has_no_error(tmp_path: Path) -> None:
    """Before, its commits were counted from 1 again, and the old error was shown until they were more than before."""
    lake = Lake(f"file:{tmp_path}")
    LastErrors(lake, ManualClock(NOON)).follow([status("failed", "another description", 10_000)])
    run = LastErrors(lake, ManualClock(NOON))
    (opening,) = run.follow([status("running", None, 0)])  # also of a run that has not read its progress yet
    assert opening.last_error == "another description"
    assert last_error(lake, "stream/counts_stream", 0) is not None
    assert last_error(lake, "stream/counts_stream", 1) is None
    assert run.follow([status("running", None, 1)])[0].last_error is None
    assert last_error(lake, "stream/counts_stream", 10_000) is None


def test_an_error_that_comes_again_after_a_commit_is_kept_again(tmp_path: Path) -> None:
    lake = Lake(f"file:{tmp_path}")
    run = LastErrors(lake, ManualClock(NOON))
    run.follow([status("restarting", "broken", 4)])
    assert run.follow([status("restarting", "broken", 5)])[0].last_error == "broken"
    found = last_error(lake, "stream/counts_stream", 5)
    assert found is not None
    assert found.batches == 5  # before: 4, so that a reader that counts commits took it for mended

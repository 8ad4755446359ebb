"""What the demo's terminal says while it runs; a stand-in for each state that a stream's run can be in."""

from __future__ import annotations

import dagster as dg
import pytest

from headrace.local.demo import _progress
from headrace.orchestration.keys import SHUTDOWN_TAG, STREAM_TAG

pytestmark = [pytest.mark.fast, pytest.mark.dagster]


def told(status: dg.DagsterRunStatus | None, **tags: str) -> list[str]:
    """What is said when the newest run of the stream is in this state; None: there was none."""
    with dg.DagsterInstance.ephemeral() as instance:
        if status is not None:
            run = dg.DagsterRun("streams", status=status, tags={STREAM_TAG: "streams", **tags})
            instance.add_run(run)
        return list(_progress(instance))


def test_a_stream_that_a_person_stopped_is_not_said_to_start_by_itself() -> None:
    (line,) = told(dg.DagsterRunStatus.CANCELED)
    assert line == "the stream was stopped: switch the sensor keep_streams_running off and on, and it goes on"


@pytest.mark.parametrize("status", [None, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.SUCCESS])
def test_one_that_the_sensor_starts_is_announced(status: dg.DagsterRunStatus | None) -> None:
    (line,) = told(status)
    assert line.startswith("no run yet: the sensor starts the stream")


def test_one_that_went_down_with_the_demo_is_announced_too() -> None:
    (line,) = told(dg.DagsterRunStatus.CANCELED, **{SHUTDOWN_TAG: "demo"})
    assert line.startswith("no run yet")


def test_what_has_not_spoken_yet_is_named_on_one_line() -> None:
    (line,) = told(dg.DagsterRunStatus.STARTED)
    assert line.startswith("starting: log/")
    assert line.count("stream/") == 4

"""The plan of a process that was paused, written over that of one which has gone on: a plan has no fence.

A node without sinks keeps none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace.lake import small_files
from headrace.lake.paths import Lake
from headrace.lifecycle.rebuilds.meeting_point import standing
from headrace.writing.node_runner import NodeRunner
from tests.broker.pipeline import counts_of
from tests.no_spark import no_session
from tests.rows import file_rows
from tests.runtime.line import Line

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from headrace.description.sink import Delivery

pytestmark = pytest.mark.fast


class Sink:
    """Takes what it is given."""

    name = "sink"

    def deliver(self, rows: Any, delivery: Delivery) -> None:
        raise AssertionError("few rows start no Spark")

    def deliver_table(self, rows: pa.Table, delivery: Delivery) -> None:
        """Look at no row."""


COUNTS = counts_of("readings")


@pytest.fixture
def line(tmp_path: Path) -> Line:
    return Line(no_session(), Lake(f"file:{tmp_path}"), COUNTS.to(Sink()))


def dies(line: Line) -> None:
    """Another process takes the node, and dies between the results and the state of its micro-batch."""

    def die(step: str) -> None:
        if step == "after outputs":
            raise InterruptedError

    with pytest.raises(InterruptedError):
        NodeRunner(line.spark, line.node, line.lake, on_step=die).advance()


def windows(line: Line) -> list[str]:
    """When the windows of the results begin."""
    return sorted(f"{row['window_start']:%Y-%m-%d %H:%M:%S}" for row in file_rows(line.table))


def test_results_that_are_there_are_not_given_again_after_an_overtaken_writer_has_planned(line: Line) -> None:
    line.pipe("2024-05-01 12:00:00")
    line.commit()
    line.runner._plan()  # of the process that will be paused
    paused = small_files.read_json(line.lake.plan("reading_counts"))
    line.pipe("2024-05-01 13:00:00")
    line.commit()
    small_files.delete(
        line.lake.plan("reading_counts")
    )  # as if it had been paused just before it wrote its plan
    dies(line)
    assert windows(line) == ["2024-05-01 12:00:00"]
    small_files.write_json(line.lake.plan("reading_counts"), paused)
    line.runner = NodeRunner(line.spark, line.node, line.lake)
    line.fold()
    assert windows(line) == ["2024-05-01 12:00:00"]
    line.pipe("2024-05-01 14:00:00")
    line.commit()
    line.fold()
    assert windows(line) == ["2024-05-01 12:00:00", "2024-05-01 13:00:00"]


@pytest.mark.parametrize("left", ["an older plan", "no plan"])
def test_results_that_are_there_tell_how_far_they_go(line: Line, left: str) -> None:
    line.pipe("2024-05-01 12:00:00")
    line.commit()
    line.fold()
    older = small_files.read_json(line.lake.plan("reading_counts"))
    line.pipe("2024-05-01 13:00:00")
    line.commit()
    dies(line)
    planned = small_files.read_json(line.lake.plan("reading_counts"))
    assert planned is not None
    if left == "an older plan":
        small_files.write_json(line.lake.plan("reading_counts"), older)
    else:
        small_files.delete(line.lake.plan("reading_counts"))
    assert standing(line.lake, line.node) == planned["upto_ms"], "sinks have these rows"
    line.pipe("2024-05-01 14:00:00")
    line.commit()
    line.runner = NodeRunner(line.spark, line.node, line.lake)
    assert line.runner.finish()
    assert line.runner.progress.upto_ms == planned["upto_ms"]
    line.fold()
    assert windows(line) == ["2024-05-01 12:00:00", "2024-05-01 13:00:00"]


def test_a_node_without_sinks_keeps_no_plan_and_repeats_what_its_results_say(tmp_path: Path) -> None:
    line = Line(no_session(), Lake(f"file:{tmp_path}"), COUNTS)
    for hour in (12, 13):
        line.pipe(f"2024-05-01 {hour}:00:00")
        line.commit()
    dies(line)
    assert not small_files.exists(line.lake.plan("reading_counts"))
    line.pipe("2024-05-01 14:00:00")
    line.commit()
    line.runner = NodeRunner(line.spark, line.node, line.lake)
    assert line.runner.finish()
    line.fold()
    assert windows(line) == ["2024-05-01 12:00:00", "2024-05-01 13:00:00"]

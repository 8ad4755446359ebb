"""Expiry frees the state of closed windows, and nobody can tell from the results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.observe.local_views import LocalViews
from headrace.writing.node_runner import NodeRunner
from tests.no_spark import no_session
from tests.rows import file_rows, in_order, require_backfilled, windows_shown
from tests.runtime.line import Line

if TYPE_CHECKING:
    from headrace.lake.paths import Lake

pytestmark = pytest.mark.fast

topic = hr.Topic(
    "readings", key="sensor_id STRING", value="sensor_id STRING, value DOUBLE", idle_timeout=None
)
node = (
    topic.group_by("sensor_id")
    .window(hr.tumbling("2 minutes"), grace="0 seconds")
    .aggregate(n=hr.count())
    .suppress(hr.until_window_closes())
    .named("counts")
)


def test_expiry_leaves_only_open_windows_in_the_state_and_changes_no_result(lake: Lake) -> None:
    line = Line(no_session(), lake, node)
    for minute in ("00", "01", "02"):
        line.pipe(f"2024-05-01 12:{minute}:00")
        line.commit()
        line.fold()
    before = windows_shown(line.spark, lake, node)

    line.runner.maintain()

    assert len(file_rows(lake.state("counts"))) == 1
    assert windows_shown(line.spark, lake, node) == before
    assert NodeRunner(line.spark, node, lake).progress == line.runner.progress


def test_a_stream_goes_on_after_expiry_and_equals_its_backfill(lake: Lake) -> None:
    line = Line(no_session(), lake, node)
    for minute in ("00", "02", "03", "06"):
        line.pipe(f"2024-05-01 12:{minute}:00")
        line.commit()
        line.fold()
        line.runner.maintain()
    require_backfilled(line.spark, lake, node)
    rows = in_order(LocalViews(line.spark, lake).read(node), "window_start", "n")
    assert [n for _, n in rows] == [1, 2]

"""A lookup that waits until its table is complete says so, and for which topics. No Spark, and no rows."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

import headrace as hr
from headrace.cli.status import table_of
from headrace.description import with_unnamed
from headrace.lake.paths import Lake
from headrace.log.clock import SystemClock
from headrace.nodes.progress import Progress
from headrace.nodes.standing.lake_facts import LakeFacts
from headrace.nodes.standing.waits import waits_of
from headrace.observe.standing import standings
from headrace.orchestration.events.progress import figures
from headrace.streams.status.statuses import node_status
from headrace.streams.status.stream_status import StreamStatus
from headrace.writing.state_figures import StateFigures
from tests.changing.held import hold

pytestmark = pytest.mark.fast

VISITS = hr.Topic("visits", key="id STRING", value="pages INT")
PAGES = hr.Topic("pages", key="pages INT", value="title STRING")
TITLED = VISITS.lookup(PAGES.table(), on="pages", complete_first=True)
STEP, COUNTS = with_unnamed([TITLED.group_by("title").aggregate(n=hr.count()).named("counts")])


@pytest.mark.parametrize(("complete", "waits_for"), [((), ("pages",)), (("pages",), ())])
def test_a_node_waits_for_the_topics_that_a_step_of_its_chain_waits_for(
    tmp_path: Path, complete: tuple[str, ...], waits_for: tuple[str, ...]
) -> None:
    lake, progress = Lake(f"file:{tmp_path}"), Progress(batch=1, complete=complete)
    hold(lake, STEP, COUNTS, progress=progress)
    *_, node = standings(lake, [STEP, COUNTS], SystemClock())
    assert (node.asset, node.incomplete) == ("stream/counts_stream", waits_for)
    shown = io.StringIO()
    Console(file=shown, width=200).print(table_of([node]))
    assert ("stopped, waits for pages" in shown.getvalue()) == bool(waits_for)

    step, counts = (status(each, progress, lake) for each in (STEP, COUNTS))
    assert (step.incomplete, counts.incomplete) == (waits_for, waits_for)
    told = counts.with_step(step)
    assert told.incomplete == waits_for
    assert ("until topic pages is read" in figures(told, 0.0).get("waits_for", "")) == bool(waits_for)


def status(node: Any, progress: Progress, lake: Lake) -> StreamStatus:
    """How a stream fares that is not open, and was as far."""
    runner = SimpleNamespace(
        progress=progress, reads=StateFigures(), node=node,
        quotas=SimpleNamespace(numbers=dict),
    )  # fmt: skip
    stream: Any = SimpleNamespace(
        kind="stream", name=node.name, node=node, runner=runner, state="stopped", error=None, remark=None,
        failures=0, records=0, batch_seconds=None, trigger_ms=0, finished=False, rows_per_second=lambda: 0.0,
        buffer=SimpleNamespace(numbers=dict), waits=lambda: waits_of(node, LakeFacts(lake)),
    )  # fmt: skip
    return node_status(stream, None)

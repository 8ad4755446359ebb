"""`headrace status` shows how large a node's state is, and how much of what it reads is near. No Spark, and no rows."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

import headrace as hr
from headrace import lake as lakes
from headrace.cli.status import shown_of
from headrace.engine.state_reads import ReadCost
from headrace.lake import NewFile
from headrace.lake.paths import Lake
from headrace.log.clock import SystemClock
from headrace.nodes.progress import Progress
from headrace.nodes.standing.state_commits import state_record
from headrace.observe.standing import standings
from headrace.writing.state_figures import MEANINGS, StateFigures
from tests.changing.held import hold

pytestmark = pytest.mark.fast

VISITS = hr.Topic("visits", key="id STRING", value="pages INT")
COUNTS = VISITS.group_by("id").aggregate(n=hr.count()).named("counts")


def test_status_shows_the_size_of_the_state_and_how_much_of_it_was_near(tmp_path: Path) -> None:
    lake, figures = Lake(f"file:{tmp_path}"), StateFigures()
    hold(lake, COUNTS)
    assert "near" not in shown(lake)
    for cost in (ReadCost(4_000, 90, 40), ReadCost(0, 110, 110)):
        figures.see(cost)
    assert figures.last_bytes == 0
    state = lakes.open_table(lake.state("counts"))
    record = state_record(COUNTS, Progress(batch=2), reads=figures.numbers())
    file = NewFile("part-0.parquet", 2_500_000, '{"numRecords": 5}')
    lakes.TableWriter(state, lakes.APPENDER).append([file], record)
    *_, node = standings(lake, [COUNTS], SystemClock())
    assert node.state_bytes == 2_500_000
    assert node.to_json()["reads"] == figures.numbers()
    assert [*figures.numbers()] == [*MEANINGS]
    text = shown(lake)
    assert "2.5 MB" in text
    assert "75% of the rows that it has read of its state since it was opened were near" in text


def shown(lake: Lake) -> str:
    text = io.StringIO()
    Console(file=text, width=250).print(shown_of(standings(lake, [COUNTS], SystemClock())))
    return text.getvalue()

"""A process that was paused in a micro-batch leaves the plan of one that has gone on since. No Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.lake import APPENDER, TableWriter, open_table, small_files
from headrace.lake.paths import Lake
from headrace.nodes.progress import Progress
from headrace.nodes.standing.planned import planned_after
from headrace.nodes.standing.state_commits import last_state_commit
from headrace.writing.node_runner import NodeRunner
from tests.changing.held import hold

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.fast

MINE: dict[str, Any] = {"batch": 2, "upto_ms": {"readings": 9}, "token": "mine"}
THEIRS: dict[str, Any] = {"batch": 3, "upto_ms": {"readings": 12}, "token": "theirs"}
SHORTENED = {**MINE, "upto_ms": {"readings": 5}}
FOLDED = Progress(batch=2, upto_ms={"readings": 5})
READINGS = hr.Topic("readings", key="sensor_id STRING", value="value DOUBLE")
TOTALS = READINGS.group_by("sensor_id").aggregate(n=hr.count()).named("totals")


def runner(lake: Lake) -> Any:
    """A runner in the middle of a micro-batch; only with sinks it keeps a plan."""
    made = NodeRunner.__new__(NodeRunner)
    made._lake, made.name, made.node = lake, "totals", TOTALS.to(hr.KafkaSink("totals"))
    return made


@pytest.mark.parametrize(("there", "then"), [(MINE, SHORTENED), (None, SHORTENED), (THEIRS, THEIRS)])
def test_a_plan_is_shortened_by_who_has_made_it(tmp_path: Path, there: Any, then: Any) -> None:
    lake = Lake(f"file:{tmp_path}")
    if there is not None:
        small_files.write_json(lake.plan("totals"), there)
    assert runner(lake)._shortened(MINE, FOLDED) == SHORTENED
    assert small_files.read_json(lake.plan("totals")) == then


@pytest.mark.parametrize(("there", "then"), [(MINE, None), (THEIRS, THEIRS)])
def test_a_plan_is_forgotten_by_who_has_made_it(tmp_path: Path, there: Any, then: Any) -> None:
    lake = Lake(f"file:{tmp_path}")
    small_files.write_json(lake.plan("totals"), there)
    runner(lake)._forget(MINE)
    assert small_files.read_json(lake.plan("totals")) == then


def holding(tmp_path: Path) -> tuple[Lake, TableWriter, Any]:
    """A node that stands after its second micro-batch; the writer of its results, and the last commit of its state."""
    lake = Lake(f"file:{tmp_path}")
    hold(lake, TOTALS, progress=FOLDED)
    writer = TableWriter(open_table(lake.table("totals")), APPENDER)
    return lake, writer, last_state_commit(lake, "totals")


AFTER = {"after_ms": {"readings": 5}, "upto_ms": {"readings": 12}}
EARLIER = {"after_ms": {"readings": 2}, "upto_ms": {"readings": 4}}


@pytest.mark.parametrize(
    "there", [None, {**THEIRS, **EARLIER}, {**THEIRS, **AFTER, "upto_ms": {"readings": 9}}]
)
def test_results_that_are_there_count_before_any_plan(tmp_path: Path, there: Any) -> None:
    lake, writer, commit = holding(tmp_path)
    writer.append([], {"writer": "node/totals", "batch": 3, **AFTER})
    if there is not None:
        small_files.write_json(lake.plan("totals"), there)
    assert planned_after(lake, "totals", commit) == {"batch": 3, "upto_ms": {"readings": 12}}


@pytest.mark.parametrize("given", [{"batch": 2, **EARLIER}, {"batch": 3, **EARLIER}])
@pytest.mark.parametrize(("began", "counts"), [(AFTER, True), (EARLIER, False)])
def test_a_plan_counts_if_it_begins_where_the_state_stands(
    tmp_path: Path, given: dict[str, Any], began: dict[str, Any], counts: bool
) -> None:
    """Results may be those of another generation."""
    lake, writer, commit = holding(tmp_path)
    writer.append([], {"writer": "node/totals", **given})
    plan = {**THEIRS, **began}
    small_files.write_json(lake.plan("totals"), plan)
    assert planned_after(lake, "totals", commit) == (plan if counts else None)

"""A process that was paused in a micro-batch leaves the plan of one that has gone on since. No Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace.lake import small_files
from headrace.lake.paths import Lake
from headrace.nodes.progress import Progress
from headrace.writing.node_runner import NodeRunner

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.fast

MINE: dict[str, Any] = {"batch": 2, "upto_ms": {"readings": 9}, "token": "mine"}
THEIRS: dict[str, Any] = {"batch": 3, "upto_ms": {"readings": 12}, "token": "theirs"}
SHORTENED = {**MINE, "upto_ms": {"readings": 5}}
FOLDED = Progress(batch=2, upto_ms={"readings": 5})


def runner(lake: Lake) -> Any:
    """A runner in the middle of a micro-batch."""
    made = NodeRunner.__new__(NodeRunner)
    made._lake, made.name = lake, "totals"
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

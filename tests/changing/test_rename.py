"""A node goes on under another name from all that its tables are made of. No Spark, and no rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace import lake as lakes
from headrace.changing.rename_node import rename_node
from headrace.lake import small_files
from headrace.lake.paths import Lake
from headrace.nodes.progress import Progress
from tests.changing.held import hold

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.fast

READINGS = hr.Topic("readings", key="sensor_id STRING", value="value DOUBLE")
TOTALS: Any = READINGS.group_by("sensor_id").aggregate(n=hr.count()).named("totals")


def test_a_micro_batch_that_a_crash_had_interrupted_is_repeated_under_the_new_name(tmp_path: Path) -> None:
    """Its results may be there: planned anew it would read further, and write them a second time."""
    lake, plan = Lake(f"file:{tmp_path}"), {"batch": 8, "upto_ms": {"readings": 5}}
    hold(lake, TOTALS, progress=Progress(batch=7))
    small_files.write_json(lake.plan("totals"), plan)
    rename_node(lake, "totals", "sums")
    commit = lakes.last_commit(lakes.open_table(lake.state("sums")), "node/sums")
    assert commit is not None
    assert commit.record["progress"]["batch"] == 7
    assert small_files.read_json(lake.plan("sums")) == plan

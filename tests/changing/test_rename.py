"""A node goes on under another name from all that its tables are made of. No Spark, and no rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace import lake as lakes
from headrace.changing.rename_node import rename_node
from headrace.description import OtherNodeError
from headrace.lake import small_files
from headrace.lake.paths import Lake
from headrace.nodes.node_tables import note_description
from headrace.nodes.progress import Progress
from headrace.nodes.references import Generations, found_in
from tests.changing.held import NO_SPARK, hold, hold_log
from tests.scenarios.chained import COUNTS

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


def test_readers_of_the_former_name_are_told_the_new_one(tmp_path: Path) -> None:
    """Nothing comes under the former name any more: who reads on would wait for ever, and not know why."""
    lake = Lake(f"file:{tmp_path}")
    schema = "sensor STRING, window_start TIMESTAMP, window_end TIMESTAMP, n BIGINT"
    old, new = (hr.node(name, schema=schema).where("n < 4").named("alerts") for name in ("counts", "tallies"))
    hold(lake, COUNTS)
    rename_node(lake, "counts", "tallies")
    with pytest.raises(OtherNodeError, match=r"goes on as 'tallies', .*\n?.*hr\.node\('tallies', …\)"):
        Generations(lake).of(old)
    for reader in (old, new):
        hold_log(lake, found_in(lake, reader).topics[0], 10)
    generations = Generations(lake)
    remark = generations.outdated(generations.of(old))
    assert "Node 'counts' goes on as 'tallies'" in str(remark)
    assert "hr.node('tallies', …)" in str(remark)
    assert generations.outdated(generations.of(new)) is None
    note_description(NO_SPARK, lake, COUNTS)  # a stream writes under the former name again
    assert generations.outdated(generations.of(old)) is None

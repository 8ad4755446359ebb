"""A renamed node keeps more than its tables. No Spark, and no rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.changing.rename_node import rename_node
from headrace.lake import small_files
from headrace.lake.paths import Lake
from headrace.lifecycle.pending_erasures import note_pending, pending
from headrace.nodes.node_tables import write_description
from headrace.nodes.standing.state_commits import last_state_commit
from tests.changing.held import hold

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.fast

READINGS = hr.Topic("readings", key="sensor_id STRING", value="value DOUBLE")
TOTALS: Any = READINGS.group_by("sensor_id").aggregate(n=hr.count()).named("totals")


def test_what_a_sink_notes_beside_its_refused_rows_does_not_go_along(tmp_path: Path) -> None:
    """`hr.each` notes how many rows of a delivery it has sent; it was taken for a table, and no such node could be renamed."""
    lake = Lake(f"file:{tmp_path}")
    hold(lake, TOTALS)
    small_files.write_json(f"{lake.refused('totals', 'each-mail')}.sent.json", {"rows": 1, "digest": ""})
    rename_node(lake, "totals", "sums", ())
    assert last_state_commit(lake, "sums") is not None
    assert not small_files.names(f"{lake.root}/refused/sums")


def test_an_erasure_that_waits_for_the_node_waits_for_it_under_its_new_name(tmp_path: Path) -> None:
    """Nobody waited: another log was cut, and then the key could not be computed out of the balance."""
    lake = Lake(f"file:{tmp_path}")
    hold(lake, TOTALS)
    write_description(lake, TOTALS)
    note_pending(lake, "readings", ["totals"])
    rename_node(lake, "totals", "sums", ())
    assert {(each.node, each.topic) for each in pending(lake)} > {("sums", "readings")}

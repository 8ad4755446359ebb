"""Which nodes have tables beside theirs that were made of a log, and what goes with these. No Spark, and no rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.lake import small_files
from headrace.lake.paths import Lake
from headrace.lifecycle.rebuilds.former import keep_former
from headrace.lifecycle.rebuilds.kept_tables import drop_kept, nodes_with_kept
from headrace.lifecycle.rebuilds.pasts import NotedPasts
from headrace.nodes.balances.rebuild_from_balance import rebuild_place
from headrace.nodes.progress import Progress
from tests.changing.held import hold

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.fast

READINGS = hr.Topic("readings", key="sensor_id STRING", value="value DOUBLE")
PLACES = hr.Topic("places", key="sensor_id STRING", value="value DOUBLE")
HALF_BUILT = "built.parquet"


def totals(of: Any) -> Any:
    return of.group_by("sensor_id").aggregate(n=hr.count()).named("totals")


BEFORE, AFTER = totals(READINGS), totals(PLACES)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(f"file:{tmp_path}")


def replaced(lake: Lake) -> None:
    """`totals` read one topic, and reads another one now."""
    hold(lake, BEFORE, progress=Progress(batch=1, upto_ms={"readings": 1}))
    keep_former(lake, "totals", AFTER.fingerprint(), 10)
    hold(lake, AFTER, progress=Progress(batch=2, upto_ms={"places": 1}))


def half_built(lake: Lake, node: Any) -> str:
    """A change is being built; a file of it."""
    beside = rebuild_place(lake, node)
    NotedPasts(lake, beside, node).note()
    small_files.write_json(f"{beside.nodes}/{HALF_BUILT}", {})
    return f"{beside.nodes}/{HALF_BUILT}"


def test_former_tables_are_found_by_the_log_that_they_have_read(lake: Lake) -> None:
    replaced(lake)
    assert nodes_with_kept(lake, ["readings"]) == ["totals"]
    assert nodes_with_kept(lake, ["places"]) == []


def test_half_built_tables_are_found_by_the_log_that_they_read(lake: Lake) -> None:
    hold(lake, BEFORE)
    built = half_built(lake, AFTER)
    assert nodes_with_kept(lake, ["places"]) == ["totals"]
    assert nodes_with_kept(lake, ["readings"]) == []
    small_files.delete(f"{rebuild_place(lake, AFTER).nodes}/pasts.json")
    assert nodes_with_kept(lake, ["readings"]) == ["totals"], "nobody knows what they have read"
    drop_kept(lake, "totals")
    assert not small_files.exists(built)


def test_what_has_read_a_node_that_has_followed_from_the_log_is_found_through_it(lake: Lake) -> None:
    """By its name, from another pipeline: its own tables tell only that they read this node."""
    replaced(lake)
    small_files.write_json(f"{lake.rebuilds('above')}/built/pasts.json", {"totals@before": ""})
    assert nodes_with_kept(lake, ["readings"]) == ["totals", "above"]
    assert nodes_with_kept(lake, ["places"]) == []


def test_what_a_node_gave_by_a_description_goes_unless_it_is_read(lake: Lake) -> None:
    replaced(lake)
    former, current = (lake.log(f"totals@{node.fingerprint()[:12]}") for node in (BEFORE, AFTER))
    for log in (former, current):
        small_files.write_json(f"{log}/a.json", {})
    drop_kept(lake, "totals")
    assert not small_files.names(lake.former("totals"))
    assert (small_files.exists(former), small_files.exists(current)) == (False, True)

"""The plan of nodes whose logs were cut: what goes on, what is rebuilt from the rest, and what is refused with a way out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.changing.plan import UNCHANGED
from headrace.changing.plan_changes import plan_changes
from headrace.lake import small_files
from headrace.lake.paths import Lake
from headrace.nodes.cuts import note_cut
from headrace.nodes.evolution import REBUILT, REFUSED
from headrace.nodes.progress import Progress
from tests.changing.held import hold
from tests.changing.test_plan import READINGS, outcomes, pipeline

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.description import Node

pytestmark = pytest.mark.fast


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(f"file:{tmp_path}")


def cut(lake: Lake, node: str) -> None:
    """Let a node have the balance that a cut of the log of readings leaves."""
    progress = Progress(batch=1, upto_ms={"readings": 5}).to_json()
    small_files.write_json(lake.opening(node), {"fingerprint": "", "folder": "", "progress": progress})


def test_a_log_that_was_cut_refuses_and_what_follows_is_refused_too(lake: Lake) -> None:
    hold(lake, *pipeline())
    cut(lake, "finals")
    plan = plan_changes(lake, pipeline("5 minutes"))
    assert outcomes(plan) == {"finals": REFUSED, "quiet": REFUSED, "totals": UNCHANGED}
    finals, quiet, _ = plan.nodes
    assert finals.reason == "rows of the log of 'readings' were cut off (headrace retain)"
    assert finals.way_out == (
        "Restore the description; or give the changed node a new name: it is then built from the rest of the log."
    )
    note_cut(lake, READINGS, 5, 1_700_000_000_000)  # 2023-11-14
    assert (
        "; or rebuild its windows from a day on that the log still holds: since='2023-11-15', or a later day; or"
        in plan_changes(lake, pipeline("5 minutes")).nodes[0].way_out
    )
    assert (quiet.reason, quiet.way_out) == ("it reads 'finals', which is refused", "Settle 'finals' first.")
    assert plan.refused == ("finals", "quiet")


def test_of_a_log_that_was_cut_the_columns_that_cannot_be_computed_are_said(lake: Lake) -> None:
    def totals(**aggregates: Any) -> Any:
        return READINGS.group_by("sensor_id").aggregate(**aggregates).named("totals")

    hold(lake, totals(n=hr.count(), low=hr.min("value")))
    cut(lake, "totals")
    note_cut(lake, READINGS, 5, 1_700_000_000_000)
    wider = totals(n=hr.count(), low=hr.max("value"), top=hr.max("value"))
    (found,) = plan_changes(lake, [wider]).nodes
    assert found.reason == (
        "rows of the log of 'readings' were cut off (headrace retain), and its opening balance does not tell low, top"
    )
    assert "since=" not in found.way_out, "totals are of no day"
    (found,) = plan_changes(lake, [totals(n=hr.count())]).nodes
    assert found.way_out == (
        "Restore the description; or leave in the aggregates that nobody needs any more, if that is all that changes; or "
        "give the changed node a new name: it is then built from the rest of the log."
    )


def test_a_step_without_a_name_that_is_new_needs_the_whole_log_too(lake: Lake) -> None:
    def quiet(grace: str) -> Node:
        windows = READINGS.group_by("sensor_id").window(hr.tumbling("2 minutes"), grace=grace)
        return (
            windows.aggregate(n=hr.count()).suppress(hr.until_window_closes()).where("n < 4").named("quiet")
        )

    hold(lake, quiet("1 minute"), pipeline()[2])
    (found, _) = plan_changes(lake, [quiet("2 minutes"), pipeline()[2]]).nodes
    assert (found.outcome, [(read.name, read.rows) for read in found.reads]) == (
        REBUILT,
        [("readings", 1_000)],
    )
    cut(lake, "totals")
    (found, _) = plan_changes(lake, [quiet("2 minutes"), pipeline()[2]]).nodes
    assert (found.outcome, found.reason) == (
        REFUSED,
        "rows of the log of 'readings' were cut off (headrace retain)",
    )


def test_a_node_that_began_after_a_cut_is_rebuilt_from_the_rest_of_the_log(lake: Lake) -> None:
    _, _, totals = pipeline()
    hold(lake, totals, progress=Progress(batch=1, upto_ms={"readings": 9}))
    cut(lake, "another")
    changed = READINGS.group_by("value").aggregate(n=hr.count()).named("totals")
    assert outcomes(plan_changes(lake, [changed])) == {"totals": REBUILT}
    other = replace(READINGS, name="others").group_by("value").aggregate(n=hr.count()).named("totals")
    assert outcomes(plan_changes(lake, [other])) == {"totals": REBUILT}
    hold(lake, other, progress=Progress(batch=2, upto_ms={"others": 9}))
    assert outcomes(plan_changes(lake, [changed])) == {"totals": REFUSED}  # it has not read what was cut


def test_of_a_log_that_was_cut_windows_are_rebuilt_from_a_day_on_that_it_holds(lake: Lake) -> None:
    day_ms = 1_700_006_400_000

    def counts(since: str | None = None, **more: Any) -> Any:
        hourly = READINGS.group_by("sensor_id").window(hr.tumbling("1 hour"), grace="0 s")
        return hourly.aggregate(n=hr.count(), **more).named("counts", since=since)

    hold(lake, counts(), progress=Progress(batch=1, closed_ms=day_ms - 1))
    changed = counts("2023-11-15", total=hr.sum("value"))
    assert "windows from before 2023-11-15 are open" in str(plan_changes(lake, [changed]))
    hold(lake, counts(), progress=Progress(batch=2, closed_ms=day_ms))
    assert outcomes(plan_changes(lake, [changed])) == {"counts": REBUILT}
    cut(lake, "counts")
    assert outcomes(plan_changes(lake, [changed])) == {"counts": REFUSED}  # nobody knows what was cut
    note_cut(lake, READINGS, 5, day_ms)
    assert outcomes(plan_changes(lake, [changed])) == {"counts": REFUSED}
    small_files.delete(lake.cut("readings"))
    for highest_ms in (day_ms - 1, 5, None):
        note_cut(lake, READINGS, 5, highest_ms)
    plan = plan_changes(lake, [changed])
    assert outcomes(plan) == {"counts": REBUILT}
    assert "since: none -> 2023-11-15" in str(plan)
    assert outcomes(plan_changes(lake, [counts(total=hr.sum("value"))])) == {"counts": REFUSED}
    hold(lake, changed, progress=Progress(batch=3, closed_ms=3 * day_ms))
    small_files.delete(lake.opening("counts"))
    small_files.write_json(lake.opening("other"), {"progress": {"upto_ms": {"readings": 5}}})
    assert outcomes(plan_changes(lake, [changed])) == {"counts": UNCHANGED}
    assert outcomes(plan_changes(lake, [counts("2023-11-16")])) == {"counts": REBUILT}
    assert outcomes(plan_changes(lake, [counts("2023-11-14")])) == {"counts": REFUSED}
    assert outcomes(plan_changes(lake, [counts()])) == {"counts": REFUSED}

"""The plan of nodes whose logs were cut: what goes on, what is rebuilt from the rest, and what is refused with a way out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.changing.plan import UNCHANGED
from headrace.changing.plan_changes import plan_changes, stored_node
from headrace.errors import TerminalError
from headrace.lake import small_files
from headrace.lake.paths import Lake
from headrace.nodes.balances.cuts import note_cut
from headrace.nodes.balances.opening import BEFORE, balance_by, read_opening
from headrace.nodes.balances.rebuild_from_balance import rebuild_place
from headrace.nodes.descriptions.evolution import REBUILT, REFUSED
from headrace.nodes.node_tables import write_description
from headrace.nodes.progress import Progress
from tests.changing.held import hold
from tests.changing.test_plan import READINGS, outcomes, pipeline

if TYPE_CHECKING:
    from pathlib import Path

    from syrupy.assertion import SnapshotAssertion

    from headrace.description import Node

pytestmark = pytest.mark.fast


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(f"file:{tmp_path}")


def cut(lake: Lake, node: str, **fates: int) -> None:
    """Let a node have the balance that a cut of the log of readings leaves, with so many records of some fates."""
    held = stored_node(lake, node)
    progress = Progress(batch=1, upto_ms={"readings": 5}, records={"readings": {"0": fates}}).to_json()
    fingerprint = "" if held is None else held.written_by
    small_files.write_json(
        lake.opening(node), {"fingerprint": fingerprint, "folder": "", "progress": progress}
    )
    note_cut(lake, READINGS, 5, None)


def test_a_log_that_was_cut_refuses_and_what_follows_is_refused_too(lake: Lake) -> None:
    hold(lake, *pipeline())
    cut(lake, "finals")
    plan = plan_changes(lake, pipeline("5 minutes"))
    assert outcomes(plan) == {"finals": REFUSED, "quiet": REFUSED, "totals": UNCHANGED}
    finals, quiet, _ = plan.nodes
    assert finals.reason == (
        "rows of the log of 'readings' were cut off (headrace retain), and with another grace other records of them "
        "would be late"
    )
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
    assert "leave in" not in found.way_out, "to leave them in would not help"


def test_of_a_node_that_can_be_read_as_a_stream_no_windows_can_be_rebuilt(lake: Lake) -> None:
    """Such nodes have a method `window`; the plan took it for the node's window, and ended with an AttributeError."""
    hold(lake, READINGS.distinct("value", within="1 hour").named("once"))
    cut(lake, "once")
    note_cut(lake, READINGS, 5, 1_700_000_000_000)
    (plan,) = plan_changes(lake, [READINGS.distinct("value", within="2 hours").named("once")]).nodes
    assert plan.outcome == REFUSED
    assert "since=" not in plan.way_out


def totals(stream: Any = READINGS, **aggregates: Any) -> Any:
    return stream.group_by("sensor_id").aggregate(**aggregates).named("totals")


ALL: dict[str, Any] = {"n": hr.count(), "low": hr.min("value"), "total": hr.sum("value")}


def test_some_aggregates_of_a_balance_under_other_names_and_in_another_order_follow_from_it(
    lake: Lake, snapshot: SnapshotAssertion
) -> None:
    hourly = READINGS.group_by("sensor_id").window(hr.tumbling("1 hour"), grace="1 minute")
    before = [totals(**ALL), hourly.aggregate(**ALL).suppress(hr.until_window_closes()).named("counts")]
    hold(lake, *before)
    for name in ("totals", "counts"):
        cut(lake, name, kept=3, late=1)
    assert outcomes(plan_changes(lake, before)) == {"totals": UNCHANGED, "counts": UNCHANGED}
    fewer = {"least": hr.min("value"), "n": hr.count(), "again": hr.count()}
    plan = plan_changes(lake, [totals(**fewer), hourly.aggregate(**fewer).named("counts")])
    assert str(plan) == snapshot
    assert [each.from_balance for each in plan.nodes] == [True, True]
    shut = hr.until_window_closes(max_records=9, when_full="shut_down")  # by the bytes of rows
    for changed in (
        hourly.aggregate(**fewer).suppress(shut),
        READINGS.where("value > 0").group_by("sensor_id").aggregate(n=hr.count()),
        READINGS.group_by("sensor_id")
        .window(hr.tumbling("1 hour"), grace="2 minutes")
        .aggregate(n=hr.count()),
        hourly.aggregate(n=hr.count("value")),
    ):
        assert outcomes(plan_changes(lake, [before[0], changed.named("counts")]))["counts"] == REFUSED


def test_a_record_that_a_removed_aggregate_may_have_refused_keeps_it(lake: Lake) -> None:
    hold(lake, totals(**ALL))
    cut(lake, "totals", kept=3, dead_letter=2)
    (found,) = plan_changes(lake, [totals(n=hr.count(), low=hr.min("value"))]).nodes
    assert found.reason == (
        "rows of the log of 'readings' were cut off (headrace retain), and its opening balance does not stand for all of "
        "them: 2 dead letters are among the records that are gone, and without total some of them might count"
    )
    assert (
        "; or leave in the aggregates that nobody needs any more, if that is all that changes"
        in found.way_out
    )
    assert outcomes(plan_changes(lake, [totals(n=hr.count(), total=hr.sum("value"))])) == {"totals": REBUILT}
    stream = READINGS.with_column("x", "value * 2")  # a step that may raise
    hold(lake, totals(stream, n=hr.count(), low=hr.min("x")))
    cut(lake, "totals", dead_letter=2)
    assert outcomes(plan_changes(lake, [totals(stream, n=hr.count())])) == {"totals": REFUSED}
    cut(lake, "totals", kept=2)
    assert outcomes(plan_changes(lake, [totals(stream, n=hr.count())])) == {"totals": REBUILT}


def test_aggregates_of_expressions_follow_from_a_balance_too(lake: Lake) -> None:
    every: dict[str, Any] = {
        "n": hr.count(),
        "high": hr.sum("value * 2", where="value > 1"),
        "least": hr.min("value + 1"),
    }
    hold(lake, totals(**every))
    cut(lake, "totals", kept=3)
    for changed in (
        {"least": hr.min("value + 1"), "n": hr.count()},
        {"twice": hr.sum("value * 2", where="value > 1")},
        {"n": hr.count()},
    ):
        (found,) = plan_changes(lake, [totals(**changed)]).nodes
        assert (found.outcome, found.from_balance) == (REBUILT, True)
    for other in ({"least": hr.min("value + 2")}, {"high": hr.sum("value * 2", where="value > 2")}):
        assert outcomes(plan_changes(lake, [totals(**other)])) == {"totals": REFUSED}
    cut(lake, "totals", kept=3, dead_letter=1)
    (found,) = plan_changes(lake, [totals(n=hr.count())]).nodes
    assert "without high, least some of them might count" in found.reason


def test_a_column_that_hid_one_of_the_topic_is_not_taken_for_it(lake: Lake) -> None:
    hiding = READINGS.with_column("value", "value * 2")
    hold(lake, totals(hiding, n=hr.count(), total=hr.sum("value")))
    cut(lake, "totals", kept=3)
    assert outcomes(plan_changes(lake, [totals(n=hr.count(), total=hr.sum("value"))])) == {"totals": REFUSED}
    assert outcomes(plan_changes(lake, [totals(hiding, n=hr.count())])) == {"totals": REBUILT}


def test_what_a_node_gave_before_the_cut_cannot_be_told_anew(lake: Lake) -> None:
    windows = READINGS.group_by("sensor_id").window(hr.tumbling("1 hour"), grace="1 minute")

    def pair(**aggregates: Any) -> list[Any]:
        counts = windows.aggregate(**aggregates).suppress(hr.until_window_closes()).named("counts")
        return [counts, counts.where("n > 1").named("busy")]

    hold(lake, pair(**ALL)[0])
    cut(lake, "counts")
    plan = plan_changes(lake, pair(n=hr.count()))
    assert outcomes(plan) == {"counts": REBUILT, "busy": REFUSED}
    assert plan.nodes[1].reason == "rows of the logs of 'counts' were cut off, and it would tell all anew"
    hold(lake, *pair(**ALL))
    (counts, _) = plan_changes(lake, pair(n=hr.count())).nodes
    assert counts.outcome == REFUSED
    assert counts.reason.endswith("other nodes read it, and what it gave before the cut cannot be told anew")


def test_a_swap_that_was_broken_off_goes_on_with_the_balance_that_it_has(lake: Lake) -> None:
    before, after = totals(**ALL), totals(n=hr.count())
    hold(lake, before)
    cut(lake, "totals")
    write_description(lake, after)
    assert outcomes(plan_changes(lake, [after])) == {"totals": REFUSED}
    beside = rebuild_place(lake, after)
    small_files.write_json(beside.opening("totals"), {})
    (found,) = plan_changes(lake, [after]).nodes
    assert (found.outcome, found.from_balance, found.interrupted) == (REBUILT, True, True)


def test_a_balance_that_a_swap_left_which_was_given_up_hides_none(lake: Lake) -> None:
    before, given_up = totals(**ALL), totals(n=hr.count())
    hold(lake, before)
    cut(lake, "totals", kept=3)
    balance = small_files.read_json(lake.opening("totals"))
    assert balance is not None
    theirs = balance | {"fingerprint": given_up.fingerprint(), "folder": "theirs", BEFORE: balance}
    small_files.write_json(lake.opening("totals"), theirs)
    (found,) = plan_changes(lake, [totals(low=hr.min("value"))]).nodes
    assert (found.outcome, found.from_balance) == (REBUILT, True)
    assert balance_by(lake, "totals", before.fingerprint()) == balance
    assert balance_by(lake, "totals", "of another") == theirs
    assert balance_by(lake, "another", before.fingerprint()) is None


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
    assert outcomes(plan_changes(lake, [changed])) == {"counts": UNCHANGED}
    assert outcomes(plan_changes(lake, [counts("2023-11-16")])) == {"counts": REBUILT}
    assert outcomes(plan_changes(lake, [counts("2023-11-14")])) == {"counts": REFUSED}
    assert outcomes(plan_changes(lake, [counts()])) == {"counts": REFUSED}


def test_a_rebuild_from_a_day_on_reads_no_balance_of_the_description_before(lake: Lake) -> None:
    """Its log for other nodes begins at the beginning, too."""
    hourly = READINGS.group_by("sensor_id").window(hr.tumbling("1 hour"), grace="0 s").aggregate(n=hr.count())
    before, changed = (hourly.named("counts", since=day) for day in (None, "2023-11-15"))
    hold(lake, before)
    cut(lake, "counts")
    with pytest.raises(TerminalError, match="written by another description"):
        read_opening(lake, changed)
    assert read_opening(rebuild_place(lake, changed), changed).is_at_the_beginning

"""The tables that a change replaced: kept, brought back, and dropped when their time is over. No Spark, and no rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace import lake as lakes
from headrace.changing.acts import Act, ChangedNode
from headrace.changing.plan_changes import stored_node
from headrace.changing.rename_node import rename_node
from headrace.changing.roll_back import _required
from headrace.lake import small_files
from headrace.lake.care.alter import name_past, rewritable
from headrace.lake.care.swap import replace_table
from headrace.lake.commits.fence import FencedError
from headrace.lake.paths import Lake
from headrace.lifecycle.pending_erasures import note_pending
from headrace.lifecycle.rebuilds.former import (
    Former,
    bring_back,
    drop_former,
    drop_outdated,
    former_of,
    keep_former,
)
from headrace.lifecycle.rebuilds.pasts import pasts_of
from headrace.log.history.filled_columns import noting
from headrace.log.history.writings import written_again
from headrace.nodes.balances.cuts import note_cut
from headrace.nodes.node_tables import write_description
from headrace.nodes.progress import Progress
from headrace.nodes.standing.state_commits import state_record, writings_read
from headrace.writing.leases.lease import LeaseLostError, LeaseTakenError
from tests.changing.held import hold, hold_log

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.fast

READINGS = hr.Topic("readings", key="sensor_id STRING", value="value DOUBLE")
BEFORE: Any = READINGS.group_by("sensor_id").aggregate(n=hr.count()).named("totals")
AFTER: Any = READINGS.group_by("sensor_id").aggregate(n=hr.count(), top=hr.max("value")).named("totals")
OTHER: Any = READINGS.group_by("value").aggregate(n=hr.count()).named("totals")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(f"file:{tmp_path}")
    hold(lake, BEFORE, progress=Progress(batch=7))
    keep_former(lake, "totals", AFTER.fingerprint(), 10)
    return lake


def progress(lake: Lake) -> tuple[str, int]:
    commit = lakes.last_commit(lakes.open_table(lake.state("totals")), "node/totals")
    assert commit is not None
    return commit.record["fingerprint"], commit.record["progress"]["batch"]


def held() -> None:
    """The leases are held."""


def write_again(lake: Lake) -> None:
    """Let the log be another one, as `headrace apply` does for another description of the topic."""
    log, record = lakes.open_table(lake.log("readings")), {"writer": "rewrite/log/readings"}
    writer = lakes.TableWriter(log, lakes.MAINTAINER)
    with rewritable(writer, record):
        replace_table(writer, log, record, remarks=noting({}))


@pytest.mark.parametrize("when", ["never", "before", "after"])
def test_they_do_not_come_back_over_a_log_that_was_written_again_since(tmp_path: Path, when: str) -> None:
    lake = Lake(f"file:{tmp_path}")
    hold_log(lake, READINGS, 1_000)
    if when == "before":
        write_again(lake)
    stood, went_on = (Progress(batch=batch, upto_ms={"readings": batch}) for batch in (7, 9))
    hold(lake, BEFORE, progress=stood)
    keep_former(lake, "totals", AFTER.fingerprint(), 10)
    if when == "after":
        write_again(lake)
    hold(lake, AFTER, progress=went_on)
    act = Act(1, "none", 10, (ChangedNode("totals", BEFORE.fingerprint(), AFTER.fingerprint(), {}),))
    if when != "after":
        assert _required(lake, act) == ["totals"]
        return
    with pytest.raises(hr.TerminalError, match="cannot go back") as refused:
        _required(lake, act)
    assert refused.value.detail == "totals: the log of readings was written again since."


@pytest.mark.parametrize("when", ["never", "before", "after"])
def test_they_do_not_come_back_over_a_log_that_was_cut_since(tmp_path: Path, when: str) -> None:
    """The new node reads another topic, so `retain` needs nothing of it: rows that the former one had not read were lost."""
    lake = Lake(f"file:{tmp_path}")
    hold_log(lake, READINGS, 1_000)
    if when == "before":
        note_cut(lake, READINGS, 5, None)
    hold(lake, BEFORE, progress=Progress(batch=7, upto_ms={"readings": 7}))
    keep_former(lake, "totals", AFTER.fingerprint(), 10)
    hold(lake, AFTER, progress=Progress(batch=9, upto_ms={"readings": 9}))
    if when == "after":
        note_cut(lake, READINGS, 8, None)
    act = Act(1, "none", 10, (ChangedNode("totals", BEFORE.fingerprint(), AFTER.fingerprint(), {}),))
    if when != "after":
        assert _required(lake, act) == ["totals"]
        return
    with pytest.raises(hr.TerminalError, match="cannot go back") as refused:
        _required(lake, act)
    assert refused.value.detail == "totals: rows of the log of readings were cut off since."


@pytest.mark.parametrize("read", [True, False])
def test_they_do_not_come_back_over_a_log_whose_older_rows_have_changed_since(
    tmp_path: Path, read: bool
) -> None:
    """Such as by a repair. The log of a node says what they have read through that node."""
    lake = Lake(f"file:{tmp_path}")
    upto_ms = {"readings" if read else "finals@of-readings": 7}
    hold(lake, BEFORE, progress=Progress(batch=7, upto_ms=upto_ms))
    keep_former(lake, "totals", AFTER.fingerprint(), 10)
    hold(lake, AFTER, progress=Progress(batch=9, upto_ms=upto_ms))
    log = lakes.open_table(lake.log("readings"))
    name_past(lakes.TableWriter(log, lakes.MAINTAINER), {"writer": "repair/log/readings"})
    act = Act(1, "none", 10, (ChangedNode("totals", BEFORE.fingerprint(), AFTER.fingerprint(), {}),))
    if not read:
        assert _required(lake, act) == ["totals"]
        return
    with pytest.raises(hr.TerminalError, match="cannot go back") as refused:
        _required(lake, act)
    assert refused.value.detail == "totals: older rows of the log of readings have changed since."


@pytest.mark.parametrize("by", ["a repair", "an erasure"])
def test_tables_that_are_to_be_computed_again_are_not_kept(lake: Lake, by: str) -> None:
    """They are not what the log leads to: brought back, they would be taken for it."""
    if by == "a repair":
        small_files.write_json(lake.repairing_log("readings"), ["totals"])
    else:
        note_pending(lake, "readings", ["totals"])
    keep_former(lake, "totals", AFTER.fingerprint(), 20)
    assert former_of(lake, "totals") is None


@pytest.mark.parametrize("through", ["directly", "a step without a name"])
@pytest.mark.parametrize("when", ["never", "after"])
def test_they_do_not_come_back_over_a_rename_of_a_node_that_they_read(
    tmp_path: Path, when: str, through: str
) -> None:
    """The renamed node gives a log of its own name: no description reads what the former tables have read."""
    lake = Lake(f"file:{tmp_path}")
    finals = (
        READINGS.group_by("sensor_id")
        .window(hr.tumbling("1 minute"), grace="0 seconds")
        .aggregate(n=hr.count())
    )
    finals = finals.suppress(hr.until_window_closes()).named("finals")
    read = finals.as_stream() if through == "directly" else finals.as_stream().where("n > 1")
    before: Any = read.group_by("sensor_id").aggregate(windows=hr.count()).named("totals")
    after: Any = read.group_by("sensor_id").aggregate(most=hr.max("n")).named("totals")
    hold(lake, finals, before)
    keep_former(lake, "totals", after.fingerprint(), 10)
    hold(lake, finals, after)
    act = Act(1, "none", 10, (ChangedNode("totals", before.fingerprint(), after.fingerprint(), {}),))
    if when == "never":
        assert _required(lake, act) == ["totals"]
        return
    rename_node(lake, "finals", "closed", ())
    with pytest.raises(hr.TerminalError, match="cannot go back") as refused:
        _required(lake, act)
    assert refused.value.detail == "totals: it read the log of finals, which was renamed since."


def test_a_node_names_the_writings_of_logs_that_it_reads_through_others(tmp_path: Path) -> None:
    lake = Lake(f"file:{tmp_path}")
    hold_log(lake, READINGS, 1_000)
    step = READINGS.group_by("sensor_id").aggregate(n=hr.count()).where("n > 1")
    through = step.group_by("n").aggregate(sensors=hr.count()).named("through")
    assert writings_read(lake, through) == {"readings": ""}
    commit = state_record(through, Progress(), writings_read(lake, through))
    assert written_again(lake, commit) == []
    write_again(lake)
    assert written_again(lake, commit) == ["readings"]


def test_they_come_back_with_their_rules_and_their_progress(lake: Lake) -> None:
    hold(lake, AFTER, progress=Progress(batch=9))
    assert progress(lake) == (AFTER.fingerprint(), 9)
    bring_back(lake, "totals", held)
    assert progress(lake) == (BEFORE.fingerprint(), 7)
    found = stored_node(lake, "totals")
    assert found is not None
    assert found.rules == BEFORE.rules() | {"by": ["sensor_id"]}
    assert former_of(lake, "totals") is None


@pytest.mark.parametrize("plan", [{"batch": 8, "upto_ms": {"readings": 5}}, None])
def test_a_micro_batch_that_a_crash_had_interrupted_is_planned_as_before(lake: Lake, plan: Any) -> None:
    """Its results may be there: planned anew it would read further, and write them a second time."""
    if plan is not None:
        small_files.write_json(lake.plan("totals"), plan)
    keep_former(lake, "totals", AFTER.fingerprint(), 10)
    hold(lake, AFTER, progress=Progress(batch=9))
    small_files.write_json(lake.plan("totals"), {"batch": 10, "upto_ms": {"readings": 9}})
    bring_back(lake, "totals", held)
    assert small_files.read_json(lake.plan("totals")) == plan


def test_a_swap_that_was_broken_off_copies_nothing_that_it_has_replaced(lake: Lake) -> None:
    """The results are the new ones already, and then another change comes."""
    stored = {"fingerprint": AFTER.fingerprint(), "rules": {}, "remarks": {}}
    small_files.write_json(lake.description("totals"), stored)
    keep_former(lake, "totals", OTHER.fingerprint(), 20)
    pasts = pasts_of(lake, ["readings"])
    assert former_of(lake, "totals") == Former(BEFORE.fingerprint(), OTHER.fingerprint(), 20, 7, pasts=pasts)
    bring_back(lake, "totals", held)
    kept = small_files.read_json(lake.description("totals"))
    assert kept is not None
    assert kept["fingerprint"] == BEFORE.fingerprint()


def test_of_a_swap_that_was_broken_off_nothing_is_kept_once_the_node_has_gone_on(lake: Lake) -> None:
    """What was copied before it went on would come back without what it gave to sinks since."""
    hold(lake, BEFORE, progress=Progress(batch=8))
    stored = {"fingerprint": AFTER.fingerprint(), "rules": {}, "remarks": {}}
    small_files.write_json(lake.description("totals"), stored)
    keep_former(lake, "totals", AFTER.fingerprint(), 20)
    assert former_of(lake, "totals") is None


@pytest.mark.parametrize("noted", [False, True])
def test_tables_that_a_swap_kept_and_did_not_replace_stay_as_they_are(lake: Lake, noted: bool) -> None:
    """The swap was broken off, and the node went on: brought back, it would give sinks the same rows again."""
    hold(lake, BEFORE, progress=Progress(batch=8))
    small_files.write_json(lake.plan("totals"), {"batch": 9, "upto_ms": {"readings": 9}})
    if noted:  # by a process that was paused, and lost its leases to the one that went on
        stored = {"fingerprint": AFTER.fingerprint(), "rules": {}, "remarks": {}}
        small_files.write_json(lake.description("totals"), stored)
    bring_back(lake, "totals", held)
    assert progress(lake) == (BEFORE.fingerprint(), 8)
    assert small_files.read_json(lake.plan("totals")) == {"batch": 9, "upto_ms": {"readings": 9}}
    found = stored_node(lake, "totals")
    assert found is not None
    assert found.rules == BEFORE.rules() | {"by": ["sensor_id"]}
    assert former_of(lake, "totals") is None


def test_whoever_has_lost_the_leases_brings_nothing_back(lake: Lake) -> None:
    hold(lake, AFTER, progress=Progress(batch=9))

    def lost() -> None:
        raise LeaseLostError("Node 'totals': this writer's lease was taken over.")

    with pytest.raises(LeaseLostError):
        bring_back(lake, "totals", lost)
    assert progress(lake) == (AFTER.fingerprint(), 9)
    found = stored_node(lake, "totals")
    assert found is not None
    assert found.rules == AFTER.rules() | {"by": ["sensor_id"]}
    assert former_of(lake, "totals") is not None


def test_a_way_back_that_was_paused_leaves_the_plan_of_who_went_on(lake: Lake) -> None:
    """Another process has gone back meanwhile, and a stream has planned a micro-batch whose results may be there."""
    hold(lake, AFTER, progress=Progress(batch=9))
    planned, looks = {"batch": 8, "upto_ms": {"readings": 9}, "token": "of the stream"}, iter([False, True])

    def paused() -> None:
        if next(looks):
            for uri in (lake.state("totals"), lake.table("totals")):
                lakes.TableWriter(lakes.open_table(uri), lakes.APPENDER)
                lakes.TableWriter(lakes.open_table(uri), lakes.MAINTAINER)
            small_files.write_json(lake.plan("totals"), planned)

    with pytest.raises(FencedError):
        bring_back(lake, "totals", paused)
    assert small_files.read_json(lake.plan("totals")) == planned


@pytest.mark.parametrize("kept", [False, True])
def test_of_a_swap_that_was_broken_off_and_had_kept_nothing_nothing_is_kept(lake: Lake, kept: bool) -> None:
    """The results may be the new ones, and the state is the old one: together they are nobody's tables."""
    hold(lake, OTHER)  # so what is kept, if anything, is of another description
    if not kept:
        drop_former(lake, "totals")
    stored = {"fingerprint": AFTER.fingerprint(), "rules": {}, "remarks": {}}
    small_files.write_json(lake.description("totals"), stored)
    keep_former(lake, "totals", AFTER.fingerprint(), 20)
    assert former_of(lake, "totals") is None
    assert not small_files.exists(lake.former("totals"))


class Taken:
    """A lease that is free, and how often it was taken and given back."""

    def __init__(self, *, is_held: bool = False) -> None:
        self.is_held, self.taken, self.released = is_held, 0, 0

    def take(self, name: str) -> Any:
        if self.is_held:
            raise LeaseTakenError(f"Rebuild of '{name}' is held.")
        self.taken += 1
        return self

    def release(self) -> None:
        self.released += 1


def test_they_are_dropped_when_their_time_is_over_with_what_they_gave_to_others(lake: Lake) -> None:
    hold(lake, AFTER)
    lease, given = Taken(), lake.log(f"totals@{BEFORE.fingerprint()[:12]}")
    small_files.write_json(f"{given}/a.json", {})
    assert (drop_outdated(lake, 9, lease.take), small_files.exists(given)) == ([], True)
    assert drop_outdated(lake, 10, Taken(is_held=True).take) == [], "an act, or its undoing, is under way"
    assert former_of(lake, "totals") is not None
    assert (drop_outdated(lake, 10, lease.take), small_files.exists(given)) == (["totals"], False)
    assert not small_files.exists(lake.former("totals"))
    assert (lease.taken, lease.released) == (1, 1)


def test_a_swap_that_was_broken_off_is_not_undone_without_the_former_tables(lake: Lake) -> None:
    """Its results may be the new ones: nothing would bring back those that fit the state."""
    changed = ChangedNode("totals", BEFORE.fingerprint(), AFTER.fingerprint(), {})
    act = Act(1, "none", 10, (changed,))
    assert _required(lake, act) == ["totals"]
    drop_former(lake, "totals")
    assert _required(lake, act) == [], "it was never swapped in"
    write_description(lake, AFTER)
    with pytest.raises(hr.TerminalError, match="cannot go back") as refused:
        _required(lake, act)
    assert "its former tables were deleted" in str(refused.value.detail)

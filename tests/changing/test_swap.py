"""A swap looks again behind the fence: a process that was paused may have lost the node. No Spark, and no rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

import headrace as hr
from headrace import lake as lakes
from headrace.changing.plan_changes import stored_node
from headrace.errors import TransientError
from headrace.lake import small_files
from headrace.lake.care.alter import name_past
from headrace.lake.commits.fence import FencedError
from headrace.lake.paths import Lake
from headrace.lifecycle.rebuilds import rebuild as rebuilds
from headrace.lifecycle.rebuilds.pasts import NotedPasts
from headrace.lifecycle.rebuilds.rebuild import Rebuild
from headrace.log.clock import ManualClock
from headrace.log.site import Site
from headrace.nodes.balances.rebuild_from_balance import rebuild_place
from headrace.nodes.progress import Progress
from headrace.nodes.standing.planned import planned_after
from headrace.nodes.standing.state_commits import last_state_commit, state_record
from headrace.writing.leases.lease import LeaseLostError
from tests.changing.held import NO_SPARK, hold

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace.writing.leases.lease import Lease

pytestmark = pytest.mark.fast

READINGS = hr.Topic("readings", key="sensor_id STRING", value="value DOUBLE")
WINDOWS = READINGS.group_by("sensor_id").window(hr.tumbling("1 minute"), grace="0 s")
BEFORE: Any = WINDOWS.aggregate(n=hr.count()).named("finals")
AFTER: Any = WINDOWS.aggregate(n=hr.count(), total=hr.sum("value")).named("finals")
STOOD = Progress(batch=1, upto_ms={"readings": 20})
WENT_ON = Progress(batch=2, upto_ms={"readings": 30})
PLAN = {"batch": 2, "after_ms": dict(STOOD.upto_ms), "upto_ms": {"readings": 30}}


class Store:
    """A sink."""

    name = "store"

    def deliver(self, rows: object, delivery: object) -> None:
        """Nothing is stored."""


STORE = Store()


class Held:
    """A lease, until another process takes it."""

    def __init__(self) -> None:
        self.is_lost = False

    def check(self) -> None:
        if self.is_lost:
            raise LeaseLostError("This writer's lease was taken over.")

    def release(self) -> None:
        """Nothing is written."""


class Built:
    """What a rebuild has folded."""

    def __init__(self) -> None:
        self.node, self.progress = AFTER, STOOD


class Unused:
    """A node's table of records that it cannot use: there are none."""

    def __init__(self, *_: object) -> None:
        """It holds nothing."""

    def gain(self, other: object) -> None:
        """There is nothing to gain."""


class Paused:
    """A rebuild that has caught up, the leases of its swap, and what happens while it is paused."""

    def __init__(self, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lake, self.leases = lake, {name: Held() for name in ("node", "rebuild", "backfill")}
        self.at, self.meanwhile = "", cast("Callable[[], object]", None)
        hold(lake, BEFORE, progress=STOOD)
        small_files.write_json(lake.plan("finals"), PLAN)
        beside = rebuild_place(lake, AFTER)
        hold(beside, AFTER, progress=STOOD)
        NotedPasts(lake, beside, AFTER).note()
        monkeypatch.setattr(rebuilds, "take_lease", lambda *_, **__: self.leases["rebuild"])
        monkeypatch.setattr(rebuilds, "take_lease_patiently", lambda *_, **__: self.leases["backfill"])
        monkeypatch.setattr(rebuilds, "NodeRunner", lambda *_, **__: Built())
        monkeypatch.setattr(rebuilds, "UnusableTable", Unused)
        monkeypatch.setattr(rebuilds, "can_be_put_right", lambda sink: True)
        monkeypatch.setattr(rebuilds, "put_right", lambda *given: self.corrected.append(given[-1].name))
        self.corrected: list[str] = []

    def swap(self) -> None:
        """Swap it in."""
        node = AFTER.to(cast("Any", STORE))
        rebuild = Rebuild(Site(NO_SPARK, self.lake, ManualClock(0), self._step), node, kept_until_ms=9)
        rebuild.swap(cast("Lease", self.leases["node"]))

    def _step(self, step: str) -> None:
        if step == self.at:
            self.meanwhile()

    def commit(self) -> None:
        """Let another process of the description before end its micro-batch."""
        state = lakes.TableWriter(lakes.open_table(self.lake.state("finals")), lakes.APPENDER)
        state.append([], state_record(BEFORE, WENT_ON))

    @property
    def stands(self) -> tuple[str, int, bool]:
        """By which description the state was written last, how far, and whether the rules beside it are the same."""
        held = stored_node(self.lake, "finals")
        commit = lakes.last_commit(lakes.open_table(self.lake.state("finals")), "node/finals")
        assert held is not None
        assert commit is not None
        return held.written_by, commit.record["progress"]["batch"], held.rules is not None


@pytest.fixture
def paused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paused:
    return Paused(Lake(f"file:{tmp_path}"), monkeypatch)


def test_tables_that_stand_where_they_stood_are_replaced(paused: Paused) -> None:
    before = lakes.TableWriter(lakes.open_table(paused.lake.state("finals")), lakes.APPENDER)
    paused.swap()
    assert paused.stands == (AFTER.fingerprint(), 1, True)
    commit = last_state_commit(paused.lake, "finals")
    assert small_files.read_json(paused.lake.plan("finals")) is None
    small_files.write_json(paused.lake.plan("finals"), PLAN)
    assert planned_after(paused.lake, "finals", commit) is None, "what was planned before is void"
    small_files.write_json(paused.lake.plan("finals"), PLAN | {"token": "another"})
    assert planned_after(paused.lake, "finals", commit) is not None
    assert small_files.read_json(paused.lake.standing("finals")) is None
    with pytest.raises(FencedError):
        before.append([], state_record(BEFORE, WENT_ON))


@pytest.mark.parametrize(
    ("at", "rules"), [("before swap", True), ("after kept", True), ("after rules", False)]
)
def test_what_another_process_has_committed_meanwhile_is_not_swapped_over(
    paused: Paused, at: str, rules: bool
) -> None:
    """Its sinks have rows of log commits that the rebuild would give again."""
    paused.at, paused.meanwhile = at, paused.commit
    with pytest.raises(TransientError, match="another process has written its tables during the swap"):
        paused.swap()
    assert paused.stands == (BEFORE.fingerprint(), 2, rules)
    assert small_files.read_json(paused.lake.plan("finals")) == PLAN, "its micro-batch can be repeated"
    with pytest.raises(TransientError, match="has read less"):
        paused.swap()


@pytest.mark.parametrize(
    ("at", "rules"), [("before swap", True), ("after kept", True), ("after rules", False)]
)
def test_what_has_read_rows_that_have_changed_meanwhile_is_not_swapped_in(
    paused: Paused, at: str, rules: bool
) -> None:
    """As an erasure does with a topic that the tables before do not read: it waits for no rebuild that is new."""

    def changed() -> None:
        log = lakes.open_table(paused.lake.log("readings"))
        name_past(lakes.TableWriter(log, lakes.MAINTAINER), {"writer": "erasure/log/readings"})

    paused.at, paused.meanwhile = at, changed
    with pytest.raises(TransientError, match="rows of a log that it reads have changed"):
        paused.swap()
    assert paused.stands == (BEFORE.fingerprint(), 1, rules)
    assert not small_files.names(paused.lake.rebuilds("finals")), "no erased key stays"


@pytest.mark.parametrize("at", ["before swap", "after kept"])
def test_whoever_was_overtaken_corrects_no_sink(paused: Paused, at: str) -> None:
    paused.at, paused.meanwhile = at, paused.commit
    with pytest.raises(TransientError):
        paused.swap()
    assert paused.corrected == []


def test_a_swap_that_is_broken_off_after_sinks_were_put_right_does_so_again(paused: Paused) -> None:
    def dies() -> None:
        raise KeyboardInterrupt

    paused.at, paused.meanwhile = "after sinks", dies
    with pytest.raises(KeyboardInterrupt):
        paused.swap()
    assert paused.stands == (BEFORE.fingerprint(), 1, True)
    paused.at = ""
    paused.swap()
    assert paused.corrected == ["store", "store"]


def test_a_swap_that_dies_between_results_and_state_is_finished(paused: Paused) -> None:
    def dies() -> None:
        raise KeyboardInterrupt

    paused.at, paused.meanwhile = "after results", dies
    with pytest.raises(KeyboardInterrupt):
        paused.swap()
    assert paused.stands == (BEFORE.fingerprint(), 1, False), "no stream takes the tables for its own"
    paused.at = ""
    paused.swap()
    assert paused.stands == (AFTER.fingerprint(), 1, True)
    assert planned_after(paused.lake, "finals", last_state_commit(paused.lake, "finals")) is None


def test_a_swap_that_was_paused_between_results_and_state_leaves_the_plan_of_who_went_on(
    paused: Paused,
) -> None:
    """Another process has finished the swap, and a stream has planned a micro-batch whose results may be there."""
    planned = PLAN | {"upto_ms": {"readings": 40}, "token": "of the stream"}

    def finished() -> None:
        state = lakes.TableWriter(lakes.open_table(paused.lake.state("finals")), lakes.APPENDER)
        state.append([], state_record(AFTER, STOOD))
        small_files.write_json(paused.lake.plan("finals"), planned)

    paused.at, paused.meanwhile = "after results", finished
    with pytest.raises(FencedError):
        paused.swap()
    assert planned_after(paused.lake, "finals", last_state_commit(paused.lake, "finals")) == planned


@pytest.mark.parametrize("name", ["node", "rebuild", "backfill"])
@pytest.mark.parametrize(("at", "rules"), [("after kept", True), ("after rules", False)])
def test_whoever_has_lost_a_lease_swaps_nothing_in(paused: Paused, name: str, at: str, rules: bool) -> None:
    paused.at, paused.meanwhile = at, lambda: setattr(paused.leases[name], "is_lost", True)
    with pytest.raises(LeaseLostError):
        paused.swap()
    assert paused.stands == (BEFORE.fingerprint(), 1, rules)
    paused.at, paused.leases[name].is_lost = "", False
    paused.swap()
    assert paused.stands == (AFTER.fingerprint(), 1, True)

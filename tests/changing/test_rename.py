"""A node goes on under another name from all that its tables are made of. No Spark, and no rows."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import pytest

import headrace as hr
from headrace import lake as lakes
from headrace.changing.rename_node import rename_node, require_renamable, why_not_renamed
from headrace.description import OtherNodeError
from headrace.errors import TerminalError
from headrace.lake import kinds, small_files
from headrace.lake.commits.fence import FencedError
from headrace.lake.commits.writer import OvertakenError
from headrace.lake.paths import Lake
from headrace.lifecycle.forsaken_logs import drop_registrations, may_read
from headrace.log.clock import SystemClock
from headrace.log.decision_rows import Decision, LogFolder, write_decisions
from headrace.log.decisions.limits import limits_entry
from headrace.nodes.balances.opening import forget_openings_but
from headrace.nodes.descriptions.references import Generations, resolve_references
from headrace.nodes.descriptions.renamed import has_to_be_renamed, renamed_to, why_not_by_this_name
from headrace.nodes.node_tables import write_description
from headrace.nodes.progress import Progress
from headrace.nodes.standing.planned import planned_after
from headrace.nodes.standing.state_commits import state_record
from headrace.writing.leases.lease import EXPIRES_MS, LeaseLostError
from headrace.writing.leases.readers import asked_by, readers_of, register
from headrace.writing.leases.requests import ask, withdraw
from tests.changing.held import COLUMNS, hold, hold_log, hold_records
from tests.scenarios.chained import COUNTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace.writing.leases.lease import Lease

pytestmark = pytest.mark.fast

READINGS = hr.Topic("readings", key="sensor_id STRING", value="value DOUBLE")
TOTALS: Any = READINGS.group_by("sensor_id").aggregate(n=hr.count()).named("totals")


def test_a_micro_batch_that_a_crash_had_interrupted_is_repeated_under_the_new_name(tmp_path: Path) -> None:
    """Its results may be there, and their commit says how far they go: further, a second time, they would be written again."""
    lake, after_ms = Lake(f"file:{tmp_path}"), {"readings": 4}
    hold(lake, TOTALS, progress=Progress(batch=7, upto_ms=after_ms))
    given = {"writer": "node/totals", "batch": 8, "after_ms": after_ms, "upto_ms": {"readings": 5}}
    lakes.TableWriter(lakes.open_table(lake.table("totals")), lakes.APPENDER).append([], given)
    rename_node(lake, "totals", "sums", ())
    commit = lakes.last_commit(lakes.open_table(lake.state("sums")), "node/sums")
    assert commit is not None
    assert commit.record["progress"]["batch"] == 7
    assert planned_after(lake, "sums", commit) == {"batch": 8, "upto_ms": {"readings": 5}}


def test_a_delivery_that_was_broken_off_goes_on_under_its_name_before_the_node_has_another(
    tmp_path: Path,
) -> None:
    """Repeated under the new name its rows would have another root, and a guard after the sink would take them again."""
    lake, sink = Lake(f"file:{tmp_path}"), hr.KafkaSink("out")
    sums = TOTALS.named("sums", renamed_from="totals")
    hold(lake, TOTALS, progress=Progress(batch=7))
    small_files.write_json(lake.plan("totals"), {"batch": 8, "after_ms": {}, "upto_ms": {"readings": 5}})
    assert why_not_renamed(lake, sums) is None, "no sink has got anything"
    obstacle = why_not_renamed(lake, sums.to(sink))
    assert obstacle is not None
    assert "a delivery of 'totals' to its sinks was broken off" in obstacle.reason
    assert "Run the code of before" in obstacle.way_out
    with pytest.raises(TerminalError, match="'sums' cannot go on from the tables of 'totals'"):
        require_renamable(lake, sums.to(sink))
    write_description(lake, TOTALS.to(sink))
    assert why_not_renamed(lake, sums) is not None, "the sink was taken out with the same change"
    small_files.write_json(lake.plan("totals"), {"batch": 7, "after_ms": {}, "upto_ms": {"readings": 5}})
    assert why_not_renamed(lake, sums) is None, "the delivery is whole"


def test_a_delivery_of_a_stream_that_runs_is_not_broken_off(tmp_path: Path) -> None:
    """The stream completes it before it hands the node over; apply looks again when it holds the lease."""
    lake = Lake(f"file:{tmp_path}")
    sums = TOTALS.to(hr.KafkaSink("out")).named("sums", renamed_from="totals")
    hold(lake, TOTALS, progress=Progress(batch=7))
    small_files.write_json(lake.plan("totals"), {"batch": 8, "after_ms": {}, "upto_ms": {"readings": 5}})
    lease, now_ms = lake.lease("node/totals"), SystemClock().now_ms()
    small_files.write_json(f"{lease}/1.claim.json", {"host": "elsewhere", "taken_ms": now_ms})
    assert why_not_renamed(lake, sums) is None
    with pytest.raises(TerminalError, match="a delivery of 'totals' to its sinks was broken off"):
        require_renamable(lake, sums)
    small_files.write_json(f"{lease}/1.renewed.json", {"renewed_ms": 0})
    assert why_not_renamed(lake, sums) is not None, "the lease was given back"
    small_files.delete(f"{lease}/1.renewed.json")
    long_ago_ms = now_ms - 2 * EXPIRES_MS
    small_files.write_json(f"{lease}/1.claim.json", {"host": "elsewhere", "taken_ms": long_ago_ms})
    assert why_not_renamed(lake, sums) is not None, "the stream is dead"


def test_limits_that_are_asked_for_or_not_yet_read_stand_in_the_way(tmp_path: Path) -> None:
    lake = Lake(f"file:{tmp_path}")
    limited = TOTALS.suppress(hr.until_time_limit("5 minutes")).named("limited")
    other = limited.named("other", renamed_from="limited")
    hold_records(lake, READINGS, {0: range(2)})
    hold(lake, limited, progress=Progress(batch=7, upto_ms={"readings": 1_700_000_000_000}))
    assert why_not_renamed(lake, other) is None
    name = ask(lake, "readings", {"node": "limited", "limits": {"limit_ms": 1}})
    assert "limits of 'limited'" in str(why_not_renamed(lake, other))
    withdraw(lake, "readings", name)
    assert why_not_renamed(lake, other) is None
    for node in ("elsewhere", "limited"):
        assert why_not_renamed(lake, other) is None
        entry = limits_entry(node, {"max_records": 5}, "request")
        table = lakes.open_table(lake.log("readings"))
        file = write_decisions(
            LogFolder(lake.log("readings"), table.schema),
            "readings",
            "control",
            1_700_000_000_001,
            [Decision(0, 0, entry)],
        )
        lakes.TableWriter(table, lakes.APPENDER).append([file], {"writer": "log/readings"})
    assert "limits of 'limited'" in str(why_not_renamed(lake, other)), "the node has not read them"


def test_the_former_name_is_given_up_and_the_new_one_waits_for_its_tables(tmp_path: Path) -> None:
    """A stream of either code gives its sinks nothing twice, and nothing from the beginning."""
    lake, sums = Lake(f"file:{tmp_path}"), TOTALS.named("sums", renamed_from="totals")
    assert not why_not_by_this_name(lake, sums), "there is nothing to go on from"
    hold(lake, TOTALS)
    assert not why_not_by_this_name(lake, TOTALS)
    assert "once headrace apply has copied them" in why_not_by_this_name(lake, sums)
    rename_node(lake, "totals", "sums", ())
    assert "has renamed it to 'sums'" in why_not_by_this_name(lake, TOTALS)
    assert lake.renamed("totals") in why_not_by_this_name(lake, TOTALS)
    assert not why_not_by_this_name(lake, sums)
    other = READINGS.group_by("value").aggregate(n=hr.count()).named("totals")
    hold(lake, other)
    assert not why_not_by_this_name(lake, other), "a new node has the former name"


class Lost:
    """A lease that another process has taken."""

    def check(self) -> None:
        raise LeaseLostError("Node 'totals': this writer's lease was taken over.")


def test_whoever_has_lost_the_lease_renames_nothing(tmp_path: Path) -> None:
    lake, lost = Lake(f"file:{tmp_path}"), cast("Lease", Lost())
    hold(lake, TOTALS)
    with pytest.raises(LeaseLostError):
        rename_node(lake, "totals", "sums", [lost])
    assert renamed_to(lake, "totals") is None
    assert has_to_be_renamed(lake, TOTALS.named("sums", renamed_from="totals"))


def went_on(lake: Lake) -> None:
    """Let a stream end a micro-batch under the new name."""
    state = lakes.TableWriter(lakes.open_table(lake.state("sums")), lakes.APPENDER)
    state.append([], state_record(TOTALS.named("sums"), Progress(batch=2)))


def reached(lake: Lake) -> int:
    """The last micro-batch under the new name."""
    commit = lakes.last_commit(lakes.open_table(lake.state("sums")), "node/sums")
    assert commit is not None
    return int(commit.record["progress"]["batch"])


def test_a_node_that_another_process_has_renamed_meanwhile_is_not_taken_back(tmp_path: Path) -> None:
    """Both had planned it, and the second one got the leases once a stream ran under the new name."""
    lake = Lake(f"file:{tmp_path}")
    hold(lake, TOTALS)
    rename_node(lake, "totals", "sums", ())
    went_on(lake)
    rename_node(lake, "totals", "sums", ())
    assert reached(lake) == 2
    assert renamed_to(lake, "totals") == "sums"


def expires(at: int, meanwhile: Callable[[], None]) -> Lease:
    """A lease that expires just after it was looked at for the n-th time; then another process does something."""

    class Expires:
        checks = 0

        def check(self) -> None:
            self.checks += 1
            if self.checks == at:
                meanwhile()
            elif self.checks > at:
                Lost().check()

    return cast("Lease", Expires())


def renamed_and_went_on(lake: Lake) -> None:
    rename_node(lake, "totals", "sums", ())
    went_on(lake)


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_rename_that_was_paused_puts_nothing_over_what_came_since(tmp_path: Path, at: int) -> None:
    """Its leases expire just after it has looked at them, and another process renames the node."""
    lake = Lake(f"file:{tmp_path}")
    hold(lake, TOTALS)

    with pytest.raises((FencedError, LeaseLostError)):
        rename_node(lake, "totals", "sums", [expires(at, lambda: renamed_and_went_on(lake))])
    assert reached(lake) == 2
    assert renamed_to(lake, "totals") == "sums", "the former name stays given up"


def test_a_rename_that_was_paused_before_its_note_leaves_the_note_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a stream would go on under the former name, and its sinks would get rows twice."""
    lake, module = Lake(f"file:{tmp_path}"), import_module("headrace.changing.rename_node")
    take_over = module.take_over
    hold(lake, TOTALS)

    def paused(of: Lake, name: str) -> Any:
        monkeypatch.setattr(module, "take_over", take_over)
        taken = take_over(of, name)
        rename_node(lake, "totals", "sums", ())
        went_on(lake)
        return taken

    monkeypatch.setattr(module, "take_over", paused)
    with pytest.raises(LeaseLostError):
        rename_node(lake, "totals", "sums", [cast("Lease", Lost())])
    assert reached(lake) == 2
    assert renamed_to(lake, "totals") == "sums", "the former name stays given up"


def retained(lake: Lake, name: str, folder: str) -> None:
    """Let a retention strike the balance of a node, and a stream find a record that it cannot use."""
    lakes.create(f"{lake.openings(name)}/{folder}/state", COLUMNS, kinds.state(()))
    entry = {"fingerprint": TOTALS.fingerprint(), "folder": folder, "progress": {"upto_ms": {}}}
    small_files.write_json(lake.opening(name), entry)
    forget_openings_but(lake, name, folder)
    unusable = lakes.create(f"{lake.root}/unusable/{name}/of", COLUMNS, kinds.state(()))
    lakes.TableWriter(unusable, lakes.APPENDER).append([], {"writer": folder})
    small_files.write_json(lake.plan(name), {"batch": 9, "upto_ms": {}, "token": folder})


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("at", range(3, 9))
def test_a_rename_that_was_paused_takes_away_nothing_that_came_since(
    tmp_path: Path, at: int, left: bool
) -> None:
    lake = Lake(f"file:{tmp_path}")
    hold(lake, TOTALS)
    retained(lake, "totals", "first")
    if left:
        retained(lake, "sums", "left")

    def meanwhile() -> None:
        renamed_and_went_on(lake)
        retained(lake, "sums", "later")

    with pytest.raises((FencedError, LeaseLostError, OvertakenError)):
        rename_node(lake, "totals", "sums", [expires(at, meanwhile)])
    balance, plan = (small_files.read_json(place("sums")) for place in (lake.opening, lake.plan))
    assert (balance["folder"], plan["token"]) == ("later", "later")  # type: ignore[index]
    assert lakes.exists(f"{lake.openings('sums')}/later/state")
    assert lakes.last_commit(lakes.open_table(f"{lake.root}/unusable/sums/of"), "later") is not None


def test_a_rename_that_was_broken_off_is_done_again(tmp_path: Path) -> None:
    lake = Lake(f"file:{tmp_path}")
    hold(lake, TOTALS)

    class Breaks:
        checks = 0

        def check(self) -> None:
            self.checks += 1
            if self.checks == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rename_node(lake, "totals", "sums", [cast("Lease", Breaks())])
    assert renamed_to(lake, "totals") is None, "a stream of the former name goes on"
    assert has_to_be_renamed(lake, TOTALS.named("sums", renamed_from="totals"))
    rename_node(lake, "totals", "sums", ())
    assert reached(lake) == 1
    assert not why_not_by_this_name(lake, TOTALS.named("sums", renamed_from="totals"))


def test_a_writer_that_was_paused_commits_nothing_under_the_former_name(tmp_path: Path) -> None:
    lake = Lake(f"file:{tmp_path}")
    hold(lake, TOTALS)
    paused = lakes.TableWriter(lakes.open_table(lake.state("totals")), lakes.APPENDER)
    rename_node(lake, "totals", "sums", ())
    with pytest.raises(FencedError):
        paused.append([], state_record(TOTALS, Progress(batch=2)))


def test_retention_does_not_wait_for_the_former_name(tmp_path: Path) -> None:
    """Nobody runs it any more, so it would read no further, and no row could ever be cut off."""
    lake = Lake(f"file:{tmp_path}")
    hold(lake, TOTALS)
    register(lake, READINGS, "totals", asked_by(READINGS, [TOTALS]))
    assert may_read(lake, "totals", "readings", SystemClock())
    rename_node(lake, "totals", "sums", ())
    assert drop_registrations(lake, SystemClock()) == ["totals of readings"]
    assert readers_of(lake, "readings") == []


def test_readers_of_the_former_name_are_told_the_new_one(tmp_path: Path) -> None:
    """Nothing comes under the former name any more: who reads on would wait for ever, and not know why."""
    lake = Lake(f"file:{tmp_path}")
    schema = "sensor STRING, window_start TIMESTAMP, window_end TIMESTAMP, n BIGINT"
    old, new = (hr.node(name, schema=schema).where("n < 4").named("alerts") for name in ("counts", "tallies"))
    hold(lake, COUNTS)
    rename_node(lake, "counts", "tallies", ())
    with pytest.raises(OtherNodeError, match=r"goes on as 'tallies', .*\n?.*hr\.node\('tallies', …\)"):
        Generations(lake).of(old)
    for reader in (old, new):
        hold_log(lake, resolve_references(lake, reader).topics[0], 10)
    generations = Generations(lake)
    remark = generations.outdated(generations.of(old))
    assert "Node 'counts' goes on as 'tallies'" in str(remark)
    assert "hr.node('tallies', …)" in str(remark)
    assert generations.outdated(generations.of(new)) is None
    small_files.delete(lake.renamed("counts"))  # a person lets it run under the former name, too
    assert generations.outdated(generations.of(old)) is None

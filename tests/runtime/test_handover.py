"""Who asks a stream for a node gets it between two micro-batches; a stream waits for whoever has it, and never for the dead."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, cast

import pytest

from headrace.lake import small_files
from headrace.lake.paths import Lake
from headrace.log.clock import ManualClock
from headrace.streams.pausing import Wishes, pause, wishes
from headrace.writing.leases import handover
from headrace.writing.leases.handover import HandoverWait, WaitsError, handed_over
from headrace.writing.leases.lease import LeaseTakenError
from tests.runtime.supervising import Loop, held_up, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.fast
SPARK = cast("Any", None)


class Leases:
    """In place of leases: those that are held, and how often each was asked for."""

    def __init__(self, *held: str) -> None:
        self.held, self.tries = {*held}, list[str]()

    def take(self, _: object, folder: str, writer: str, clock: object) -> Any:
        name = folder.rpartition("/")[2]
        self.tries.append(name)
        if name in self.held:
            raise LeaseTakenError(f"{writer} is held.")
        self.held.add(name)
        leases = self

        class Taken:
            def release(self) -> None:
                leases.held.discard(name)

        return Taken()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(f"file:{tmp_path}")


@pytest.fixture(name="of")
def leases(monkeypatch: pytest.MonkeyPatch) -> Leases:
    made = Leases("busy")
    monkeypatch.setattr(handover, "take_lease", made.take)
    monkeypatch.setattr(handover, "RETRY_SECONDS", 0.005)
    return made


def test_only_nodes_that_somebody_writes_are_asked_for_and_all_are_given_back(lake: Lake, of: Leases) -> None:
    def gives_way() -> None:
        until(lambda: wishes(lake).asked and "free" in of.held)  # they are asked for one after the other
        assert wishes(lake).asked == {"busy"}
        assert "free" in of.held, "what is free is held meanwhile"
        of.held.discard("busy")

    stream = threading.Thread(target=gives_way)
    stream.start()
    with handed_over(SPARK, lake, ["busy", "free"], ManualClock(7), what="a test") as held:
        stream.join()
        assert held.keys() == of.held == {"busy", "free"}
        assert (small_files.read_json(lake.handover("busy")) or {})["who"].startswith("a test (process ")
    assert not of.held
    assert not wishes(lake).asked


def test_whoever_does_not_get_a_node_gives_back_those_that_it_has(lake: Lake, of: Leases) -> None:
    with (
        pytest.raises(LeaseTakenError, match="Node 'busy' is held"),
        handed_over(SPARK, lake, ["free", "busy"], ManualClock(7), what="a test", patience_seconds=0.02),
    ):
        raise AssertionError("it is not handed over")
    assert of.held == {"busy"}
    assert not wishes(lake).asked
    with (
        pytest.raises(LeaseTakenError),
        handed_over(SPARK, lake, ["busy"], ManualClock(7), what=None, patience_seconds=0.02),
    ):
        raise AssertionError("nobody was asked")


def test_a_request_that_a_stream_took_for_forsaken_is_written_again(lake: Lake, of: Leases) -> None:
    def gives_way_late() -> None:
        until(lambda: wishes(lake).asked)
        small_files.delete(lake.handover("busy"))
        until(lambda: wishes(lake).asked)
        of.held.discard("busy")

    stream = threading.Thread(target=gives_way_late)
    stream.start()
    with handed_over(SPARK, lake, ["busy"], ManualClock(7), what="a test"):
        stream.join()


def test_a_stream_waits_while_it_is_asked_and_the_asker_lives(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken_ms: int | None = None
    monkeypatch.setattr(handover, "lease_taken_ms", lambda folder, clock: taken_ms)
    wait = HandoverWait(lake, "totals", ManualClock(7))
    wait.check()
    small_files.write_json(lake.handover("totals"), {"who": "a test", "at_ms": 1})
    with pytest.raises(WaitsError, match="handed over to a test"):
        wait.check()
    monkeypatch.setattr(handover, "FORSAKEN_SECONDS", 0.0)
    taken_ms = 3
    with pytest.raises(WaitsError):
        wait.check()  # for however long it works
    taken_ms = None
    wait.check()
    assert wait.is_asked
    wait.over()
    assert not wait.is_asked, "it had died"


def test_pauses_and_requests_are_told_apart(lake: Lake) -> None:
    pause(lake, "a.handover")
    small_files.write_json(lake.handover("b.json"), {})
    assert wishes(lake) == Wishes(paused=frozenset({"a.handover"}), asked=frozenset({"b.json"}))


def test_a_loop_lets_go_after_the_work_under_way_and_waits_without_a_failure() -> None:
    loop = Loop()
    go_on = held_up(loop, lambda: 1)
    loop.let_go_soon(WaitsError("It is handed over."))
    loop.keep_running()
    assert (loop.running, loop.closed) == (True, 0), "its work is still under way"
    loop.refusals = [WaitsError("It is handed over to a test.")] * 2
    go_on.set()
    until(lambda: not loop.running)
    for _ in range(3):
        loop.keep_running()
        assert (loop.state, loop.failures) == ("waiting", 0)
        assert loop.closed
        loop._retry_at = 0.0
    assert str(loop.error) == "It is handed over to a test."
    loop.keep_running()
    assert (loop.state, loop.error) == ("running", None)
    loop.does = lambda: 1
    loop.drain()

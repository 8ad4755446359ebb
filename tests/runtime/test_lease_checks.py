"""How the holder of a lease sees that it was overtaken: it asks for one name, and lists the folder as it renews. No Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.lake import small_files
from headrace.log.clock import ManualClock
from headrace.writing.leases.lease import EXPIRES_MS, RENEWED_EVERY_MS, Lease, LeaseLostError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.fast

NOW_MS = 1_714_564_800_000


@pytest.fixture
def lease(tmp_path: Path) -> Lease:
    """One of epoch 1, which was just taken."""
    folder = f"file:{tmp_path}/leases/log/readings"
    small_files.write_json(f"{folder}/1.claim.json", {})
    return Lease(folder, "Log 'readings'", 1, ManualClock(NOW_MS), NOW_MS)


def taken_through(lease: Lease, later: int) -> None:
    """Let others take the lease one after the other, through an epoch; each deletes the claim before the last."""
    for epoch in range(2, later + 1):
        small_files.write_json(f"{lease.folder}/{epoch}.claim.json", {})
        small_files.delete(f"{lease.folder}/{epoch - 2}.claim.json")


def test_a_holder_asks_for_one_name_and_lists_the_folder_as_it_renews(
    lease: Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[str] = []
    names = small_files.names

    def noted(uri: str) -> list[str]:
        listed.append(uri)
        return names(uri)

    monkeypatch.setattr(small_files, "names", noted)
    for _ in range(3):
        lease.check()
    assert not listed
    lease.clock = ManualClock(NOW_MS + RENEWED_EVERY_MS)
    lease.check()
    assert listed == [lease.folder]


class SetClock:
    """A clock that people set while time passes."""

    def __init__(self) -> None:
        self.steady, self.ahead = 0, 0

    def now_ms(self) -> int:
        return NOW_MS + self.steady + self.ahead

    def steady_ms(self) -> int:
        return self.steady


@pytest.mark.parametrize("ahead_ms", [3_600_000, -3_600_000])
def test_a_renewal_by_a_wrong_clock_is_written_anew_when_the_clock_is_right(
    lease: Lease, ahead_ms: int
) -> None:
    """Before, one from the future stood for an hour: if the holder died, nobody could take the lease for so long."""
    lease.clock = clock = SetClock()
    for clock.ahead in (ahead_ms, 0):
        for _ in range(3):
            clock.steady += RENEWED_EVERY_MS
            lease.check()
    renewal = small_files.read_json(f"{lease.folder}/1.renewed.json")
    assert renewal == {"renewed_ms": clock.now_ms()}


@pytest.mark.parametrize("later", [2, 4])
def test_a_holder_that_slept_finds_out_however_many_have_come_since(lease: Lease, later: int) -> None:
    taken_through(lease, later)
    lease.clock = ManualClock(NOW_MS + RENEWED_EVERY_MS)
    with pytest.raises(LeaseLostError, match=rf"taken over \(epoch {later}\)"):
        lease.check()
    assert not small_files.exists(f"{lease.folder}/1.renewed.json")


def test_a_holder_that_is_paused_as_it_renews_lists_the_folder_again(
    lease: Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has listed the folder; while it is paused, so many take the lease that the claim after its own is deleted."""
    lease.clock = clock = ManualClock(NOW_MS + RENEWED_EVERY_MS)
    names = small_files.names

    def paused(uri: str) -> list[str]:
        found = names(uri)
        monkeypatch.setattr(small_files, "names", names)
        clock.set(NOW_MS + 100 * EXPIRES_MS)
        taken_through(lease, 4)
        return found

    monkeypatch.setattr(small_files, "names", paused)
    lease.check()
    with pytest.raises(LeaseLostError, match=r"taken over \(epoch 4\)"):
        lease.check()

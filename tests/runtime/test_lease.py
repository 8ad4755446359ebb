"""One writer at a time: refused while the holder lives, taken over at once when it is dead, noticed when overtaken."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from headrace.lake import small_files
from headrace.lake.clocks import ClocksApartError
from headrace.log.clock import ManualClock, SystemClock
from headrace.writing.leases import lease as lease_module
from headrace.writing.leases import lease_waits
from headrace.writing.leases.lease import (
    EXPIRES_MS,
    Lease,
    LeaseLostError,
    LeaseNotExpiredError,
    LeaseTakenError,
    take_lease,
)
from headrace.writing.leases.processes import born, runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.lake.paths import Lake

pytestmark = pytest.mark.spark

NOW_MS = 1_714_564_800_000


@pytest.fixture
def folder(lake: Lake) -> str:
    return lake.lease("log/readings")


@pytest.fixture(autouse=True)
def given_back(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever a test takes is given back, so that nothing goes on renewing it."""
    taken: list[Lease] = []
    keep = Lease.keep

    def noted(lease: Lease) -> Lease:
        taken.append(lease)
        return keep(lease)

    monkeypatch.setattr(Lease, "keep", noted)
    yield
    for lease in taken:
        lease.release()


def take(spark: SparkSession, folder: str, now_ms: int = NOW_MS) -> Lease:
    return take_lease(spark, folder, "Log 'readings'", ManualClock(now_ms))


def claim_as(spark: SparkSession, folder: str, **changed: Any) -> None:
    """Let the lease of epoch 1 appear to be held by somebody else."""
    path = f"{folder}/1.claim.json"
    claim = small_files.read_json(path)
    assert claim is not None
    small_files.write_json(path, claim | changed)


def test_a_second_writer_is_told_who_the_first_is(spark: SparkSession, folder: str) -> None:
    first = take(spark, folder)
    with pytest.raises(LeaseTakenError) as refused:
        take(spark, folder, NOW_MS + 5_000)
    assert str(refused.value).splitlines() == [
        f"Log 'readings' is already being written by process {os.getpid()} on {socket.gethostname()}.",
        "Its lease (epoch 1) was last renewed 5 s ago.",
        "Stop that run first; a lease left by a lost machine expires after 60 s.",
    ]
    first.release()
    assert take(spark, folder, NOW_MS + 5_001).epoch == 2


def test_a_quiet_or_slow_process_of_this_machine_is_not_overtaken(spark: SparkSession, folder: str) -> None:
    take(spark, folder)
    with pytest.raises(LeaseTakenError):
        take(spark, folder, NOW_MS + 100 * EXPIRES_MS)


def test_a_dead_process_of_this_machine_is_not_waited_for(spark: SparkSession, folder: str) -> None:
    take(spark, folder)
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        dead.wait()
    claim_as(spark, folder, pid=dead.pid, spark_pid=dead.pid)
    assert take(spark, folder).epoch == 2


def test_a_killed_process_that_its_parent_has_not_noted_is_dead() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    began = born(process.pid)
    assert runs(process.pid, began)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and still in the process table
    assert not runs(process.pid, began)
    process.wait()


def test_another_process_with_a_dead_ones_number_is_not_the_holder(spark: SparkSession, folder: str) -> None:
    take(spark, folder)
    claim_as(spark, folder, born="1", spark_born="1")
    assert take(spark, folder).epoch == 2


def test_a_dead_processs_spark_is_waited_for_and_then_named(
    spark: SparkSession, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_module, "ORPHAN_SECONDS", 0.2)
    take(spark, folder)
    claim_as(spark, folder, born="1")
    with pytest.raises(LeaseTakenError, match=r"which is dead; its Spark, process \d+, is not"):
        take(spark, folder)


def test_a_job_waits_until_a_lease_that_a_lost_machine_has_left_expires(
    spark: SparkSession, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_waits, "RETRY_SECONDS", 0.01)
    take(spark, folder)
    claim_as(spark, folder, host="elsewhere", pid=1)
    clock = ManualClock(NOW_MS + EXPIRES_MS - 20)
    looks: list[int] = []

    def passing() -> int:
        looks.append(NOW_MS + EXPIRES_MS - 20 + len(looks))
        return looks[-1]

    monkeypatch.setattr(clock, "now_ms", passing)
    assert lease_waits.take_lease_patiently(spark, folder, "Log 'readings'", clock).epoch == 2
    assert len(looks) > 10, "it was refused, and tried again"


def test_a_job_waits_for_as_long_as_the_holder_has_claimed(
    spark: SparkSession, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`HEADRACE_STREAM_LEASE_SECONDS` of the lost machine counts, not the default."""
    monkeypatch.setattr(lease_waits, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(lease_waits, "EXPIRES_MS", 0)
    clock = SystemClock()
    take(spark, folder, clock.now_ms())
    claim_as(spark, folder, host="elsewhere", pid=1, expires_ms=400)
    assert lease_waits.take_lease_patiently(spark, folder, "Log 'readings'", clock).epoch == 2


def test_a_job_does_not_wait_for_a_process_that_lives(
    spark: SparkSession, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_waits, "RETRY_SECONDS", 600)
    take(spark, folder)
    with pytest.raises(LeaseTakenError, match="already being written"):
        lease_waits.take_lease_patiently(spark, folder, "Log 'readings'", ManualClock(NOW_MS))


@pytest.mark.parametrize("other", [{"host": "elsewhere"}, {"space": "another container"}])
def test_a_lease_from_elsewhere_expires_when_it_is_not_renewed(
    other: dict[str, str], spark: SparkSession, folder: str
) -> None:
    take(spark, folder)
    claim_as(spark, folder, pid=1, **other)
    with pytest.raises(LeaseNotExpiredError, match="process 1 on") as refused:
        take(spark, folder, NOW_MS + EXPIRES_MS - 5_000)
    assert refused.value.holder is not None
    assert refused.value.holder.expires_in_seconds == 5
    with pytest.raises(LeaseNotExpiredError):
        take(spark, folder, NOW_MS + EXPIRES_MS)
    assert take(spark, folder, NOW_MS + EXPIRES_MS + 1).epoch == 2


def test_a_holder_elsewhere_whose_clock_is_ahead_is_named(spark: SparkSession, folder: str) -> None:
    take(spark, folder, NOW_MS + 60_000)
    with pytest.raises(LeaseTakenError, match="already being written"):
        take(spark, folder)
    claim_as(spark, folder, host="elsewhere", pid=1)
    with pytest.raises(ClocksApartError, match="'elsewhere', which holds the lease, is 60 s ahead of this"):
        take(spark, folder)
    with pytest.raises(LeaseNotExpiredError):
        take(spark, folder, NOW_MS + 55_000)


def test_a_holder_renews_its_lease_while_it_has_nothing_to_commit(
    spark: SparkSession, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_module, "RENEWED_EVERY_MS", 20)
    clock = ManualClock(NOW_MS)
    held = take_lease(spark, folder, "Log 'readings'", clock)
    clock.set(NOW_MS + EXPIRES_MS)
    waited = threading.Event()
    while held.renewed_ms == NOW_MS and not waited.wait(0.02):
        pass
    claim_as(spark, folder, host="elsewhere")
    with pytest.raises(LeaseTakenError, match="last renewed 60 s ago"):
        take(spark, folder, NOW_MS + 2 * EXPIRES_MS)
    held.release()


def test_a_lease_that_could_not_be_given_back_is_taken_again_by_the_same_process(
    spark: SparkSession, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = take(spark, folder)
    with monkeypatch.context() as full:
        full.setattr(small_files, "write_json", no_space)
        with pytest.raises(OSError, match="No space left"):
            held.release()
    assert take(spark, folder).epoch == 2


def test_a_lease_is_not_left_behind_when_the_disk_is_full_while_it_is_taken(
    spark: SparkSession, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(spark, folder).release()
    with monkeypatch.context() as full:
        full.setattr(small_files, "delete_files", no_space)
        with pytest.raises(OSError, match="No space left"):
            take(spark, folder)
    assert take(spark, folder).epoch == 3


def no_space(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_an_overtaken_holder_notices_and_cannot_take_it_back(spark: SparkSession, folder: str) -> None:
    first = take(spark, folder)
    first.check()
    claim_as(spark, folder, born="1", spark_born="1")
    second = take(spark, folder)
    with pytest.raises(LeaseLostError, match=r"lease \(epoch 1\) was taken over \(epoch 2\)"):
        first.check()
    first.release()
    second.check()
    with pytest.raises(LeaseTakenError):
        take(spark, folder)


def test_a_lease_given_back_permits_nothing_more(spark: SparkSession, folder: str) -> None:
    held = take(spark, folder)
    held.release()
    with pytest.raises(LeaseLostError, match="was given back"):
        held.check()


def test_of_many_that_reach_out_at_the_same_moment_one_gets_it(spark: SparkSession, lake: Lake) -> None:
    def reach(folder: str, start: threading.Barrier) -> Lease | None:
        start.wait()
        with suppress(LeaseTakenError):
            return take(spark, folder)
        return None

    with ThreadPoolExecutor(6) as threads:
        for attempt in range(5):
            folder, start = lake.lease(f"log/{attempt}"), threading.Barrier(6)
            won = [lease for lease in threads.map(reach, [folder] * 6, [start] * 6) if lease]
            assert len(won) == 1


def test_of_many_that_claim_at_the_same_moment_one_does(spark: SparkSession, lake: Lake) -> None:
    def reach(folder: str, start: threading.Barrier) -> bool:
        start.wait()
        return small_files.write_json(f"{folder}/1.claim.json", {}, overwrite=False)

    with ThreadPoolExecutor(6) as threads:
        for attempt in range(100):
            folder, start = lake.lease(f"log/{attempt}"), threading.Barrier(6)
            won = list(threads.map(reach, [folder] * 6, [start] * 6))
            assert sum(won) == 1
            assert small_files.names(folder) == ["1.claim.json"]


def test_who_comes_a_moment_too_late_is_told(
    spark: SparkSession, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_module, "_newest_epoch", lambda *_: 0)
    take(spark, folder)
    with pytest.raises(LeaseTakenError, match="another process took the lease at the same moment"):
        take(spark, folder)


def test_the_holder_says_when_its_silence_frees_the_lease_and_renews_it_six_times_as_often(
    spark: SparkSession, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_STREAM_LEASE_SECONDS", "6")
    assert take(spark, folder).renewed_every_ms == 1_000
    monkeypatch.delenv("HEADRACE_STREAM_LEASE_SECONDS")
    claim_as(spark, folder, host="elsewhere", pid=1)
    with pytest.raises(LeaseNotExpiredError, match="expires after 6 s"):
        take(spark, folder, NOW_MS + 6_000)
    assert take(spark, folder, NOW_MS + 6_001).renewed_every_ms == 10_000

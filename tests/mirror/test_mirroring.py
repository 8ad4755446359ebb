"""Next to streams a thread keeps the mirror; no stream waits for it, and figures say how far it is behind."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.lake.paths import Lake
from headrace.mirror.mirrored_table import FINAL_THROUGH
from headrace.observe.figures import numbers
from headrace.streams.mirroring import BEHIND, Mirroring
from headrace.streams.status.stream_status import StreamStatus
from headrace.testing import TestDriver
from tests.conftest import Drive
from tests.mirror.conftest import by_delta, by_pyiceberg, counts, kept, mirror_of, pipe

pytestmark = pytest.mark.fast
DAY_MS = 86_400_000
Keep = Callable[..., list[StreamStatus]]


def status(
    node: str, stream_time_ms: int | None = None, state: str = "running", kind: str = "stream"
) -> StreamStatus:
    return StreamStatus(
        kind, node, state, None, 0, 0, 0.0, 0, 0.0, stream_time_ms, 1, {}, read_ms=stream_time_ms
    )


def kept_through(mirroring: Mirroring, *statuses: StreamStatus) -> list[StreamStatus]:
    """Let a round happen, and give the statuses after it."""
    mirroring._next_at = 0.0
    mirroring.keep(statuses)
    mirroring._thread.join()
    return mirroring.keep(statuses)


@pytest.fixture
def lake(drive: Drive) -> TestDriver:
    driver = drive(kept, counts)
    pipe(driver, 0, 30)
    return driver


def test_rounds_follow_the_tables_that_this_process_writes(lake: TestDriver) -> None:
    mirroring = Mirroring(Lake(lake.lake.root), [kept, counts])
    (first, second) = kept_through(mirroring, status("kept"), status("counts", state="waiting"))
    assert by_pyiceberg(mirror_of(lake)) == by_delta(lake, "kept")
    assert mirror_of(lake, "counts").mirrored() is None  # the process that has the lease mirrors it
    assert 0 <= numbers(first, 0)[BEHIND] < 5
    assert BEHIND not in numbers(second, 0)


def test_a_run_that_ends_does_a_last_round(lake: TestDriver) -> None:
    mirroring = Mirroring(Lake(lake.lake.root), [kept])
    kept_through(mirroring, status("kept"))
    pipe(lake, 30, 40)
    assert by_pyiceberg(mirror_of(lake)) != by_delta(lake, "kept")
    mirroring.end()
    assert by_pyiceberg(mirror_of(lake)) == by_delta(lake, "kept")


def test_a_catalog_that_is_away_makes_the_mirror_older_alone(
    lake: TestDriver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HEADRACE_ICEBERG_URI", "http://127.0.0.1:9")
    mirroring = Mirroring(Lake(lake.lake.root), [kept])
    (first,) = kept_through(mirroring, status("kept"))
    mirroring._began -= 1000
    (later,) = mirroring.keep([status("kept")])
    assert numbers(first, 0)[BEHIND] < 100 < numbers(later, 0)[BEHIND]
    mirroring.end()


def test_without_a_catalog_nothing_is_done(lake: TestDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_ICEBERG_URI")
    mirroring = Mirroring(Lake(lake.lake.root), [kept])
    (found,) = mirroring.keep([status("kept")])
    mirroring.end()
    assert (found.mirror, mirroring._thread.ident) == ({}, None)


def test_a_log_is_mirrored_if_it_is_named(lake: TestDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_ICEBERG_LOGS", '["readings"]')
    mirroring = Mirroring(Lake(lake.lake.root), [kept])
    (found,) = kept_through(mirroring, status("readings", kind="log"))
    assert BEHIND in found.mirror
    mirror = mirroring._mirrors.of_log("readings")
    assert mirror is not None
    assert sum(by_pyiceberg(mirror).values()) >= 30


def test_with_final_days_a_table_follows_when_one_more_day_is_final(
    lake: TestDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_ICEBERG_WHEN", "final_days")
    first = int(dt.datetime(2023, 11, 15, 12, tzinfo=dt.UTC).timestamp() * 1000)
    mirror = mirror_of(lake, "counts")
    mirroring = Mirroring(Lake(lake.lake.root), [counts])
    kept_through(mirroring, status("counts"))
    assert mirror.mirrored() is None
    kept_through(mirroring, status("counts", first))
    assert mirror.final_through() == "2023-11-14"
    known = by_pyiceberg(mirror)
    pipe(lake, 30, 90)
    for again in (mirroring, Mirroring(Lake(lake.lake.root), [counts])):  # and after a restart
        kept_through(again, status("counts", first + DAY_MS // 4))
        assert by_pyiceberg(mirror) == known
    kept_through(mirroring, status("counts", first + DAY_MS))
    assert by_pyiceberg(mirror) == by_delta(lake, "counts") != known
    found = mirror.mirrored()
    assert found is not None
    assert found[0].current_snapshot().summary[FINAL_THROUGH] == "2023-11-15"

"""What a person sees who looks at Dagster for the first time: tables that have rows, and figures of now."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assets.readings import reading_counts
from headrace import lake as lakes
from headrace.lake import NewFile, kinds
from headrace.lake.paths import Lake
from headrace.orchestration.events.current import CurrentTable
from headrace.orchestration.events.progress import Cadence, ProgressReporter
from headrace.orchestration.pipeline import pipeline_of
from headrace.streams.status.stream_status import StreamStatus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.dagster
PIPELINE = pipeline_of([reading_counts], partitions_start="2026-11-01")
RUNNING = StreamStatus("stream", "reading_counts", "running", None, 0, 5, 1.0, 0, 0.0, None, 4, {})


class Events:
    """Stands in for the context of a run: what it reports, and when."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self.instance, self.now = instance, 0.0
        self.told: list[tuple[float, Any]] = []
        self.away = False
        self.log = SimpleNamespace(info=print, warning=self._warn, error=print)

    def log_event(self, event: Any) -> None:
        if self.away:
            raise ConnectionError("The server closed the connection.")
        self.told.append((self.now, event))

    def of(self, kind: type) -> list[tuple[float, Any]]:
        return [(at, event) for at, event in self.told if isinstance(event, kind)]

    @staticmethod
    def _warn(text: str) -> None:
        raise AssertionError(text)


@pytest.fixture
def events() -> Iterator[Events]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Events(instance)


def test_the_table_of_figures_is_as_new_as_the_plots_and_says_that_the_stream_runs(events: Events) -> None:
    reporter = ProgressReporter(
        cast("Any", events),
        PIPELINE.versions(),
        PIPELINE.checks(),
        observe=Cadence(20, 600, 600),
        materialize=Cadence(60, 600, 600),
    )
    for second in range(4_000):
        events.now = second
        reporter.report([RUNNING], now=second, wall=second)
    seen, shown = events.of(dg.AssetObservation), events.of(dg.AssetMaterialization)
    plots = {at: event.metadata for at, event in seen}
    assert all(plots[at] == event.metadata for at, event in shown), "each comes with the point of the plots"
    ages = [min(at - older for older, _ in shown if older <= at) for at, _ in seen]
    assert max(ages) < 60
    assert not any(age for (at, _), age in zip(seen, ages, strict=True) if at > 660)
    assert len(seen) + len(shown) <= 60


def write(lake: Lake, number: int) -> None:
    """Add a row to the table."""
    uri = lake.table("reading_counts")
    rows = lakes.create(uri, pa.schema([("n", pa.int64())]), kinds.RESULTS)
    pq.write_table(pa.table({"n": [number]}), f"{uri.removeprefix('file:')}/part-{number}.parquet")
    file = NewFile(f"part-{number}.parquet", 100, '{"numRecords": 1}')
    lakes.TableWriter(rows, lakes.APPENDER).append([file], {"writer": "node/reading_counts"})


def follow(events: Events, lake: Lake) -> CurrentTable:
    return CurrentTable(cast("Any", events), PIPELINE, reading_counts, lake, every_seconds=600)


def test_a_table_is_materialized_within_seconds_of_its_first_rows_and_then_seldom(
    events: Events, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(f"file:{tmp_path}")
    monkeypatch.setattr("headrace.orchestration.events.current.time.monotonic", lambda: events.now)
    table = follow(events, lake)
    for second in range(1_000):
        events.now = second
        if second in (30, 100):
            write(lake, second)
        table.report()
    shown = events.of(dg.AssetMaterialization)
    assert [(30 <= at <= 35, event.metadata["rows"].value) for at, event in shown[:1]] == [(True, 1)]
    assert [event.metadata["rows"].value for _, event in shown] == [1, 2]
    assert all(event.partition is None for _, event in shown), "a day is complete when it is closed"


def test_a_table_that_dagster_did_not_take_is_materialized_when_it_is_back(
    events: Events, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, it counted as reported: its page showed no rows until others came."""
    lake, warned = Lake(f"file:{tmp_path}"), list[float]()
    monkeypatch.setattr("headrace.orchestration.events.current.time.monotonic", lambda: events.now)
    events.log.warning = lambda _: warned.append(events.now)
    table = follow(events, lake)
    write(lake, 1)
    for second in range(200):
        events.now, events.away = second, second < 100
        table.report()
    assert warned == [0, 60]
    assert [at for at, _ in events.of(dg.AssetMaterialization)] == [120]
    write(lake, 2)
    events.away = True
    table.report(last=True)
    events.away = False
    table.report(last=True)
    assert [event.metadata["rows"].value for _, event in events.of(dg.AssetMaterialization)] == [1, 2]

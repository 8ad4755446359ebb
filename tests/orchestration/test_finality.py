"""A final day, or hour, starts what depends on it, once: a plain asset, and a project of dbt."""

import datetime as dt
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import dagster as dg
import duckdb
import pytest

import headrace as hr
from headrace.errors import DescriptionError
from headrace.orchestration import build_definitions
from headrace.orchestration.events.finality import FinalParts
from headrace.orchestration.pipeline import Pipeline, pipeline_of
from headrace.testing import TestDriver
from tests.docs.documents import FENCE, ROOT

pytestmark = pytest.mark.dagster
GUIDE = ROOT / "docs" / "guides" / "final-days.md"
FINAL = dg.AssetKey(["final", "reading_counts"])
readings = hr.Topic("readings", key="sensor_id STRING", value="value DOUBLE")
counts = (
    readings.group_by("sensor_id")
    .window(hr.tumbling("10 minutes"), grace="5 minutes")
    .aggregate(n=hr.count())
    .suppress(hr.until_window_closes())
    .named("reading_counts")
)
totals = readings.group_by("sensor_id").aggregate(n=hr.count()).named("totals")


def ms(text: str) -> int:
    return round(dt.datetime.fromisoformat(f"{text}+00:00").timestamp() * 1000)


class Watch:
    """A stream's run, as far as it reports final parts."""

    def __init__(self, instance: dg.DagsterInstance, unit: Literal["day", "hour"]) -> None:
        self.instance = instance
        log = SimpleNamespace(warning=pytest.fail)
        context: Any = SimpleNamespace(
            instance=instance, log_event=instance.report_runless_asset_event, log=log
        )
        self.parts = FinalParts(context, pipeline(unit), counts)

    def until(self, text: str) -> list[str]:
        """Let stream time come to a moment. Out: all parts that are final."""
        self.parts.report(ms(text))
        return sorted(self.instance.get_materialized_partitions(FINAL))


def pipeline(unit: Literal["day", "hour"]) -> Pipeline:
    return pipeline_of([counts], partitions_start="2026-11-01", finals={"reading_counts": unit})


def test_a_day_is_final_once_its_last_window_is_closed_and_none_is_left_out() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        watch = Watch(instance, "day")
        assert watch.until("2026-11-11T00:04:59") == ["2026-11-09"]  # the first time the newest one alone
        assert watch.until("2026-11-11T00:05:00") == ["2026-11-09", "2026-11-10"]
        assert watch.until("2026-11-11T23:00:00") == ["2026-11-09", "2026-11-10"]
        after_an_outage = Watch(instance, "day")
        assert after_an_outage.until("2026-11-14T01:00:00") == [f"2026-11-{day:02}" for day in range(9, 14)]
        events = instance.fetch_materializations(FINAL, limit=100).records
        assert len(events) == 5  # each once


def test_an_hour_is_final_once_its_last_window_is_closed() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        watch = Watch(instance, "hour")
        assert watch.until("2026-11-11T10:04:59") == ["2026-11-11-08:00"]
        assert watch.until("2026-11-11T12:05:00")[1:] == [f"2026-11-11-{hour:02}:00" for hour in (9, 10, 11)]


def test_days_of_tables_that_have_none_are_refused() -> None:
    with pytest.raises(DescriptionError, match="finals: 'totals' has no final days") as caught:
        build_definitions(
            [counts, totals], partitions_start="2026-11-01", lake_root="file:/l", finals={"totals": "day"}
        )
    assert "reading_counts" in str(caught.value.hint)


@pytest.fixture
def lake(tmp_path: Path) -> Any:
    driver = TestDriver([counts])
    for day in (9, 10, 11, 12):
        for number in range(day):
            driver.pipe(
                "readings",
                key="a",
                value={"value": 1.0},
                timestamp_ms=ms(f"2026-11-{day:02}T12:00:00") + number,
            )
    driver.cut()
    yield driver
    driver.close()


def of_the_page(folder: Path, tables: str) -> dict[str, Any]:
    """The project of dbt that the guide shows, in a folder, and the guide's assets: only the lake's place is another.

    Out: the names that the guide's Python defines
    """
    names: dict[str, Any] = {}
    for block in FENCE.finditer(GUIDE.read_text(encoding="utf-8")):
        body = block["body"].replace("/data/lake/tables", tables)
        if file := re.match(r"(?:#|--) (daily/\S+)\n", body):
            (folder / file[1]).parent.mkdir(parents=True, exist_ok=True)
            (folder / file[1]).write_text(body)
        elif "automation_condition=once_final()" in body:
            exec(body, names)
    return names


def definitions(lake: TestDriver, folder: Path) -> dg.Definitions:
    """The pipeline, and the guide's two assets of each final day: a plain one, and one that runs dbt."""
    made = build_definitions(
        [counts], partitions_start="2026-11-01", lake_root=lake.lake.root, finals={"reading_counts": "day"}
    )
    names = of_the_page(folder, f"{lake.lake.root.removeprefix('file:')}/tables")
    return dg.Definitions.merge(made, dg.Definitions(assets=[names["daily_report"], names["daily_counts"]]))


class Daemon:
    """Evaluates conditions as Dagster's daemon does, and runs what they ask for."""

    def __init__(self, made: dg.Definitions, instance: dg.DagsterInstance) -> None:
        self.made, self.instance, self.cursor = made, instance, None

    def tick(self, *, run: bool = True) -> int:
        """Out: how many partitions were asked for."""
        found = dg.evaluate_automation_conditions(defs=self.made, instance=self.instance, cursor=self.cursor)
        self.cursor = found.cursor  # type: ignore[assignment]
        for name in ("daily_report", "daily_counts"):
            asset = self.made.get_assets_def(name)
            for key in sorted(filter(None, found.get_requested_partitions(dg.AssetKey(name)))):
                if run:
                    assert dg.materialize([asset], partition_key=key, instance=self.instance).success
        return found.total_requested


def test_each_final_day_starts_what_depends_on_it_once(
    lake: TestDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DBT_SEND_ANONYMOUS_USAGE_STATS", "false")
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")  # 14 hours ahead: noon of a day is the next day there
    with dg.DagsterInstance.ephemeral() as instance:

        def started() -> list[str]:
            return sorted(instance.get_materialized_partitions(dg.AssetKey("daily_report")))

        daemon, watch = Daemon(definitions(lake, tmp_path), instance), Watch(instance, "day")
        watch.until("2026-11-10T01:00:00")  # the 9th was final before anybody asked
        assert (daemon.tick(), daemon.tick()) == (0, 0)
        watch.until("2026-11-12T01:00:00")
        assert (daemon.tick(), daemon.tick()) == (4, 0)  # two days, two assets
        assert started() == ["2026-11-10", "2026-11-11"]
        # A backfill of the table, also of a day that is open, and a day that is reported again start nothing.
        for day in ("2026-11-10", "2026-11-12"):
            instance.report_runless_asset_event(dg.AssetMaterialization("reading_counts", partition=day))
        instance.report_runless_asset_event(dg.AssetMaterialization(FINAL, partition="2026-11-11"))
        assert (daemon.tick(), daemon.tick()) == (0, 0)
        Watch(instance, "day").until("2026-11-13T01:00:00")  # a new run of the stream
        assert daemon.tick() == 2
        assert started() == ["2026-11-10", "2026-11-11", "2026-11-12"]
    with duckdb.connect(str(tmp_path / "reports.duckdb")) as connection:
        found = connection.execute(
            "SELECT day::VARCHAR, windows, records FROM daily_counts ORDER BY day"
        ).fetchall()
    # The window of the 12th is open in the log of this test: no row of it is in the table yet.
    assert found == [("2026-11-10", 1, 10), ("2026-11-11", 1, 11)]


def test_a_run_that_failed_is_not_started_again_by_itself(lake: TestDriver, tmp_path: Path) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        daemon, watch = Daemon(definitions(lake, tmp_path), instance), Watch(instance, "day")
        daemon.tick()
        watch.until("2026-11-12T01:00:00")
        assert (daemon.tick(run=False), daemon.tick(run=False), daemon.tick(run=False)) == (2, 0, 0)

"""A final day, or hour, starts what depends on it, once: a plain asset, and a project of dbt."""

import datetime as dt
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import dagster as dg
import duckdb
import pytest

import headrace as hr
from headrace.errors import DescriptionError
from headrace.orchestration import build_definitions, once_final
from headrace.orchestration.events.finality import FinalParts
from headrace.orchestration.pipeline import Pipeline, pipeline_of
from headrace.testing import TestDriver

pytestmark = pytest.mark.dagster
PROJECT = Path(__file__).with_name("daily_dbt")
FINAL = dg.AssetKey(["final", "counts"])
readings = hr.Topic("readings", key="sensor_id STRING", value="value DOUBLE")
counts = (
    readings.group_by("sensor_id")
    .window(hr.tumbling("10 minutes"), grace="5 minutes")
    .aggregate(n=hr.count())
    .suppress(hr.until_window_closes())
    .named("counts")
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
    return pipeline_of([counts], partitions_start="2026-11-01", finals={"counts": unit})


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
    assert "counts" in str(caught.value.hint)


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


def definitions(lake: TestDriver, reports: Path, started: list[str]) -> dg.Definitions:
    """The pipeline, a plain asset of each final day, and a project of dbt that each final day runs."""
    made = build_definitions(
        [counts], partitions_start="2026-11-01", lake_root=lake.lake.root, finals={"counts": "day"}
    )
    days = pipeline("day").days

    @dg.asset(deps=[FINAL], partitions_def=days, automation_condition=once_final())
    def letter(context: dg.AssetExecutionContext) -> None:
        started.append(context.partition_key)

    @dg.asset(deps=[FINAL], partitions_def=days, automation_condition=once_final(), pool="dbt")
    def daily_counts(context: dg.AssetExecutionContext) -> None:
        dbt = Path(sys.executable).with_name("dbt")
        paths = [
            "--project-dir",
            str(PROJECT),
            "--profiles-dir",
            str(PROJECT),
            "--target-path",
            str(reports / "target"),
        ]
        words = [*paths, "--log-path", str(reports), "--vars", f"{{day: '{context.partition_key}'}}"]
        tables = lake.lake.root.removeprefix("file:") + "/tables"
        known = {"TABLES": tables, "REPORTS": str(reports), "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
        known["TZ"] = "Pacific/Kiritimati"  # 14 hours ahead: noon of a day is the next day there
        done = subprocess.run(
            [dbt, "run", *words], env=os.environ | known, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout

    return dg.Definitions.merge(made, dg.Definitions(assets=[letter, daily_counts]))


class Daemon:
    """Evaluates conditions as Dagster's daemon does, and runs what they ask for."""

    def __init__(self, made: dg.Definitions, instance: dg.DagsterInstance) -> None:
        self.made, self.instance, self.cursor = made, instance, None

    def tick(self, *, run: bool = True) -> int:
        """Out: how many partitions were asked for."""
        found = dg.evaluate_automation_conditions(defs=self.made, instance=self.instance, cursor=self.cursor)
        self.cursor = found.cursor  # type: ignore[assignment]
        for name in ("letter", "daily_counts"):
            asset = self.made.get_assets_def(name)
            for key in sorted(filter(None, found.get_requested_partitions(dg.AssetKey(name)))):
                if run:
                    assert dg.materialize([asset], partition_key=key, instance=self.instance).success
        return found.total_requested


def test_each_final_day_starts_what_depends_on_it_once(lake: TestDriver, tmp_path: Path) -> None:
    started: list[str] = []
    with dg.DagsterInstance.ephemeral() as instance:
        daemon, watch = Daemon(definitions(lake, tmp_path, started), instance), Watch(instance, "day")
        watch.until("2026-11-10T01:00:00")  # the 9th was final before anybody asked
        assert (daemon.tick(), daemon.tick()) == (0, 0)
        watch.until("2026-11-12T01:00:00")
        assert (daemon.tick(), daemon.tick()) == (4, 0)  # two days, two assets
        assert started == ["2026-11-10", "2026-11-11"]
        # A backfill of the table, also of a day that is open, and a day that is reported again start nothing.
        for day in ("2026-11-10", "2026-11-12"):
            instance.report_runless_asset_event(dg.AssetMaterialization("counts", partition=day))
        instance.report_runless_asset_event(dg.AssetMaterialization(FINAL, partition="2026-11-11"))
        assert (daemon.tick(), daemon.tick()) == (0, 0)
        Watch(instance, "day").until("2026-11-13T01:00:00")  # a new run of the stream
        assert daemon.tick() == 2
    assert started == ["2026-11-10", "2026-11-11", "2026-11-12"]
    with duckdb.connect(str(tmp_path / "reports.duckdb")) as connection:
        found = connection.execute(
            "SELECT day::VARCHAR, windows, records FROM daily_counts ORDER BY day"
        ).fetchall()
    # The window of the 12th is open in the log of this test: no row of it is in the table yet.
    assert found == [("2026-11-10", 1, 10), ("2026-11-11", 1, 11)]


def test_a_run_that_failed_is_not_started_again_by_itself(lake: TestDriver, tmp_path: Path) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        daemon, watch = Daemon(definitions(lake, tmp_path, []), instance), Watch(instance, "day")
        daemon.tick()
        watch.until("2026-11-12T01:00:00")
        assert (daemon.tick(run=False), daemon.tick(run=False), daemon.tick(run=False)) == (2, 0, 0)

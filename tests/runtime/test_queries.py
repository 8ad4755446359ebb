"""SQL and keyed reads give what `Views.read` gives: open windows, rows that are not in the table yet, deleted keys."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

import headrace as hr
from headrace import lake as lakes
from headrace.cli import app
from headrace.errors import TerminalError
from headrace.observe.keyed_reads import KeyedReads
from headrace.observe.sql import LakeSql
from headrace.observe.views import Views
from tests.runtime.line import Line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake

pytestmark = pytest.mark.spark

READINGS = hr.Topic(
    "readings", key="sensor_id STRING", value="sensor_id STRING, value DOUBLE", idle_timeout=None
)
BY_SENSOR = READINGS.with_column("half", "value / 2").group_by("sensor_id")
WINDOWS = BY_SENSOR.window(hr.tumbling("2 minutes"), grace="0 seconds").aggregate(
    n=hr.count(), h=hr.sum("half")
)
COUNTS, FINALS = WINDOWS.named("counts"), WINDOWS.suppress(hr.until_window_closes()).named("finals")
SESSIONS = (
    BY_SENSOR.window(hr.session("90 seconds"), grace="0 seconds").aggregate(n=hr.count()).named("visits")
)
TOTALS = BY_SENSOR.aggregate(n=hr.count(), h=hr.sum("half")).named("totals")
LATEST = READINGS.table("timestamp").named("latest")
BY_VALUE = LATEST.group_by("value").aggregate(sensors=hr.count()).named("by_value")
NODES = (COUNTS, FINALS, SESSIONS, TOTALS, LATEST, BY_VALUE)
CURRENT = (TOTALS, LATEST, BY_VALUE)


@pytest.fixture
def written(spark: SparkSession, lake: Lake) -> Lake:
    """Closed and open windows; of current rows some in the base, some changed or deleted since."""
    lines = [Line(spark, lake, node) for node in NODES]
    for cut in range(2):
        for minute in range(3):
            lines[0].pipe(f"2024-05-01 12:{3 * cut + minute:02}:00", f"s{minute}", float(minute))
        lines[0].pipe(f"2024-05-01 12:{3 * cut + 2:02}:30", "s1" if cut else "gone", None)
        lines[0].commit()
        for line in lines:
            line.fold()
            if not cut and line.node in CURRENT:
                line.runner.compact()
    return lake


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict() for row in frame.collect()), key=str)


def in_utc(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Spark gives times without a zone, in that of the machine."""
    return [
        {name: v.astimezone(dt.UTC) if isinstance(v, dt.datetime) else v for name, v in row.items()}
        for row in rows
    ]


def test_sql_and_keyed_reads_give_what_views_read_gives(spark: SparkSession, written: Lake) -> None:
    views = Views(spark, written)
    with LakeSql(written, NODES) as sql:
        for node in NODES:
            expected = in_utc(rows_of(views.read(node)))
            found = sql.query(f"SELECT * FROM {node.name}").to_pylist()
            assert expected
            assert sorted(in_utc(found), key=str) == sorted(expected, key=str), node.name
        _windows_that_are_open(sql, views)
        assert sql.query("SELECT count(*) AS n FROM logs.readings WHERE kind = 'record'").to_pylist() == [
            {"n": 8}
        ]
        joined = "SELECT t.n FROM totals t JOIN latest l USING (sensor_id) WHERE sensor_id = 's2'"
        assert sql.query(joined).to_pylist() == [{"n": 2}]
        with pytest.raises(TerminalError, match="DuckDB refuses the query"):
            sql.query("SELECT * FROM nothing_of_that_name")
    for node in CURRENT:
        _by_their_keys(views, node)
    assert views.get(LATEST, "gone") is None
    assert views.get(LATEST, "s1") is None
    with pytest.raises(hr.DescriptionError, match="sensor_id"):
        views.get(TOTALS, {"sensor": "s0"})
    with pytest.raises(hr.DescriptionError, match="'s0' is not a key of its rows"):
        views.get(COUNTS, "s0")


def _windows_that_are_open(sql: LakeSql, views: Views) -> None:
    for node in (COUNTS, FINALS, SESSIONS):
        expected = in_utc(rows_of(views.open_windows(node)))
        found = in_utc(sql.query(f"SELECT * FROM open_windows.{node.name}").to_pylist())
        assert expected
        assert sorted(found, key=str) == sorted(expected, key=str), node.name


def _by_their_keys(views: Views, node: Node) -> None:
    for row in rows_of(views.read(node)):
        found = views.get(node, [row[name] for name in node.key])
        assert found is not None
        assert in_utc([found]) == in_utc([row])


def test_a_key_is_read_in_whatever_file_it_lies_and_not_read_twice(spark: SparkSession, lake: Lake) -> None:
    line = Line(spark, lake, TOTALS)
    reads = KeyedReads(lake)
    assert "no table" in str(_refusal(KeyedReads(type(lake)(f"{lake.root}/nowhere"))))
    for sensor in ("a", "b", "a"):
        line.pipe("2024-05-01 12:00:00", sensor)
        line.commit()
        line.fold()
        line.runner.settle()
    assert reads.get(TOTALS, "a") == {"sensor_id": "a", "n": 2, "h": 1.0}
    held = reads._hashes.bytes
    assert held > 0
    assert reads.get(TOTALS, "b") == {"sensor_id": "b", "n": 1, "h": 0.5}
    assert reads.get(TOTALS, "c") is None
    lakes.forget()
    assert KeyedReads(lake).get(TOTALS, {"sensor_id": "a"}) == reads.get(TOTALS, "a")


def _refusal(reads: KeyedReads) -> TerminalError:
    with pytest.raises(TerminalError) as refused:
        reads.get(TOTALS, "a")
    return refused.value


def test_the_command_line_answers_without_spark(
    spark: SparkSession, written: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.cli.console.deployment.session", None)
    told = ["--pipeline", __name__, "--lake", written.root]
    monkeypatch.setattr("headrace.cli.console.deployment.load_pipeline", lambda module: list(NODES))
    run = CliRunner().invoke
    listed = run(app, ["sql", *told]).stdout.split()
    assert listed[:2] == ['"counts"', '"finals"']
    assert "open_windows.counts" in listed
    assert 'logs."readings"' in listed
    answer = run(app, ["sql", "SELECT n, h FROM totals WHERE sensor_id = 's2'", "--output", "json", *told])
    assert [json.loads(line) for line in answer.stdout.splitlines()] == [{"n": 2, "h": 2.0}]
    shown = run(app, ["sql", "SELECT sensor_id, n FROM totals ORDER BY 1", "--rows", "1", *told]).stdout
    assert shown.splitlines() == [
        "sensor_id  n",
        "─────────  ─",
        "s0         2",
        "… and 2 rows more (--rows)",
    ]
    assert json.loads(run(app, ["get", "totals", "s0", *told]).stdout) == {
        "sensor_id": "s0",
        "n": 2,
        "h": 0.0,
    }
    gone = run(app, ["get", "latest", "gone", *told])
    assert gone.exit_code == 1
    assert gone.stdout == "Node 'latest' has no row for the key gone.\n"  # before: nothing
    assert run(app, ["sql", "show tables;", *told]).stdout.split()[2:4] == ['"counts"', '"finals"']
    misspelt = run(app, ["sql", "SELECT * FROM totalls", *told]).exception
    assert "Did you mean 'totals'?" in str(misspelt)  # before: "Did you mean "pg_tables"?"
    assert "pg_" not in str(misspelt)

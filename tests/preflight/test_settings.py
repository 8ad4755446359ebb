"""Every setting is typed and tried; secrets are not shown."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

import headrace as hr
from headrace.cli import app
from headrace.errors import TerminalError
from headrace.local.servers.broker_config import HOST, free_port
from headrace.mirror.catalog import open_catalog
from headrace.preflight.databases import check_databases
from headrace.preflight.spark import check_spark
from headrace.settings import IcebergSettings, KafkaSettings, SparkSettings, StreamSettings
from headrace.settings.secret_urls import require_escaped
from headrace.sinks.postgres_session import connect
from headrace.spark.session import configured

pytestmark = pytest.mark.fast


def test_settings_have_the_names_that_spark_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_SPARK_EXECUTOR_MEMORY", "2g")
    monkeypatch.setenv("HEADRACE_SPARK_CONF", '{"spark.task.maxFailures": "8"}')
    assert SparkSettings().spark_settings == {"spark.executor.memory": "2g", "spark.task.maxFailures": "8"}


@pytest.mark.parametrize(
    ("given", "tasks"),
    [
        ({}, "16"),
        ({"CORES_MAX": "6"}, "6"),
        ({"EXECUTORS": "2", "EXECUTOR_CORES": "3"}, "6"),
        ({"EXECUTORS": "4"}, "4"),
        ({"CORES_MAX": "1"}, "2"),
        ({"CORES_MAX": "6", "CONF": '{"spark.sql.shuffle.partitions": "9"}'}, "9"),
        ({"MASTER": "local[3]", "CORES_MAX": "6"}, "3"),
    ],
)
def test_a_shuffle_has_as_many_tasks_as_a_run_has_cores(
    given: dict[str, str], tasks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ({"MASTER": "spark://master:7077"} | given).items():
        monkeypatch.setenv(f"HEADRACE_SPARK_{name}", value)
    assert configured([])["spark.sql.shuffle.partitions"] == tasks


def test_one_stream_may_differ_from_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_STREAM_TRIGGER_MS", "700")
    monkeypatch.setenv("HEADRACE_STREAM_OVERRIDES", '{"slow": {"trigger_ms": 5000, "standby": true}}')
    settings = StreamSettings()
    assert (settings.of("streams").trigger_ms, settings.of("slow").trigger_ms) == (700, 5000)
    assert (settings.of("streams").standby, settings.of("slow").standby) == (False, True)


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("HEADRACE_STREAM_TRIGGER_MS", "fast", "HEADRACE_STREAM_TRIGGER_MS: Input should be a valid integer"),
        ("HEADRACE_STREAM_LEASE_SECONDS", "1", "HEADRACE_STREAM_LEASE_SECONDS: Input should be greater"),
        ("HEADRACE_STATE_COPIES_BYTES", "-1", "HEADRACE_STATE_COPIES_BYTES: Input should be greater"),
        (
            "HEADRACE_STREAM_OVERRIDES",
            '{"streams": {"triger_ms": 5}}',
            "HEADRACE_STREAM_OVERRIDES: Extra inputs",
        ),
        ("HEADRACE_SPARK_CONF", "no JSON", "error parsing value for HEADRACE_SPARK_CONF"),
        (
            "HEADRACE_KAFKA_SECURITY_PROTOCOL",
            "SASL-SSL",
            "HEADRACE_KAFKA_SECURITY_PROTOCOL: Input should be 'PLAINTEXT'",
        ),
        ("HEADRACE_KAFKA_SASL_MECHANISM", "SCRAM", "HEADRACE_KAFKA_SASL_MECHANISM: Input should be 'PLAIN'"),
    ],
)
def test_a_value_of_the_wrong_kind_names_its_variable(
    variable: str, value: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    refused = CliRunner().invoke(app, ["config", "show"])
    assert refused.exit_code != 0
    assert told in str(refused.exception)


def test_show_hides_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_KAFKA_PASSWORD", "not-this-one")
    shown = CliRunner().invoke(app, ["config", "show"]).stdout
    assert "HEADRACE_KAFKA_PASSWORD=***" in shown
    assert "not-this-one" not in shown


def test_a_run_that_reads_its_settings_itself_names_the_variable_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_STREAM_LEASE_SECONDS", "never")
    with pytest.raises(TerminalError, match="HEADRACE_STREAM_LEASE_SECONDS: Input should be a valid number"):
        StreamSettings()
    with pytest.raises(TerminalError, match="HEADRACE_KAFKA_SASL_MECHANISM"):
        KafkaSettings.model_validate({"sasl_mechanism": "GSSAPI"})


def test_a_master_that_does_not_answer_and_one_of_no_known_form_are_named() -> None:
    port = free_port()
    *_, away = check_spark(SparkSettings(master=f"spark://{HOST}:{port}"))
    assert f"Nothing answers at {HOST}:{port}." in str(away)
    *_, odd = check_spark(SparkSettings(master="mesos://somewhere"))
    assert "HEADRACE_SPARK_MASTER" in (odd.fix or "")
    *_, neither = check_spark(SparkSettings(master=f"spark://{HOST}:{port},{HOST}:{free_port()}"))
    assert f"Nothing answers at {HOST}:{port} or {HOST}:" in str(neither)
    with socket.create_server((HOST, 0)) as standby:
        *_, one = check_spark(
            SparkSettings(master=f"spark://{HOST}:{port},{HOST}:{standby.getsockname()[1]}")
        )
    assert one.ok
    *_, here = check_spark(SparkSettings())
    assert here.ok


def test_databases_that_do_not_let_us_in_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = f"postgresql://dagster:not-this-one@{HOST}:{free_port()}/dagster"
    monkeypatch.setenv("DAGSTER_POSTGRES_URL", secret)
    monkeypatch.delenv("HEADRACE_POSTGRES_DSN", raising=False)
    topic = hr.Topic("readings", key="sensor_id STRING", value="value DOUBLE")
    node = topic.group_by("sensor_id").aggregate(n=hr.count()).named("totals").to(hr.PostgresSink("totals"))
    ours, sinks = check_databases([node])
    assert "does not let this client in" in str(ours)
    assert "DAGSTER_POSTGRES_URL" in (ours.fix or "")
    assert "not-this-one" not in str(ours)
    assert "HEADRACE_POSTGRES_DSN is not set" in str(sinks)


@pytest.mark.parametrize(
    "password", ["pa@not-this-one", "pa@not/this-one", "pa/not@this-one", "p?a@not-this-one"]
)
def test_a_password_is_told_in_no_part(password: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, what stands after an @ of a password was told as the host that does not answer."""
    url = f"postgresql+psycopg://user:{password}@{HOST}:{free_port()}/db"
    monkeypatch.setenv("DAGSTER_POSTGRES_URL", url.replace("+psycopg", ""))
    (ours,) = check_databases([])
    assert "DAGSTER_POSTGRES_URL has more than one @" in str(ours)
    assert "%40" in (ours.fix or "")
    monkeypatch.setenv("HEADRACE_ICEBERG_URI", url)
    with pytest.raises(TerminalError, match="HEADRACE_ICEBERG_URI has more than one @") as refused:
        open_catalog(IcebergSettings(), "file:/tmp/lake")
    with pytest.raises(TerminalError, match="of PostgreSQL has more than one @") as sink:
        connect(url.replace("+psycopg", ""))
    told = f"{ours} {ours.fix} {refused.value} {sink.value}"
    assert not any(part in told for part in ("not", "this-one"))


@pytest.mark.parametrize(
    "url",
    [
        *("postgresql://user:p%40ss@host/db", "postgresql://host/db?user=a@b&passfile=c@d"),
        *("sqlite:////data/a@b/c@d.db", "https://catalog/v1", "host=h password=p@q user=a@b"),
    ],
)
def test_other_connection_strings_may_hold_an_at(url: str) -> None:
    require_escaped(url, "A_VARIABLE")


def test_databases_that_the_project_does_not_use_are_not_tried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("DAGSTER_POSTGRES_URL", raising=False)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    assert not [*check_databases([])]  # before: WRONG, without DAGSTER_POSTGRES_URL and DAGSTER_HOME
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    assert [finding.ok for finding in check_databases([])] == [True]
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "gone"))
    (gone,) = check_databases([])
    assert "which is no folder" in str(gone)

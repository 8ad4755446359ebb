"""Storage settings: one environment for obstore, delta-rs and Spark, and no secret in any of their settings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.errors import TerminalError
from headrace.lake import storage
from headrace.spark.session import spark_conf

pytestmark = pytest.mark.fast
SECRETS = {
    "AWS_ACCESS_KEY_ID": "AKIAKEY",
    "AWS_SECRET_ACCESS_KEY": "verysecret",
    "AWS_SESSION_TOKEN": "passing",
}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in storage.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")


@pytest.mark.parametrize(
    ("uri", "delta", "spark"),
    [
        ("file:/lake/a b", "/lake/a b", "file:/lake/a b"),
        ("file:///lake", "/lake", "file:///lake"),
        ("/lake", "/lake", "/lake"),
        ("s3://bucket/lake", "s3://bucket/lake", "s3a://bucket/lake"),
        ("s3a://bucket/lake/", "s3://bucket/lake", "s3a://bucket/lake/"),
        ("abfss://c@account/lake", "abfss://c@account/lake", "abfss://c@account/lake"),
    ],
)
def test_each_library_has_its_name_for_a_place(uri: str, delta: str, spark: str) -> None:
    assert storage.delta_uri(uri) == delta
    assert storage.delta_uri(delta) == delta
    assert storage.spark_uri(uri) == spark
    assert storage.spark_uri(spark) == spark
    assert storage.is_local(uri) == delta.startswith("/")


def test_a_local_uri_is_a_path() -> None:
    assert storage.local_path("file:/lake/x%20y") == Path("/lake/x%20y")
    assert storage.storage_options("file:/lake") == storage.hadoop_settings("file:/lake") == {}


@pytest.mark.parametrize("uri", ["hdfs://name/lake", "dbfs:/lake", "s3:///lake"])
def test_storage_that_cannot_hold_a_lake_is_refused_with_what_can(uri: str) -> None:
    with pytest.raises(TerminalError, match=re.escape(uri)) as refusal:
        storage.delta_uri(uri)
    assert "s3://bucket/prefix" in str(refusal.value)


def test_no_setting_holds_a_secret() -> None:
    root = "s3://bucket/lake"
    store, path = storage.store_of(root)
    assert path == "lake"
    conf = spark_conf(lake=root)
    assert conf["spark.hadoop.fs.s3a.bucket.bucket.endpoint"] == "http://127.0.0.1:9000"
    assert conf["spark.hadoop.fs.s3a.bucket.bucket.path.style.access"] == "true"
    said = f"{conf} {storage.storage_options(root)} {store!r} {store.__dict__ if hasattr(store, '__dict__') else ''}"
    assert not [secret for secret in SECRETS.values() if secret in said]


def test_a_store_is_opened_once() -> None:
    assert storage.store_of("s3://bucket/a")[0] is storage.store_of("s3a://bucket/b/c")[0]


def test_plain_http_is_allowed_only_for_an_endpoint_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert storage.storage_options("s3://b/lake") == {"aws_conditional_put": "etag", "aws_allow_http": "true"}
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://s3.example.com")
    assert storage.storage_options("s3://b/lake") == {"aws_conditional_put": "etag"}


def test_without_an_endpoint_spark_finds_the_bucket_by_its_region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    settings = storage.hadoop_settings("s3://b/lake")
    assert settings["spark.hadoop.fs.s3a.bucket.b.endpoint.region"] == "eu-west-1"
    assert not [name for name in settings if name.endswith((".endpoint", "path.style.access"))]


def test_executors_elsewhere_get_the_environment_and_spark_redacts_all_that_is_secret_in_it() -> None:
    conf = storage.executor_environment()
    for name, value in SECRETS.items():
        assert conf[f"spark.executorEnv.{name}"] == value
        assert re.search(conf["spark.redaction.regex"], f"spark.executorEnv.{name}")


def test_a_configuration_that_is_kept_never_holds_them() -> None:
    kept = spark_conf(master="spark://somewhere:7077", lake="s3://b")
    assert not [name for name in kept if "executorEnv" in name]


def test_a_process_without_credentials_hands_none_to_executors(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*SECRETS, "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name)
    assert storage.executor_environment() == {}


def test_hadoop_asks_for_a_service_account_only_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its provider raises where its variable is not set, and hides the role of the machine behind it."""

    def asked() -> list[str]:
        providers = storage.hadoop_settings("s3://b/lake")[
            "spark.hadoop.fs.s3a.bucket.b.aws.credentials.provider"
        ]
        return [provider.rpartition(".")[2] for provider in providers.split(",")]

    assert asked() == ["EnvironmentVariableCredentialsProvider", "IAMInstanceCredentialsProvider"]
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/run/token")
    assert asked()[1:] == ["WebIdentityTokenFileCredentialsProvider", "IAMInstanceCredentialsProvider"]

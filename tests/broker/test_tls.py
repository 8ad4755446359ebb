"""A broker that speaks TLS, is signed by a private authority, and asks for its clients' certificates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer

import headrace as hr
from headrace.lake.paths import Lake
from headrace.local.servers.topics import create_topics
from headrace.spark.brokers.kafka_client import KafkaReader
from headrace.spark.brokers.kafka_ranges import KafkaRanges
from headrace.spark.kafka import KafkaSettings, KafkaTopic
from headrace.streams.stream_runtime import StreamRuntime
from tests.broker.certificates import PASSWORD, Certificates, certificates
from tests.broker.harness import produce, refusal, rows_of
from tests.broker.pipeline import counts_of, minutes
from tests.broker.second_listener import SecondListener
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.broker


class TlsBroker(SecondListener):
    """Its second listener is for clients with a certificate."""

    def __init__(self, data_dir: Path, made: Certificates) -> None:
        properties = "ssl.client.auth=required\nssl.keystore.type=PEM\nssl.truststore.type=PEM\n"
        properties += f"ssl.keystore.location={made.broker}\nssl.truststore.location={made.authority}\n"
        super().__init__(data_dir, "SSL", "SSL", properties)
        self.made = made


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    folder = tmp_path_factory.mktemp("tls")
    with TlsBroker(folder / "kafka", certificates(folder / "certificates")) as running:
        names = [f"{kind}-{case}" for kind in ("readings", "counts") for case in ("of-0", "of-200000", "2")]
        create_topics(running.bootstrap_servers, dict.fromkeys(["readings", *names], 1))
        yield running


@pytest.fixture
def settings(broker: TlsBroker, monkeypatch: pytest.MonkeyPatch) -> KafkaSettings:
    """As an operator sets them, in the environment."""
    for name, value in given(broker).items():
        monkeypatch.setenv(f"HEADRACE_KAFKA_{name.upper()}", value)
    return KafkaSettings()


def given(broker: TlsBroker) -> dict[str, str]:
    return {
        "bootstrap_servers": broker.second_servers,
        "security_protocol": "SSL",
        "ssl_ca_location": str(broker.made.authority),
        "ssl_certificate_location": str(broker.made.client),
        "ssl_key_location": str(broker.made.client_key),
        "ssl_key_password": PASSWORD,
    }


@pytest.mark.parametrize("small_records", [0, 200_000], ids=["Spark's tasks read", "the run's process reads"])
def test_log_and_sink_go_over_tls_with_a_private_authority_and_a_client_certificate(
    spark: SparkSession, broker: TlsBroker, settings: KafkaSettings, tmp_path: Path, small_records: int
) -> None:
    settings = settings.model_copy(update={"small_records": small_records})
    source, target = f"readings-of-{small_records}", f"counts-of-{small_records}"
    flows_over_tls(spark, broker, settings, Lake(f"file:{tmp_path}/lake"), source, target)


def test_settings_that_are_given_in_code_reach_log_and_sink_alike(
    spark: SparkSession, broker: TlsBroker, tmp_path: Path
) -> None:
    """The environment names no broker: a sink that read it there would find nobody."""
    settings = KafkaSettings.model_validate(given(broker))
    flows_over_tls(spark, broker, settings, Lake(f"file:{tmp_path}/lake"), "readings-2", "counts-2")


def flows_over_tls(
    spark: SparkSession, broker: TlsBroker, settings: KafkaSettings, lake: Lake, source: str, target: str
) -> None:
    produce(broker, source, minutes(0, 0, 9))
    node = counts_of(source).to(hr.KafkaSink(target))
    runtime = StreamRuntime(spark, lake, [node], kafka=settings, trigger_ms=100)
    try:
        runtime.run_until_caught_up(PATIENCE_S, poll_seconds=0.1)
    finally:
        runtime.drain(timeout_seconds=PATIENCE_S)
    log = spark.read.format("delta").load(lake.log(source)).where("offset IS NOT NULL")
    assert [row[0] for row in rows_of(log.select("offset"))] == [*range(10)]
    assert delivered(broker, target) > 0


def delivered(broker: TlsBroker, topic: str) -> int:
    """The records that the sink has sent, read by the plain listener."""
    reading = {"group.id": "test", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, **reading})
    consumer.subscribe([topic])
    try:
        return len(consumer.consume(1, timeout=PATIENCE_S))
    finally:
        consumer.close()


def test_what_goes_to_a_task_shows_no_password(
    spark: SparkSession, broker: TlsBroker, settings: KafkaSettings
) -> None:
    topic = hr.Topic("readings", value="value DOUBLE")
    ranges = KafkaRanges(spark, KafkaReader.of(topic, settings), {0: (0, 0)})
    shown = [repr(ranges), repr(settings), str(settings)]
    assert not any(PASSWORD in text for text in shown)


def test_what_tls_refuses_is_said_in_the_error(
    broker: TlsBroker, settings: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.spark.kafka.TIMEOUT_SECONDS", 3)
    stranger = settings.model_copy(update={"ssl_ca_location": None})
    refusal("certificate verify failed", KafkaTopic("readings", stranger).partitions)

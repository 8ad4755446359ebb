"""`headrace config check` names the setting that keeps a client from Kafka, and the right that it lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr

import headrace as hr
from headrace.local.servers.broker_config import HOST, free_port
from headrace.local.servers.topics import create_topics
from headrace.preflight.kafka import check_kafka
from headrace.settings import KafkaSettings
from headrace.spark.kafka import BrokerUnreachableError, KafkaTopic
from tests.broker.harness import refusal, set_topic
from tests.preflight.conftest import PASSWORD, USER, SaslBroker
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace.description import Node
    from headrace.preflight import Finding

pytestmark = pytest.mark.broker
AWAY = 0.25  # seconds: nobody answers however long one waits


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """How many seconds a client waits for an answer: none comes where nobody is, and a broker beside it is quick."""

    def wait(seconds: float) -> None:
        monkeypatch.setattr("headrace.preflight.kafka.SECONDS", seconds)
        monkeypatch.setattr("headrace.spark.kafka.TIMEOUT_SECONDS", seconds)

    return wait


def node(topic: str, sink: str | None = None) -> Node:
    readings = hr.Topic(topic, key="sensor_id STRING", value="sensor_id STRING, value DOUBLE")
    totals = readings.group_by("sensor_id").aggregate(n=hr.count()).named("totals")
    return totals if sink is None else totals.to(hr.KafkaSink(sink))


def settings(broker: SaslBroker, password: str = PASSWORD) -> KafkaSettings:
    return KafkaSettings(
        bootstrap_servers=broker.second_servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        username=USER,
        password=SecretStr(password),
    )


def wrong(findings: list[Finding]) -> list[str]:
    return [str(finding) for finding in findings if not finding.ok]


def test_who_may_read_and_write_what_it_needs_is_told_so(broker: SaslBroker) -> None:
    plain = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
    found = [*check_kafka([node("readings", "counts")], plain)]
    assert not wrong(found)
    assert [finding.what for finding in found][1:] == ["topic 'counts'", "topic 'readings'"]
    assert "2 partition(s)" in found[2].result


def test_a_topic_that_matches_a_pattern_and_is_not_read_is_named(broker: SaslBroker) -> None:
    plain = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
    create_topics(broker.bootstrap_servers, {"shop-at": 1, "shop-de": 1, "shops": 1})
    names = ["shop-at", "shop-de"]
    for read, said in ((names[:1], "shop-de matches, and nothing reads it"), (names, "2 topic(s) match")):
        node = hr.topics(read, pattern="shop-.*", value="value DOUBLE").named("shops")
        (found,) = [each for each in check_kafka([node], plain) if each.what == "topics like 'shop-.*'"]
        assert said in found.result
        assert found.ok == (read == names)


def test_rights_that_a_client_lacks_are_named(broker: SaslBroker) -> None:
    (sink,) = wrong([*check_kafka([node("readings", "counts")], settings(broker))])
    assert "topic 'counts': Topic 'counts': this client may not write." in sink
    assert "operations Describe, Write on the topic" in sink
    (hidden,) = wrong([*check_kafka([node("secrets")], settings(broker))])
    assert "operations Describe, Read on the topic" in hidden


def test_a_topic_that_is_missing_is_named(broker: SaslBroker) -> None:
    plain = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
    (missing,) = wrong([*check_kafka([node("nowhere")], plain)])
    assert "There is no topic 'nowhere'." in missing


def test_a_compacted_topic_that_would_lose_rows_is_named(broker: SaslBroker) -> None:
    """Before, the stream stopped at its first delivery."""
    plain = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
    create_topics(broker.bootstrap_servers, {"compacted": 1})
    set_topic(broker, "compacted", {"cleanup.policy": "compact"})
    assert not wrong([*check_kafka([node("readings", "compacted")], plain)])
    readings = hr.Topic("readings", key="sensor_id STRING", value="value DOUBLE")
    changes = readings.table().changes().to(hr.KafkaSink("compacted")).named("moves")
    (lossy,) = wrong([*check_kafka([changes], plain)])
    assert "Kafka's topic 'compacted' is compacted (cleanup.policy)" in lossy
    assert "Set cleanup.policy=delete" in lossy


def test_wrong_credentials_and_a_broker_that_is_away_are_told_apart(
    broker: SaslBroker, soon: Callable[[float], None]
) -> None:
    soon(2)
    (refused,) = until(
        lambda: [*check_kafka([node("readings")], settings(broker, "wr0ng"))],
        lambda found: "refuses the credentials" in str(found[0]),
    )
    assert "HEADRACE_KAFKA_USERNAME" in (refused.fix or "")
    assert "wr0ng" not in str(refused)
    soon(AWAY)
    away = KafkaSettings(bootstrap_servers=f"{HOST}:{free_port()}")
    (silent,) = [*check_kafka([node("readings")], away)]
    assert f"Kafka at {away.bootstrap_servers} does not answer." in silent.result
    assert "HEADRACE_KAFKA_BOOTSTRAP_SERVERS" in (silent.fix or "")


@pytest.mark.parametrize(
    "protocol",
    [*(pytest.param(name, marks=pytest.mark.long) for name in ("PLAINTEXT", "SASL_PLAINTEXT")), "SASL_SSL"],
)
def test_a_broker_that_is_away_refuses_nobody(protocol: Any, soon: Callable[[float], None]) -> None:
    """The client writes the protocol before the address, so the words `sasl` and `ssl` say nothing."""
    soon(AWAY)
    away = KafkaSettings(
        bootstrap_servers=f"{HOST}:{free_port()}",
        security_protocol=protocol,
        sasl_mechanism="PLAIN",
        username=USER,
        password=SecretStr(PASSWORD),
    )
    (silent,) = [*check_kafka([node("readings")], away)]
    assert "does not answer" in silent.result
    assert "HEADRACE_KAFKA_BOOTSTRAP_SERVERS" in (silent.fix or "")
    with pytest.raises(BrokerUnreachableError, match="does not answer"):
        KafkaTopic("readings", away).partitions()


def test_a_stream_with_wrong_credentials_is_told_so(
    broker: SaslBroker, soon: Callable[[float], None]
) -> None:
    soon(2)
    said = refusal("refuses the credentials", KafkaTopic("readings", settings(broker, "wr0ng")).partitions)
    assert "HEADRACE_KAFKA_PASSWORD" in said.replace("…_", "HEADRACE_KAFKA_")


def test_settings_with_which_no_client_begins_are_findings_too(
    tmp_path: Path, soon: Callable[[float], None]
) -> None:
    soon(AWAY)
    broken = tmp_path / "ca.pem"
    broken.write_text("-----BEGIN CERTIFICATE-----\nnothing\n-----END CERTIFICATE-----\n")
    for given, told in (
        ({"ssl_ca_location": "/nowhere/ca.pem"}, "ssl_ca_location '/nowhere/ca.pem' cannot be read"),
        ({"ssl_ca_location": str(broken)}, "the client does not take its settings"),
        ({"ssl_key_location": str(broken)}, "a key without its certificate"),
    ):
        own = KafkaSettings(security_protocol="SSL", **given)  # type: ignore[arg-type]
        (wrong_one,) = wrong([*check_kafka([node("readings")], own)])
        assert told in wrong_one
        assert "SSL_" in wrong_one.upper()
    mechanism = hr.KafkaSink("counts", options={"sasl.mechanism": "NO-SUCH", "security.protocol": "SASL_SSL"})
    odd = node("readings").to(mechanism)
    found = wrong([*check_kafka([odd], KafkaSettings(bootstrap_servers=f"{HOST}:{free_port()}"))])
    assert len(found) == 2, "the topic's broker is away, and the sink's client does not begin"
    assert any("the client does not take its settings" in each for each in found)


def test_an_option_of_a_topic_that_its_client_does_not_know_is_named(broker: SaslBroker) -> None:
    readings = hr.Topic(
        "readings", value="value DOUBLE", options={"fetch.max.wait.ms": "1"}
    )  # the JVM's name
    (refused,) = wrong(
        [*check_kafka([readings.group_by("value").aggregate(n=hr.count()).named("n")], settings(broker))]
    )
    assert "the client does not take its settings" in refused
    assert "fetch.max.wait.ms" in refused


def test_a_sink_to_the_own_topic_is_named_once_the_settings_tell_the_broker(
    soon: Callable[[float], None],
) -> None:
    soon(AWAY)
    away = KafkaSettings(bootstrap_servers="127.0.0.1:1")
    loop = hr.KafkaSink("readings", options={"bootstrap.servers": "localhost:1"})
    readings = hr.Topic("readings", key="sensor_id STRING", value="value DOUBLE").where("value > 1").to(loop)
    first = next(iter(check_kafka([readings.named("loop")], away)))
    assert "the node reads this topic" in str(first)

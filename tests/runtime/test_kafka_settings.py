"""How to reach Kafka, as both clients are told."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from dagster import EnvVar

import headrace as hr
from headrace.errors import TerminalError
from headrace.spark.kafka import KafkaSettings, KafkaTopic
from headrace.spark.kafka_source import source_options
from tests.broker.certificates import PASSWORD, Certificates, certificates

pytestmark = pytest.mark.fast


@pytest.fixture
def made(tmp_path: Path) -> Certificates:
    return certificates(tmp_path / "made")


def test_a_private_authority_reaches_both_clients(made: Certificates) -> None:
    settings = KafkaSettings(security_protocol="SSL", ssl_ca_location=str(made.authority))
    assert settings.client_options()["ssl.ca.location"] == str(made.authority)
    options = settings.spark_options()
    assert options["kafka.ssl.truststore.type"] == "PEM"
    assert options["kafka.ssl.truststore.location"] == str(made.authority)


def test_a_plain_key_beside_its_certificate_stays_in_its_file(made: Certificates) -> None:
    both = str(made.broker)
    options = KafkaSettings(ssl_certificate_location=both, ssl_key_location=both).spark_options()
    assert options["kafka.ssl.keystore.location"] == both
    assert "kafka.ssl.keystore.key" not in options


def test_a_key_of_the_old_form_is_converted_for_the_jvm(made: Certificates, tmp_path: Path) -> None:
    old, key = tmp_path / "old.pem", rsa.generate_private_key(65537, 2048)
    form = serialization.PrivateFormat.TraditionalOpenSSL
    old.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    settings = KafkaSettings(ssl_certificate_location=str(made.client), ssl_key_location=str(old))
    assert settings.client_options()["ssl.key.location"] == str(old)
    assert settings.spark_options()["kafka.ssl.keystore.key"].startswith("-----BEGIN PRIVATE KEY-----")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"ssl_ca_location": "/nowhere/ca.pem"}, "ssl_ca_location '/nowhere/ca.pem' cannot be read"),
        ({"ssl_certificate_location": "{client}"}, "a certificate without its key"),
        ({"ssl_key_location": "{client_key}"}, "a key without its certificate"),
        (
            {
                "ssl_certificate_location": "{client}",
                "ssl_key_location": "{client_key}",
                "ssl_key_password": "wrong one",
            },
            "the private key in ssl_key_location .* cannot be read",
        ),
        (
            {"ssl_certificate_location": "{client}", "ssl_key_location": "{client_key}"},
            "the private key in ssl_key_location .* cannot be read",
        ),
    ],
)
def test_what_cannot_work_is_refused_by_its_name_and_without_a_secret(
    made: Certificates, given: dict[str, str], says: str
) -> None:
    places = {
        name: value.format(client=made.client, client_key=made.client_key) for name, value in given.items()
    }
    with pytest.raises(TerminalError, match=says) as refused:
        KafkaSettings.model_validate(places).spark_options()
    assert "wrong one" not in str(refused.value)


def test_a_topic_overrides_the_connection_for_both_clients_and_adds_what_is_the_jvms() -> None:
    options = {"ssl.ca.location": "/theirs.pem", "sasl.password": "secret", "fetch.min.bytes": "7"}
    settings = KafkaSettings(bootstrap_servers="one:9092", username="u", ssl_ca_location="/ours.pem")
    of_topic = settings.of(options)
    assert (of_topic.ssl_ca_location, of_topic.bootstrap_servers) == ("/theirs.pem", "one:9092")
    assert settings.ssl_ca_location == "/ours.pem"
    assert "secret" not in repr(of_topic)
    topic = hr.Topic(
        "readings", value="value DOUBLE", options={"sasl.password": "secret", "fetch.min.bytes": "7"}
    )
    found = source_options(topic, KafkaSettings(username="u"))
    assert found["kafka.fetch.min.bytes"] == "7"
    assert found["kafka.fetch.max.wait.ms"] == "1"
    assert 'password="secret"' in found["kafka.sasl.jaas.config"]
    assert "kafka.sasl.password" not in found


def test_a_secret_may_be_named_by_dagsters_env_var_and_is_read_when_it_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = KafkaSettings.model_validate({"username": "u", "password": EnvVar("OUR_PASSWORD")})
    monkeypatch.setenv("OUR_PASSWORD", PASSWORD)
    assert settings.client_options()["sasl.password"] == PASSWORD
    assert PASSWORD not in repr(settings)


def test_a_secret_whose_variable_is_not_set_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_SECRET", raising=False)
    settings = KafkaSettings(username="reader", password=EnvVar("KAFKA_SECRET"))  # type: ignore[arg-type]
    with pytest.raises(TerminalError, match="KAFKA_SECRET is not set"):
        settings.client_options()
    monkeypatch.setenv("KAFKA_SECRET", "right")
    assert settings.client_options()["sasl.password"] == "right"


def test_protocol_and_mechanism_are_taken_in_any_case_and_empty_ones_as_none() -> None:
    settings = KafkaSettings(security_protocol="sasl_ssl", sasl_mechanism="")  # type: ignore[arg-type]
    assert (settings.security_protocol, settings.sasl_mechanism) == ("SASL_SSL", None)


def test_a_broker_that_has_no_such_topic_is_not_taken_for_one_that_is_away() -> None:
    topic = KafkaTopic("payments", KafkaSettings(bootstrap_servers="kafka:9092"))
    topic._said.add("ssl://kafka:9092: connection reset")  # said earlier, of something else
    error = topic._unreachable(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
    assert "Topic 'payments': Kafka at kafka:9092 has no such topic or partition." in str(error)
    assert "Create the topic, or correct its name." in str(error)
    assert "Start the broker" not in str(error)

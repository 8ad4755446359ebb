"""How to reach Kafka, as its client is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from dagster import EnvVar

import headrace as hr
from headrace.errors import TerminalError
from headrace.spark.brokers.kafka_client import KafkaReader
from headrace.spark.kafka import KafkaSettings, KafkaTopic
from tests.broker.certificates import PASSWORD, Certificates, certificates

pytestmark = pytest.mark.fast


@pytest.fixture
def made(tmp_path: Path) -> Certificates:
    return certificates(tmp_path / "made")


def test_certificates_reach_the_client_as_files(made: Certificates) -> None:
    both = str(made.broker)
    settings = KafkaSettings(
        security_protocol="SSL",
        ssl_ca_location=str(made.authority),
        ssl_certificate_location=both,
        ssl_key_location=both,
    )
    options = settings.client_options()
    assert options["ssl.ca.location"] == str(made.authority)
    assert options["ssl.certificate.location"] == options["ssl.key.location"] == both
    KafkaTopic("readings", settings)._admin.poll(0)  # the client takes them


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"ssl_ca_location": "/nowhere/ca.pem"}, "ssl_ca_location '/nowhere/ca.pem' cannot be read"),
        ({"ssl_certificate_location": "{client}"}, "a certificate without its key"),
        ({"ssl_key_location": "{client_key}"}, "a key without its certificate"),
    ],
)
def test_what_cannot_work_is_refused_by_its_name_and_without_a_secret(
    made: Certificates, given: dict[str, str], says: str
) -> None:
    places = {
        name: value.format(client=made.client, client_key=made.client_key) for name, value in given.items()
    }
    with pytest.raises(TerminalError, match=says):
        KafkaSettings.model_validate(places).client_options()


@pytest.mark.parametrize("password", [{"ssl_key_password": "wrong one"}, {}], ids=["wrong", "none"])
def test_a_key_that_the_client_cannot_read_is_refused_without_a_secret(
    made: Certificates, password: dict[str, str]
) -> None:
    files = {"ssl_certificate_location": str(made.client), "ssl_key_location": str(made.client_key)}
    settings = KafkaSettings.model_validate({"security_protocol": "SSL", **files, **password})
    with pytest.raises(TerminalError, match="the client does not take its settings") as refused:
        KafkaReader("readings", settings).read({0: (0, 1)}).__next__()
    assert "ssl.key.location" in str(refused.value)
    assert "_SSL_KEY_PASSWORD" in str(refused.value)
    assert "wrong one" not in str(refused.value)


def test_a_topic_overrides_the_connection_and_adds_what_is_the_clients() -> None:
    options = {"ssl.ca.location": "/theirs.pem", "sasl.password": "swordfish", "fetch.min.bytes": "7"}
    settings = KafkaSettings(bootstrap_servers="one:9092", username="u", ssl_ca_location="/ours.pem")
    of_topic = settings.of(options)
    assert (of_topic.ssl_ca_location, of_topic.bootstrap_servers) == ("/theirs.pem", "one:9092")
    assert settings.ssl_ca_location == "/ours.pem"
    assert "swordfish" not in repr(of_topic)
    topic = hr.Topic(
        "readings", value="value DOUBLE", options={"sasl.password": "swordfish", "fetch.min.bytes": "7"}
    )
    read = KafkaReader.of(topic, KafkaSettings(username="u"))._options
    assert (read["fetch.min.bytes"], read["fetch.wait.max.ms"], read["sasl.password"]) == (
        "7",
        1,
        "swordfish",
    )


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
    topic._messages.add("ssl://kafka:9092: connection reset")  # said earlier, of something else
    error = topic._unreachable(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
    assert "Topic 'payments': Kafka at kafka:9092 has no such topic or partition." in str(error)
    assert "Create the topic, or correct its name." in str(error)
    assert "Start the broker" not in str(error)

"""A broker that asks its clients for tokens (SASL OAUTHBEARER), and a server of OpenID Connect that gives them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.errors import TerminalError
from headrace.lake.paths import Lake
from headrace.local.servers.topics import create_topics
from headrace.spark.brokers.kafka_client import KafkaReader
from headrace.spark.kafka import KafkaSettings, KafkaTopic
from headrace.streams.stream_runtime import StreamRuntime
from tests.broker.harness import produce, refusal, rows_of
from tests.broker.oidc_server import AUDIENCE, ISSUER, OidcServer
from tests.broker.pipeline import counts_of, minutes
from tests.broker.second_listener import SecondListener
from tests.waiting import PATIENCE_S, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.broker
SECRET, TOKEN_SECONDS = "not in any plan", 10
PACKAGE = "org.apache.kafka.common.security.oauthbearer"


class OauthBroker(SecondListener):
    """Its second listener is for clients with a token."""

    def __init__(self, data_dir: Path, server: OidcServer) -> None:
        listener, handler = "listener.name.oauth", f"{PACKAGE}.OAuthBearerValidatorCallbackHandler"
        text = f"{listener}.sasl.enabled.mechanisms=OAUTHBEARER\n"
        text += f"{listener}.oauthbearer.sasl.jaas.config={PACKAGE}.OAuthBearerLoginModule required ;\n"
        text += f"{listener}.oauthbearer.sasl.server.callback.handler.class={handler}\n"
        for where in ("", f"{listener}."):
            text += f"{where}sasl.oauthbearer.jwks.endpoint.url={server.keys_url}\n"
            text += f"{where}sasl.oauthbearer.expected.audience={AUDIENCE}\n"
            text += f"{where}sasl.oauthbearer.expected.issuer={ISSUER}\n"
        text += f"{listener}.oauthbearer.connections.max.reauth.ms={TOKEN_SECONDS * 1000}\n"
        super().__init__(data_dir, "OAUTH", "SASL_PLAINTEXT", text)
        self.server = server

    def _java(self) -> list[str]:
        first, *rest = super()._java()
        allowed = f"{self.server.keys_url},{self.server.token_url}"
        return [first, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={allowed}", *rest]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OauthBroker]:
    folder = tmp_path_factory.mktemp("oauth")
    with (
        OidcServer({"headrace": SECRET}, TOKEN_SECONDS) as server,
        OauthBroker(folder / "kafka", server) as running,
    ):
        names = [f"{kind}-{case}" for kind in ("readings", "counts") for case in (0, 200_000)]
        create_topics(running.bootstrap_servers, dict.fromkeys(["readings", *names], 1))
        yield running


@pytest.fixture
def settings(broker: OauthBroker, monkeypatch: pytest.MonkeyPatch) -> KafkaSettings:
    """As an operator sets them, in the environment."""
    given = {
        "bootstrap_servers": broker.second_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "oauth_token_url": broker.server.token_url,
        "oauth_client_id": "headrace",
        "oauth_client_secret": SECRET,
        "oauth_scope": "kafka",
    }
    for name, value in given.items():
        monkeypatch.setenv(f"HEADRACE_KAFKA_{name.upper()}", value)
    return KafkaSettings()


@pytest.mark.spark
@pytest.mark.parametrize("small_records", [0, 200_000], ids=["Spark's tasks read", "the run's process reads"])
def test_log_and_sink_go_with_tokens(
    spark: SparkSession, broker: OauthBroker, settings: KafkaSettings, tmp_path: Path, small_records: int
) -> None:
    settings = settings.model_copy(update={"small_records": small_records})
    source, target = f"readings-{small_records}", f"counts-{small_records}"
    produce(broker, source, minutes(0, 0, 9))
    lake, node = Lake(f"file:{tmp_path}/lake"), counts_of(source).to(hr.KafkaSink(target))
    runtime = StreamRuntime(spark, lake, [node], kafka=settings, trigger_ms=100)
    try:
        runtime.run_until_caught_up(PATIENCE_S, poll_seconds=0.1)
    finally:
        runtime.drain(timeout_seconds=PATIENCE_S)
    log = spark.read.format("delta").load(lake.log(source)).where("offset IS NOT NULL")
    assert [row[0] for row in rows_of(log.select("offset"))] == [*range(10)]
    assert KafkaTopic(target, settings).ends([0])[0] > 0


def test_a_client_goes_on_when_its_token_has_ended(broker: OauthBroker, settings: KafkaSettings) -> None:
    topic = KafkaTopic("readings", settings)
    assert topic.partitions() == [0]
    began, before = time.monotonic(), len(broker.server.given)
    while time.monotonic() < began + TOKEN_SECONDS + 2:
        assert topic.ends([0]) == {0: 0}
        time.sleep(1)
    until(lambda: len(broker.server.given) > before)  # it fetches another one by itself


def test_a_wrong_secret_is_named_and_not_shown(
    broker: OauthBroker, settings: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.spark.kafka.TIMEOUT_SECONDS", 2)  # nothing answers who is refused
    stranger = KafkaSettings(oauth_client_secret="guessed")  # type: ignore[arg-type]
    said = refusal("refuses the credentials", KafkaTopic("readings", stranger).partitions)
    assert "HEADRACE_KAFKA_OAUTH_CLIENT_SECRET" in said
    assert "guessed" not in said


def test_what_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    given = KafkaSettings(sasl_mechanism="OAUTHBEARER", oauth_client_id="headrace")
    with pytest.raises(
        TerminalError, match=r"no HEADRACE_KAFKA_OAUTH_TOKEN_URL and no HEADRACE_KAFKA_OAUTH_CLIENT_SECRET"
    ):
        given.client_options()


def test_what_goes_to_a_task_shows_no_secret(settings: KafkaSettings) -> None:
    reader = KafkaReader.of(hr.Topic("readings", value="value DOUBLE"), settings)
    assert not any(SECRET in text for text in (repr(reader), repr(settings), str(settings)))

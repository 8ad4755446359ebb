"""A topic that the broker does not know: for a moment, or at all."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import headrace as hr
from headrace.errors import TerminalError
from headrace.lake.paths import Lake
from headrace.local.servers.broker import Broker
from headrace.local.servers.broker_config import Quorum
from headrace.local.servers.topics import partitions_of
from headrace.log.clock import SystemClock
from headrace.log.site import Site
from headrace.settings.kafka import KafkaSettings
from headrace.spark.kafka import KafkaTopic
from headrace.streams.loops.log_stream import LogStream
from headrace.writing.leases.readers import Asked
from tests.no_spark import no_session
from tests.runtime.supervising import kept_running
from tests.waiting import until

READINGS = hr.Topic("readings", key="sensor_id STRING", value="value DOUBLE", idle_timeout="10 seconds")


class Forgetful(KafkaTopic):
    """A broker that forgets the topic for one answer, whenever it is told to; the topic is empty."""

    forgets = 0

    def _partitions(self) -> list[int]:  # type: ignore[override]
        if self.forgets:
            self.forgets -= 1
            return []
        return [0]

    def topic_id(self) -> str | None:  # type: ignore[override]
        """An older broker has none."""
        return None

    def earliest(self, partitions: Iterable[int]) -> dict[int, int]:
        """The topic is empty."""
        return dict.fromkeys(partitions, 0)

    ends = high_watermarks = earliest


@pytest.mark.fast
def test_a_broker_that_forgets_a_topic_for_a_moment_ends_no_log(lake: Lake) -> None:
    """Before, one such answer ended a log that ran, for good; only as it opened it waited."""
    settings = KafkaSettings(bootstrap_servers="localhost:1", group="")
    asked = Asked(60_000, (), False, ("node",))
    log = LogStream(
        Site(no_session(), lake, SystemClock()), READINGS, settings, asked, trigger_ms=100, tick_every_ms=50
    )
    kafka = Forgetful("readings", settings)
    log._kafka, log.reader.due = kafka, lambda: False  # type: ignore[method-assign]
    try:
        kept_running(log, lambda: log.running)
        kafka.forgets = 1
        until(lambda: not kafka.forgets)
        time.sleep(0.2)
        assert (log.state, log.error) == ("running", None)
    finally:
        log.drain()


class CreatesTopics(Broker):
    """As Kafka is unless it is told otherwise."""

    def _write_properties(self, quorum: Quorum) -> Path:
        path = super()._write_properties(quorum)
        text = path.read_text()
        assert "auto.create.topics.enable=false" in text
        path.write_text(text.replace("auto.create.topics.enable=false", "auto.create.topics.enable=true"))
        return path


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with CreatesTopics(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.mark.broker
def test_a_look_at_a_topic_makes_none(broker: Broker) -> None:
    """Before, a misspelt topic was made by the first look, and one that was deleted came back empty."""
    topic = KafkaTopic("raedings", KafkaSettings(bootstrap_servers=broker.bootstrap_servers))
    with pytest.raises(TerminalError, match="'raedings' does not exist"):
        topic.partitions(patience_seconds=3)
    assert "raedings" not in partitions_of(topic._admin)

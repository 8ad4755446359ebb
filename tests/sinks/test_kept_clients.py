"""The Kafka sink's client goes on from one delivery to the next; librdkafka's own broker, in this process, takes the records."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.sinks import kept_clients, producing
from headrace.sinks.kept_clients import Client, ask
from headrace.sinks.producing import Destination, sender
from headrace.spark.brokers.topic_limits import BEHIND_MS_MAX, TopicLimits
from headrace.spark.kafka import BrokerUnreachableError, KafkaSettings, KafkaTopic
from tests.sinks.consumer import HEADER
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.fast
LIMITS = TopicLimits(record_bytes_max=1_000_000, ahead_ms_max=BEHIND_MS_MAX)


@pytest.fixture
def host() -> Producer:
    """The client in which the broker is."""
    return Producer({"test.mock.num.brokers": 1})


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch, host: Producer) -> str:
    monkeypatch.setattr(kept_clients, "_kept", {})
    return ",".join(f"{each.host}:{each.port}" for each in host.list_topics(timeout=10).brokers.values())


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Client]:
    """The clients that are made."""
    found: list[Client] = []

    class Seen(Client):
        def __init__(self, settings: Any) -> None:
            super().__init__(settings)
            found.append(self)

    for module in (kept_clients, producing):
        monkeypatch.setattr(module, "Client", Seen)
    return found


def delivered(
    servers: str, topic: str, *values: bytes, partition: int = 0, limits: TopicLimits = LIMITS
) -> list[Any]:
    """Deliver records; the outcomes."""
    rows = [
        {
            "partition": partition,
            "key": b"k",
            "value": value,
            "chain": '[["node",0,1,0]]',
            "timestamp_ms": 1_714_564_800_000,
            "sequence": 1,
            "ordinal": number,
            "problem": None,
        }
        for number, value in enumerate(values)
    ]
    destination = Destination(topic, {"bootstrap.servers": servers}, HEADER, limits)
    batches = sender(destination)([pa.RecordBatch.from_pylist(rows)])
    return [outcome for batch in batches for outcome in batch.to_pylist()]


def held(servers: str, topic: str) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader"})
    place = TopicPartition(topic, 0, 0)
    consumer.assign([place])
    _, end = consumer.get_watermark_offsets(place, timeout=PATIENCE_S)
    values = [message.value() for message in consumer.consume(end, timeout=PATIENCE_S)]
    consumer.close()
    return values


def test_deliveries_to_topics_of_a_cluster_go_by_one_client_and_stand_in_their_order(
    servers: str, made: list[Client]
) -> None:
    """Before, each delivery made a client, and waited half a second for its id."""
    for number in range(5):
        for topic in ("one", "other"):
            assert delivered(servers, topic, b"%d" % number, b"and") == []
    assert len(made) == 1
    wanted = [value for number in range(5) for value in (b"%d" % number, b"and")]
    assert [held(servers, topic) for topic in ("one", "other")] == [wanted, wanted]


def test_a_client_that_has_met_an_error_is_not_kept(servers: str, made: list[Client]) -> None:
    assert delivered(servers, "one", b"1") == []
    (outcome,) = delivered(servers, "one", b"2", partition=99)
    assert "partition" in outcome["away"].lower()
    assert delivered(servers, "one", b"3") == []
    assert len(made) == 2
    assert held(servers, "one") == [b"1", b"3"]


def test_other_settings_a_silent_broker_and_age_ask_for_another_client(
    servers: str, made: list[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert delivered(servers, "one", b"1") == []
    assert delivered(servers, "one", b"2", limits=TopicLimits(2_000_000, BEHIND_MS_MAX)) == []
    assert len(made) == 2
    with monkeypatch.context() as patch:
        patch.setattr(Client, "knows", lambda *_: False)
        assert delivered(servers, "one", b"3") == []
    assert len(made) == 3
    with monkeypatch.context() as patch:
        patch.setattr(kept_clients, "KEPT_SECONDS", -1.0)
        assert delivered(servers, "one", b"4") == []
    assert len(made) == 4
    assert held(servers, "one") == [b"1", b"2", b"3", b"4"]
    monkeypatch.setattr(kept_clients, "KEPT_MAX", 1)
    assert delivered(servers, "one", b"5") == []
    assert len(kept_clients._kept) == 1


def test_a_client_for_questions_is_kept_until_it_has_no_answer(
    servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_clients, "_asked", {})
    delivered(servers, "one", b"1")

    def topic() -> KafkaTopic:
        return KafkaTopic("one", KafkaSettings(bootstrap_servers=servers))

    asked: list[KafkaTopic] = []

    def partitions(of: KafkaTopic) -> int:
        asked.append(of)
        return len(of.partitions())

    def away(of: KafkaTopic) -> int:
        raise BrokerUnreachableError("away")

    assert ask(topic(), partitions) == ask(topic(), partitions) > 0
    assert asked[0] is asked[1]
    with pytest.raises(BrokerUnreachableError):
        ask(topic(), away)
    ask(topic(), partitions)
    assert asked[2] is not asked[1]
    monkeypatch.setattr(kept_clients, "KEPT_SECONDS", -1.0)
    ask(topic(), partitions)
    assert asked[3] is not asked[2]

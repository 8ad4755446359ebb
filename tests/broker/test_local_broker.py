"""The local broker: a real Kafka that keeps its data and leaves no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.local.servers.broker import Broker, BrokerFailed, create_topics
from headrace.local.servers.topics import TopicMismatch, add_partitions, records_in
from headrace.spark import kafka as spark_kafka
from headrace.spark.kafka import BrokerUnreachableError, KafkaSettings, KafkaTopic
from tests.broker.harness import group_offsets
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


def produce(broker: Broker, topic: str, *values: bytes) -> None:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "message.max.bytes": 2_000_000,
            "enable.idempotence": True,  # a record that is sent again does not pass the next one
        }
    )
    for value in values:
        producer.produce(topic, key=b"k", value=value, partition=0)
    assert producer.flush(PATIENCE_S) == 0


def consume(broker: Broker, topic: str, count: int) -> list[bytes]:
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "test",
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []

    def look() -> list[bytes]:
        found = consumer.consume(count - len(values), timeout=1)
        # Other messages are news, such as that a new topic is not known everywhere yet.
        values.extend(value for m in found if m.error() is None and (value := m.value()) is not None)
        return values

    try:
        return until(look, lambda _: len(values) >= count)
    finally:
        consumer.close()


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_what_is_produced_is_consumed_also_a_megabyte(broker: Broker) -> None:
    create_topics(broker.bootstrap_servers, {"small_and_large": 1})
    values = [b"small", b"x" * 1024 * 1024]
    produce(broker, "small_and_large", *values)
    assert consume(broker, "small_and_large", 2) == values


def test_topics_are_made_once_and_widened_only_on_request(broker: Broker) -> None:
    servers = broker.bootstrap_servers
    create_topics(servers, {"made": 2})
    create_topics(servers, {"made": 2})
    with pytest.raises(TopicMismatch, match="'made' has 2 partitions, not 3"):
        create_topics(servers, {"made": 3})
    add_partitions(servers, "made", 3)
    create_topics(servers, {"made": 3})
    assert records_in(servers, "made") == 0
    assert records_in(servers, "never made") == 0


def test_a_restart_and_a_kill_keep_the_data_and_the_port(broker: Broker) -> None:
    create_topics(broker.bootstrap_servers, {"kept": 1})
    produce(broker, "kept", b"1")
    servers, stopped = broker.bootstrap_servers, broker.pid
    broker.stop()
    assert stopped is not None
    assert not runs(stopped)

    broker.start().wait_ready()
    produce(broker, "kept", b"2")
    broker.kill()
    assert broker.pid is None

    broker.start().wait_ready()
    assert broker.bootstrap_servers == servers
    assert consume(broker, "kept", 2) == [b"1", b"2"]


@pytest.mark.long
def test_a_group_that_a_killed_broker_was_not_told_of_is_told_when_it_is_back(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The admin client's request for it, timed out, aborts this process at that moment."""
    create_topics(broker.bootstrap_servers, {"readings": 2})
    topic = KafkaTopic("readings", KafkaSettings(bootstrap_servers=broker.bootstrap_servers))

    def commit(offsets: dict[int, int]) -> bool:
        """Whether the broker took them: one that has just begun may not yet know who coordinates the group."""
        with suppress(BrokerUnreachableError):
            topic.commit_offsets("dashboards", offsets)
            return True
        return False

    until(partial(commit, {0: 1, 1: 1}))
    broker.kill()
    with monkeypatch.context() as patch:
        patch.setattr(spark_kafka, "TIMEOUT_SECONDS", 1)
        for offset in (2, 3):
            with pytest.raises(BrokerUnreachableError, match="does not answer"):
                topic.commit_offsets("dashboards", {0: offset, 1: offset})
    broker.start().wait_ready()
    until(partial(commit, {0: 4}))
    assert group_offsets(broker, "dashboards", "readings")[0] == 4


def test_a_taken_port_is_refused_by_its_number(broker: Broker, tmp_path: Path) -> None:
    with pytest.raises(BrokerFailed, match=f"Port {broker.port} on 127.0.0.1 is taken"):
        Broker(tmp_path, broker.port).start()


def test_a_broker_does_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from headrace.local.servers.broker import Broker\n"
        "print(Broker(Path(sys.argv[1])).start().wait_ready().pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert runs(pid)
        parent.send_signal(signal.SIGKILL)
    until(lambda: not runs(pid))

"""How ranges of offsets are shared among tasks, and read where Kafka's client stands in for itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from headrace.settings.kafka import KafkaSettings
from headrace.spark.brokers.kafka_client import KafkaReader
from headrace.spark.brokers.kafka_ranges import shares
from tests.runtime.odd_headers import cluster
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.fast
TOPIC, RECORDS = "ranges", 30_000


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A cluster with one topic of one partition, with more records than the client hands over at once."""
    with cluster() as addresses:
        producer = Producer({"bootstrap.servers": addresses, "queue.buffering.max.messages": RECORDS})
        for number in range(RECORDS):
            producer.produce(TOPIC, b"%d" % number, partition=0)
        assert producer.flush(PATIENCE_S) == 0
        yield addresses


def test_tasks_have_whole_partitions_and_about_as_many_offsets() -> None:
    offsets = {0: (0, 9), 1: (5, 104), 2: (0, 49), 3: (7, 46)}
    assert shares(offsets, 2) == [{1: (5, 104)}, {2: (0, 49), 3: (7, 46), 0: (0, 9)}]
    assert shares(offsets, 1) == [offsets]
    assert len(shares(offsets, 9)) == 4


@pytest.mark.parametrize(
    ("first", "last"), [(0, RECORDS - 1), (1, 1), (7, 12_345), (RECORDS - 1, RECORDS - 1)]
)
def test_a_range_is_read_from_its_first_record_to_its_last(bootstrap: str, first: int, last: int) -> None:
    reader = KafkaReader(TOPIC, KafkaSettings(bootstrap_servers=bootstrap))
    offsets = [each for batch in reader.read({0: (first, last)}) for each in batch["offset"].to_pylist()]
    assert offsets == [*range(first, last + 1)]

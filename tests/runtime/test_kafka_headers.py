"""A header whose name is not UTF-8 does not stop a log: its record is read as Java's client reads it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from headrace.local.demos.republisher import chained
from headrace.sequence.sequence_records import NAMES, VALUES
from headrace.settings.kafka import KafkaSettings
from headrace.spark.brokers.kafka_client import READING, KafkaReader
from headrace.spark.brokers.kafka_headers import HeaderReader, Headers, name_of, utf8_headers_of
from headrace.spark.brokers.kafka_refusals import RecordsNotReadError
from tests.runtime.odd_headers import Header, OddProducer, cluster

pytestmark = pytest.mark.fast

TOPIC = "odd"
HEADERS: list[list[Header]] = [
    [(b"plain", b"1")],
    [(b"b\xffd", b"2"), (b"plain", b""), (b"plain", None)],
    [],
    [(b"source-chain", b"[]"), (b"\xed\xa0\x80", b"\xff")],
]
READ = [
    [("plain", b"1")],
    [("b\ufffdd", b"2"), ("plain", b""), ("plain", None)],
    [],
    [("source-chain", b"[]"), ("\ufffd", b"\xff")],
]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A cluster with one topic."""
    with cluster() as addresses:
        producer = OddProducer(addresses)
        for number, headers in enumerate(HEADERS):
            producer.send(TOPIC, b"%d" % number, headers)
        producer.close()
        yield addresses


def test_all_records_are_read_and_names_are_as_java_reads_them(bootstrap: str) -> None:
    (batch,) = KafkaReader(TOPIC, KafkaSettings(bootstrap_servers=bootstrap)).read({0: (0, 3)})
    assert batch["value"].to_pylist() == [b"0", b"1", b"2", b"3"]
    names, values = (batch[name].to_pylist() for name in (NAMES, VALUES))
    assert [[*zip(*pair, strict=True)] for pair in zip(names, values, strict=True)] == READ


def test_no_exception_stays_pending_however_often_headers_are_asked(bootstrap: str) -> None:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "odd", "fetch.wait.max.ms": 1, **READING}
    )
    for _ in range(50):
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        assert utf8_headers_of(consumer.consume(4, 10)) == [READ[0], False, None, False]
    consumer.close()


def test_a_record_that_kafka_no_longer_gives_is_an_error_of_kafka(bootstrap: str) -> None:
    reader = HeaderReader(TOPIC, {"bootstrap.servers": bootstrap, **READING})
    with pytest.raises(KafkaException):
        reader.read(0, [99])
    with pytest.raises(KafkaException):
        reader.read(0, [1, 99])
    assert reader.read(0, [1]) == {1: READ[1]}
    reader.close()
    with pytest.raises(KafkaException, match=r"no\.such\.option"):
        HeaderReader(TOPIC, {"no.such.option": 1})


def test_such_records_are_fetched_together(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each was asked for by itself: a round trip to the broker, and as much data as the broker gives at once."""
    asked, read = list[tuple[int, list[int]]](), HeaderReader.read

    def counted(self: HeaderReader, partition: int, offsets: Collection[int]) -> dict[int, Headers]:
        asked.append((partition, [*offsets]))
        return read(self, partition, offsets)

    monkeypatch.setattr(HeaderReader, "read", counted)
    (batch,) = KafkaReader(TOPIC, KafkaSettings(bootstrap_servers=bootstrap)).read({0: (0, 3)})
    assert batch.num_rows == 4
    assert asked == [(0, [1, 3])]


def test_the_demos_republisher_goes_on_behind_such_a_record(bootstrap: str) -> None:
    options = {"bootstrap.servers": bootstrap, "group.id": "republisher", "auto.offset.reset": "earliest"}
    consumer = Consumer(options)
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    chains = [chained(message, options) for message in consumer.consume(4, 10)]
    consumer.close()
    assert chains == [b'[["odd",0,0]]', b'[["odd",0,1]]', b'[["odd",0,2]]', b'[["odd",0,3]]']


def test_an_error_names_the_topic(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HeaderReader, "read", _away)
    with pytest.raises(RecordsNotReadError, match="Topic 'odd': Kafka's client could not read its records"):
        list(KafkaReader(TOPIC, KafkaSettings(bootstrap_servers=bootstrap)).read({0: (0, 3)}))


def _away(self: HeaderReader, partition: int, offsets: Collection[int]) -> None:
    raise KafkaException("away")


# As Java 17 reads these bytes.
@pytest.mark.parametrize(
    ("name", "read"),
    [
        (b"plain", "plain"),
        ("größe".encode(), "größe"),
        (b"\xff", "\ufffd"),
        (b"\xe1\xed\xa0\xed\xee", "\ufffd" * 4),
        (b"\xed\xa0\x80\x80", "\ufffd" * 2),
        (b"\xe2\x82", "\ufffd"),
        (b"\xf0\x9f\x98", "\ufffd"),
        (b"\xc0\x80", "\ufffd" * 2),
    ],
)
def test_a_name_is_read_as_java_reads_it(name: bytes, read: str) -> None:
    assert name_of(name) == read

"""A broker refuses records for reasons that the topic's settings do not show; all other records arrive, in their order."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from headrace.local.servers.broker import Broker, create_topics
from headrace.settings.kafka import KafkaSettings
from headrace.sinks import producing
from headrace.sinks.producing import Destination, sender
from headrace.spark.brokers.topic_limits import BEHIND_MS_MAX, TopicLimits
from headrace.spark.kafka import KafkaTopic
from tests.broker.harness import set_topic
from tests.sinks.consumer import HEADER, arrived

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.broker
HOUR_MS = 3_600_000
# The settings changed since the sink asked, or the broker's own rules are stricter.
UNKNOWN = TopicLimits(record_bytes_max=5_000_000, ahead_ms_max=BEHIND_MS_MAX)
SCHEMA = pa.schema(
    {
        "partition": pa.int32(),
        "key": pa.binary(),
        "value": pa.binary(),
        "chain": pa.string(),
        "timestamp_ms": pa.int64(),
        "sequence": pa.int64(),
        "ordinal": pa.int32(),
        "problem": pa.string(),
    }
)


@pytest.fixture
def topic(kafka: Broker) -> str:
    """A topic with the settings that a broker gives it."""
    name = f"results-{uuid.uuid4().hex[:8]}"
    create_topics(kafka.bootstrap_servers, {name: 2})
    return name


def sent(
    kafka: Broker,
    topic: str,
    records: Sequence[tuple[int, bytes | None, bytes, int]],
    limits: TopicLimits = UNKNOWN,
    **more: str,
) -> list[Any]:
    """The outcomes. In: partition, key, value and timestamp of each record; more settings of the client"""
    options = {"bootstrap.servers": kafka.bootstrap_servers, **more}
    rows = [
        (partition, key, value, f'[["node",{partition},1,{number}]]', at_ms, 1, number, None)
        for number, (partition, key, value, at_ms) in enumerate(records)
    ]
    columns = [
        pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    return [
        outcome
        for outcomes in sender(Destination(topic, options, HEADER, limits))(
            [batch.slice(0, 3), batch.slice(3)]
        )
        for outcome in outcomes.to_pylist()
    ]


def test_records_that_the_broker_refuses_are_refused_rows_and_the_others_arrive_in_their_order(
    kafka: Broker, topic: str
) -> None:
    """Before, the client ended with the first refusal, and the delivery was tried again without end.

    The broker also took the batch after the refused one, so a reader with a guard never took the records of that.
    And in one of three deliveries on a busy machine, the client kept a record without an answer for good.
    """
    set_topic(kafka, topic, {"max.message.bytes": "3000000"})
    now_ms = int(time.time() * 1000)
    records = [
        (0, b"a", b"1", now_ms),
        (0, b"ahead", b"2", now_ms + 2 * HOUR_MS),
        (0, b"c", b"3", now_ms),
        (0, b"large", b"x" * 2_000_000, now_ms),  # a batch of its own
        (0, b"long", b"x" * 4_000_000, now_ms),
        (0, b"e", b"4", now_ms),
        (1, b"f", b"5", now_ms),
        (1, b"further ahead", b"6", now_ms + 3 * HOUR_MS),
    ]
    for _ in range(4):
        outcomes = sent(kafka, topic, records)
        assert all(outcome["away"] is None for outcome in outcomes), outcomes
        reasons = {outcome["ordinal"]: outcome["reason"] for outcome in outcomes}
        assert reasons.keys() == {1, 4, 7}
        assert "the broker refuses the record" in reasons[1]
        assert "INVALID_TIMESTAMP" in reasons[1]
        assert "MSG_SIZE_TOO_LARGE" in reasons[4]
    assert [record.key for record in arrived(kafka, topic, guarded=True)] == [
        b"a",
        b"c",
        b"large",
        b"e",
        b"f",
    ]


def test_a_record_without_a_key_that_a_compacted_topic_refuses_stops_no_other(
    kafka: Broker, topic: str
) -> None:
    set_topic(kafka, topic, {"cleanup.policy": "compact"})
    now_ms = int(time.time() * 1000)
    (outcome,) = sent(
        kafka, topic, [(0, b"a", b"1", now_ms), (0, None, b"2", now_ms), (0, b"c", b"3", now_ms)]
    )
    assert (outcome["ordinal"], "INVALID_RECORD" in outcome["reason"]) == (1, True)
    assert [record.key for record in arrived(kafka, topic)] == [b"a", b"c"]


@pytest.mark.parametrize(
    ("of_topic", "of_client", "takes"),
    [
        ("producer", "zstd", True),
        ("uncompressed", "none", True),
        ("uncompressed", "gzip", False),
        ("zstd", "zstd", True),
        ("zstd", "none", False),
        ("lz4", "gzip", False),
    ],
)
def test_a_time_before_1970_is_refused_where_the_broker_compresses_records_again(
    kafka: Broker, topic: str, monkeypatch: pytest.MonkeyPatch, of_topic: str, of_client: str, takes: bool
) -> None:
    """Before, the broker answered with an unknown error to the whole batch, and the delivery was tried again without end."""
    set_topic(kafka, topic, {"compression.type": of_topic})
    settings = KafkaTopic(topic, KafkaSettings(bootstrap_servers=kafka.bootstrap_servers))
    now_ms = int(time.time() * 1000)
    records = [(0, b"a", b"1", now_ms), (0, b"old", b"2", -5_000), (0, b"c", b"3", now_ms)]
    more = {"compression.type": of_client}
    if not takes:  # the broker's own answer, so that this rule goes when the broker's goes
        with monkeypatch.context() as patch:
            patch.setattr(producing, "PATIENCE_S", 2.0)
            (away,) = sent(kafka, topic, records, UNKNOWN, **more)
        assert away["away"] is not None
    outcomes = sent(kafka, topic, records, settings.limits(), **more)
    assert [(outcome["ordinal"], outcome["away"]) for outcome in outcomes] == ([] if takes else [(1, None)])
    assert [record.key for record in arrived(kafka, topic)] == (
        [b"a", b"old", b"c"] if takes else [b"a", b"c"]
    )


def test_any_other_error_still_stops_the_delivery(kafka: Broker, topic: str) -> None:
    now_ms = int(time.time() * 1000)
    (outcome,) = sent(kafka, topic, [(0, b"a", b"1", now_ms), (7, b"nowhere", b"2", now_ms)])
    assert outcome["reason"] is None
    assert "partition" in outcome["away"].lower()

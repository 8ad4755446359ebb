"""Streams over a real broker: what Kafka delivers is in the log exactly once, whatever the topic goes through."""

from __future__ import annotations

import datetime as dt
import random
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from headrace.lake.paths import Lake
from headrace.local.servers.broker import Broker
from headrace.local.servers.topics import add_partitions
from headrace.log.decisions.control import control_rows
from headrace.observe.views import Views
from headrace.sequence.log_columns import IDLE
from headrace.writing.table_upkeep import TableUpkeep
from tests.broker.harness import (
    delete_records,
    group_offsets,
    produce,
    running,
    set_topic,
    transactional,
    transactional_producer,
)
from tests.broker.pipeline import NOON_MS, Record, minutes, reading
from tests.rows import require_backfilled
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.broker

NewTopic = Callable[[int], str]


def test_partitions_added_while_it_runs_are_picked_up(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    produce(kafka, topic, [*minutes(0, 0, 9), *minutes(1, 0, 9)])
    with running(spark, lake, kafka, topic, options={"metadata.max.age.ms": "1000"}) as run:
        run.catch_up()
        add_partitions(kafka.bootstrap_servers, topic, 4)
        produce(
            kafka, topic, [*minutes(2, 5, 19), *minutes(3, 12, 19), *minutes(0, 10, 19), *minutes(1, 10, 19)]
        )
        run.poll_until(lambda _: set(run.offsets()) == {0, 1, 2, 3})
        run.catch_up()
    assert run.offsets() == {0: [*range(20)], 1: [*range(20)], 2: [*range(15)], 3: [*range(8)]}
    assert run.results() == run.recomputed()
    assert sum(run.fates().values()) == 63


def test_stream_time_is_that_of_each_partition_however_many_polls_and_tasks_there_are(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: NewTopic
) -> None:
    topic, chance = new_topic(5), random.Random(7)
    produce(
        kafka,
        topic,
        [reading(chance.randrange(5), minute / 50 + chance.uniform(-9, 0)) for minute in range(10_000)],
    )
    with running(spark, lake, kafka, topic, options={"max.poll.records": "700"}) as run:
        run.catch_up()
    highest: dict[int, dt.datetime] = {}
    rows = run.log().where("kind = 'record'").orderBy("partition", "offset").collect()
    for row in rows:
        highest[row["partition"]] = max(row["timestamp"], highest.get(row["partition"], row["timestamp"]))
        assert row["stream_time"] == highest[row["partition"]]
    assert (len(rows), set(highest)) == (10_000, {0, 1, 2, 3, 4})


def test_partitions_added_while_it_is_down_are_read_from_their_beginning(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    produce(kafka, topic, minutes(0, 0, 4))
    with running(spark, lake, kafka, topic, start="latest") as run:
        run.catch_up()
        assert run.offsets() == {}
    add_partitions(kafka.bootstrap_servers, topic, 2)
    produce(kafka, topic, [*minutes(0, 5, 9), *minutes(1, 5, 9)])
    with running(spark, lake, kafka, topic, start="latest") as run:
        run.catch_up()
    assert run.offsets() == {0: [5, 6, 7, 8, 9], 1: [0, 1, 2, 3, 4]}
    assert group_offsets(kafka, "headrace", topic) == {0: 10, 1: 5}, "dashboards of consumer lag show none"


def test_aborted_records_never_appear_and_markers_are_no_loss(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    aborted = [reading(0, 3, value=1000.0), reading(0, 4, value=1000.0)]
    transactional(
        kafka, topic, (minutes(0, 0, 2), True), (aborted, False), (minutes(0, 5, 9), True), (aborted, False)
    )
    with running(spark, lake, kafka, topic) as run:
        assert run.catch_up()[f"log/{topic}"].lag_records == 0
    assert run.offsets() == {0: [0, 1, 2, 7, 8, 9, 10, 11]}  # 3 and 6: markers; 4 and 5: aborted
    assert run.fates() == {"used": 6, "open": 2}
    assert run.results() == run.recomputed()

    assert group_offsets(kafka, "headrace", topic) == {0: 16}
    # Retention takes the markers at the end too: they were read, so nothing that the log needs is lost.
    delete_records(kafka, topic, {0: 16})
    with running(spark, lake, kafka, topic) as run:
        run.catch_up()
        transactional(kafka, topic, (minutes(0, 10, 12), True))
        run.poll_until(lambda _: len(run.offsets()[0]) == 11)
    assert run.offsets()[0][8:] == [16, 17, 18]


def test_an_open_transaction_is_waited_for(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    producer = transactional_producer(kafka, f"slow-{topic}")
    producer.begin_transaction()
    pending = reading(0, 0)
    producer.produce(topic, pending.value, pending.key, partition=0, timestamp=pending.timestamp_ms)
    producer.flush(PATIENCE_S)
    with running(spark, lake, kafka, topic) as run:
        run.catch_up()
        assert run.offsets() == {}
        producer.commit_transaction(PATIENCE_S)
        run.poll_until(lambda _: run.offsets() == {0: [0]})


def test_a_topic_with_an_open_transaction_is_not_idle(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    now_ms = time.time_ns() // 1_000_000 // 2_000 * 2_000
    seconds = [reading(0, 0, from_ms=now_ms - 10_000 + second * 1_000) for second in range(10)]
    produce(kafka, topic, seconds[:9])
    producer = transactional_producer(kafka, f"long-{topic}")
    producer.begin_transaction()
    pending = seconds[9]
    producer.produce(topic, pending.value, pending.key, partition=0, timestamp=pending.timestamp_ms)
    producer.flush(PATIENCE_S)
    with running(
        spark, lake, kafka, topic, size="2 seconds", grace="1 second", idle_timeout="1 second"
    ) as run:
        run.catch_up()
        time.sleep(5)  # longer than the timeout, and than any window waits
        assert run.log().where("kind = 'tick'").count() == 0
        assert control_rows(run.log(), IDLE) == []
        producer.commit_transaction(PATIENCE_S)
        run.poll_until(lambda _: run.fates() == {"used": 10})
    assert len(run.results()) == 5
    assert run.results() == run.recomputed()


def test_gaps_of_a_compacted_topic_are_no_loss(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    compacted = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "100",
        "max.compaction.lag.ms": "200",
    }
    set_topic(kafka, topic, compacted)
    with running(spark, lake, kafka, topic) as run:
        for minute in range(6):
            produce(kafka, topic, [reading(0, minute, value=float(minute))])
            time.sleep(0.2)
        run.catch_up()
    held = run.offsets()[0]
    assert held == sorted(set(held))
    assert held[-1] == 5
    produce(kafka, topic, [reading(0, 6), reading(0, 7)])
    time.sleep(0.5)
    with running(spark, lake, kafka, topic) as run:
        assert run.catch_up()[f"log/{topic}"].lag_records == 0
    assert run.offsets()[0][-1] == 7
    assert run.results() == run.recomputed()


def test_a_log_can_start_at_the_end_and_keeps_its_start(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    produce(kafka, topic, [*minutes(0, 0, 4), *minutes(1, 0, 2)])
    with running(spark, lake, kafka, topic, start="latest") as run:
        run.catch_up()
    produce(kafka, topic, [*minutes(0, 5, 9), *minutes(1, 5, 9)])  # nobody runs; the start was recorded
    with running(spark, lake, kafka, topic, start="latest") as run:
        run.catch_up()
    assert run.offsets() == {0: [5, 6, 7, 8, 9], 1: [3, 4, 5, 6, 7]}
    assert run.fates() == {"used": 6, "open": 4}


def test_a_log_can_start_at_a_time(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    produce(kafka, topic, [*minutes(0, 0, 9), *minutes(1, 0, 4)])
    with running(spark, lake, kafka, topic, start="2024-05-01T12:06:30Z") as run:
        run.catch_up()
        assert run.offsets() == {0: [7, 8, 9]}
        produce(kafka, topic, [reading(1, 20)])
        run.poll_until(lambda _: 1 in run.offsets())
    assert run.offsets() == {0: [7, 8, 9], 1: [5]}


def test_ticks_close_the_windows_of_silent_partitions(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    now_ms = time.time_ns() // 1_000_000 // 2_000 * 2_000
    recent = [reading(p, 0, from_ms=now_ms - 20_000 + second * 1000) for second in range(10) for p in (0, 1)]
    produce(kafka, topic, recent)
    with running(
        spark, lake, kafka, topic, size="2 seconds", grace="1 second", idle_timeout="2 seconds"
    ) as run:
        run.catch_up()
        # Partition 1 is idle and follows, then all are. The record is late for no tick that came meanwhile.
        produce(kafka, topic, [reading(0, 0, from_ms=now_ms + 20_000)])
        ticked = run.poll_until(lambda _: run.log().where("kind = 'tick'").count() > 0)
        assert ticked[f"log/{topic}"].error is None
        run.poll_until(lambda _: len(run.offsets()[0]) == 11 and run.fates() == {"used": 21})
    ticks = run.log().where("kind = 'tick'")
    assert {row[0] for row in ticks.select("partition").distinct().collect()} == {0, 1}
    assert ticks.where("offset IS NOT NULL OR stream_time IS NULL").count() == 0
    assert run.fates() == {"used": 21}
    assert len(run.results()) == 5 + 5 + 1
    assert run.results() == run.recomputed()
    require_backfilled(spark, lake, run.node)


def test_every_kind_of_bad_input_has_its_line_in_the_ledger(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    noon = NOON_MS
    good = b'{"sensor_id": "s0", "value": 1.0}'
    inputs = {
        0: Record(0, b"s0", good, noon),
        1: Record(0, b"s0", b'{"sensor_id": "s0", "value": ', noon),  # malformed
        2: Record(0, b"s0", b"\xff\xfe", noon),  # not UTF-8
        3: Record(0, b"s0", b'{"sensor_id": "s0", "value": "much"}', noon),  # wrong type
        4: Record(0, b"s1", good, noon),  # key and value disagree
        5: Record(0, b"s0", good, 4_070_908_800_000),  # 2099
        6: Record(0, b"s0", b'{"sensor_id": "s0", "value": 1e300}', noon),  # too large to sum exactly
        7: Record(0, None, good, noon),  # null key: a group like others
        8: Record(0, b"s0", None, noon),  # null value
        9: Record(0, b"s0", b'{"sensor_id": "s0"}', noon),  # missing field: null, which `value >= 0` refuses
        10: Record(
            0, b"s0", b'{"sensor_id": "s0", "value": 2.0, "unknown": [1]}', noon
        ),  # extra field: passed over
        11: Record(0, b"s0", b'{"sensor_id": "s0", "value": 3.0, "pad": "' + b"x" * 1_048_576 + b'"}', noon),
        12: Record(0, b"s0", good, 0),  # 1970: merely old, and it comes first in time
        13: reading(0, 9),
        14: Record(0, b"s0", good, 1),  # 1970 again, now late
    }
    produce(kafka, topic, inputs.values())
    with running(spark, lake, kafka, topic) as run:
        run.catch_up()
    views = Views(spark, lake)
    dead = views.dead_letters(run.node.topics[0], [run.node]).orderBy("offset").collect()
    assert {row["offset"]: row["reason"].split(":")[0] for row in dead} == {
        1: "malformed value",
        2: "malformed value",
        3: "malformed value",
        4: "disagreement",
        5: "timestamp",
        6: "out of range",
    }
    assert bytes(dead[1]["value"]) == b"\xff\xfe"
    assert run.offsets() == {0: list(range(15))}
    assert run.fates() == {"dead_letter": 6, "used": 4, "open": 1, "late": 2, "filtered": 1, "tombstone": 1}
    assert [(row[0], row[3], row[4]) for row in run.results()] == [("s0", 3, 6.0), (None, 1, 1.0)]
    assert run.results() == run.recomputed()


def test_a_drain_ends_and_leaves_nothing_running(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(1)
    sending, stop = threading.Event(), threading.Event()

    def send() -> None:
        minute = 0
        while not stop.wait(0.02):
            produce(kafka, topic, minutes(0, minute, minute + 4))
            minute += 5
            sending.set()

    sender = threading.Thread(target=send)
    sender.start()
    try:
        assert sending.wait(PATIENCE_S)
        with running(spark, lake, kafka, topic) as run:
            run.poll_until(lambda s: s["stream/reading_counts_stream"].batches > 0)
            assert set(run.queries()) == {f"log/{topic}", "stream/reading_counts_stream"}
            began = time.monotonic()
            run.runtime.drain(PATIENCE_S)
            assert time.monotonic() - began < PATIENCE_S, "it ends though records go on to come"
            kept: list[TableUpkeep] = []
            monkeypatch.setattr(TableUpkeep, "keep", lambda upkeep: kept.append(upkeep))
            statuses = run.poll()
            assert not kept, "a thread that reads would keep the process from ending"
    finally:
        stop.set()
        sender.join()
    assert {status.state for status in statuses.values()} == {"stopped"}
    assert run.queries() == []
    assert sum(run.fates().values()) == len(run.offsets()[0])  # the node has folded what the log holds
    assert run.results() == run.recomputed()
    with running(spark, lake, kafka, topic) as run:  # the leases were given back: no waiting
        run.catch_up()
    assert run.offsets() == {0: list(range(len(run.offsets()[0])))}

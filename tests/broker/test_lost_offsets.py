"""Records that Kafka deleted before the log had them: an error that says which, until a person accepts the gap."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from headrace.errors import TerminalError
from headrace.lake import open_table, small_files
from headrace.lake.paths import Lake
from headrace.lifecycle.log_repair.gaps import accept_gap
from headrace.local.servers.broker import Broker, create_topics
from headrace.local.servers.topics import add_partitions
from headrace.log.clock import SystemClock
from headrace.log.sequencer import Sequencer
from headrace.preflight.logs import check_logs
from headrace.spark.kafka import KafkaSettings, KafkaTopic, LostOffsetsError, TopicBehindError
from headrace.streams.topic_reader import TopicReader
from headrace.writing.leases.lease import LeaseTakenError
from tests.broker.harness import delete_records, delete_topic, produce, running, transactional
from tests.broker.pipeline import counts_of, minutes
from tests.waiting import PATIENCE_S, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.broker

NewTopic = Callable[[int], str]


def test_a_loss_stops_the_log_until_it_is_accepted_and_is_then_recorded(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: NewTopic
) -> None:
    topic, settings = new_topic(2), KafkaSettings(bootstrap_servers=kafka.bootstrap_servers)
    produce(kafka, topic, [*minutes(0, 0, 9), *minutes(1, 0, 9)])
    with running(spark, lake, kafka, topic) as run:
        run.catch_up()
        with pytest.raises(LeaseTakenError, match=f"Log '{topic}' is already being written by process"):
            accept_gap(spark, lake, run.node.topics[0], settings)
    produce(kafka, topic, [*minutes(0, 10, 19), *minutes(1, 10, 19)])
    delete_records(kafka, topic, {0: 14})

    with running(spark, lake, kafka, topic) as run:
        status = run.poll_until(lambda s: s[f"log/{topic}"].state == "failed")[f"log/{topic}"]
        assert (status.error or "").splitlines() == [
            f"Topic '{topic}': Kafka has deleted records that the log does not hold yet.",
            "partition 0: offsets 10 to 13",
            f"If the loss is acceptable, record it: headrace accept-gap {topic}. Then start the stream again.",
        ]
        # The node is not hurt by its log's failure.
        run.poll_until(lambda s: s["stream/reading_counts_stream"].state == "running")
    assert run.offsets() == {0: list(range(10)), 1: list(range(10))}

    assert accept_gap(spark, lake, run.node.topics[0], settings) == {0: (10, 14)}
    assert accept_gap(spark, lake, run.node.topics[0], settings) == {}
    with running(spark, lake, kafka, topic) as run:
        run.catch_up()
    assert run.offsets() == {0: [*range(10), *range(14, 20)], 1: list(range(20))}
    gaps = run.log().where("kind = 'control' AND control LIKE '%accept_gap%'").collect()
    assert [(row["partition"], row["offset"], json.loads(row["control"])) for row in gaps] == [
        (0, None, {"action": "accept_gap", "from_offset": 10, "to_offset": 14})
    ]
    assert sum(run.fates().values()) == 36
    assert run.results() == run.recomputed()


def test_a_partition_added_meanwhile_is_needed_from_its_first_record(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: NewTopic
) -> None:
    topic, settings = new_topic(1), KafkaSettings(bootstrap_servers=kafka.bootstrap_servers)
    produce(kafka, topic, minutes(0, 0, 4))
    with running(spark, lake, kafka, topic) as run:
        run.catch_up()
    add_partitions(kafka.bootstrap_servers, topic, 2)
    produce(kafka, topic, minutes(1, 0, 9))
    delete_records(kafka, topic, {1: 3})
    with running(spark, lake, kafka, topic) as run:
        status = run.poll_until(lambda s: s[f"log/{topic}"].state == "failed")[f"log/{topic}"]
    assert "partition 1: offsets 0 to 2" in (status.error or "")
    assert accept_gap(spark, lake, run.node.topics[0], settings) == {1: (0, 3)}
    with running(spark, lake, kafka, topic) as run:
        run.catch_up()
    assert run.offsets() == {0: list(range(5)), 1: list(range(3, 10))}


def test_records_lost_while_it_runs_are_named_too(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's tasks read after the offsets are chosen. Kafka's client has read by then, so it loses nothing there."""
    monkeypatch.setenv("HEADRACE_KAFKA_SMALL_RECORDS", "0")
    topic, armed, reached, deleted = new_topic(1), threading.Event(), threading.Event(), threading.Event()

    def hold(_asset: str, step: str) -> None:
        if step == "before log commit" and armed.is_set():
            reached.set()
            assert deleted.wait(PATIENCE_S)

    produce(kafka, topic, minutes(0, 0, 4))
    with running(spark, lake, kafka, topic, on_step=hold) as run:
        run.catch_up()
        armed.set()
        produce(kafka, topic, minutes(0, 5, 19))
        assert reached.wait(PATIENCE_S)
        delete_records(kafka, topic, {0: 12})  # the micro-batch has chosen its offsets, and not read them yet
        armed.clear()
        deleted.set()
        status = run.poll_until(lambda s: s[f"log/{topic}"].state == "failed")[f"log/{topic}"]
        assert "partition 0: offsets 5 to 11" in (status.error or "")
    assert run.offsets() == {0: list(range(5))}


def test_a_topic_that_is_made_anew_while_its_log_runs_adds_nothing(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    produce(kafka, topic, minutes(0, 0, 4))
    with running(spark, lake, kafka, topic) as run:
        run.catch_up()
        delete_topic(kafka, topic)
        create_topics(kafka.bootstrap_servers, {topic: 1}, any_timestamp=True)
        produce(kafka, topic, minutes(0, 5, 59))  # its offset 5 is the log's next one
        status = run.poll_until(lambda s: s[f"log/{topic}"].state == "failed")[f"log/{topic}"]
        assert "was deleted and created again" in (status.error or "")
    assert run.offsets() == {0: list(range(5))}


def read_on(reader: TopicReader) -> None:
    """Look for records, which never come."""
    until(reader.due)


def test_records_that_are_gone_before_the_client_reads_them_are_named_too(
    spark: SparkSession, kafka: Broker, new_topic: NewTopic
) -> None:
    topic = counts_of(new_topic(1)).topics[0]
    produce(kafka, topic.name, minutes(0, 0, 19))
    settings = KafkaSettings(bootstrap_servers=kafka.bootstrap_servers)
    reader = TopicReader(spark, topic, KafkaTopic.of(topic, settings), most=100)
    reader.begin({0: 5}, {0: 20})  # the check at the opening has passed
    delete_records(kafka, topic.name, {0: 12})
    try:
        with pytest.raises(LostOffsetsError, match="partition 0: offsets 5 to 11"):
            read_on(reader)
        reader.begin({0: 30}, {0: 20})
        with pytest.raises(TopicBehindError, match="the log needs offset 30, Kafka ends before 20"):
            read_on(reader)
    finally:
        reader.close()


def test_records_that_are_gone_before_sparks_tasks_read_them_are_named_too(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: NewTopic
) -> None:
    topic = counts_of(new_topic(1)).topics[0]
    produce(kafka, topic.name, minutes(0, 0, 19))
    settings = KafkaSettings(bootstrap_servers=kafka.bootstrap_servers, small_records=0)
    reader = TopicReader(spark, topic, KafkaTopic.of(topic, settings), most=100)
    sequencer = Sequencer(spark, topic, lake.log(topic.name), SystemClock())
    sequencer.start_at({0: 5})
    reader.begin({0: 5}, {0: 20})
    assert reader.due()
    with pytest.raises(LostOffsetsError, match="partition 0: offsets 5 to 11"):
        reader.append(sequencer, lambda: False, lambda: delete_records(kafka, topic.name, {0: 12}))
    assert sequencer.state.next_offsets == {0: 5}


@pytest.mark.parametrize("commits", [True, False], ids=["committed", "aborted"])
def test_a_marker_at_the_end_of_a_log_that_was_killed_is_no_loss(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: NewTopic, commits: bool
) -> None:
    """A killed process closes nothing: the commit alone says how far the log was read."""
    topic, armed = new_topic(1), threading.Event()

    def kill(asset: str, step: str) -> None:
        if armed.is_set() and step == "after log commit":
            raise TerminalError("killed")

    produce(kafka, topic, minutes(0, 0, 4))
    with running(spark, lake, kafka, topic, on_step=kill) as run:
        run.catch_up()
        armed.set()
        transactional(kafka, topic, (minutes(0, 5, 9), commits))  # the marker has offset 10
        run.poll_until(lambda s: s[f"log/{topic}"].state == "failed")
    delete_records(kafka, topic, {0: 11})
    with running(spark, lake, kafka, topic) as run:
        run.catch_up()
        produce(kafka, topic, minutes(0, 10, 14))
        run.catch_up()
    assert run.offsets() == {0: [*range(10 if commits else 5), *range(11, 16)]}
    assert run.results() == run.recomputed()


@pytest.mark.parametrize("records", [5, 40], ids=["shorter", "longer"])
def test_a_topic_that_was_made_anew_is_not_taken_for_the_old_one(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: NewTopic, records: int
) -> None:
    topic = new_topic(2)
    produce(kafka, topic, [*minutes(0, 0, 9), *minutes(1, 0, 4)])
    with running(spark, lake, kafka, topic) as run:
        run.catch_up()
    before = open_table(lake.log(topic)).version, small_files.names(lake.lease(f"log/{topic}"))
    delete_topic(kafka, topic)
    create_topics(kafka.bootstrap_servers, {topic: 2})
    produce(kafka, topic, [*minutes(0, 0, records - 1), *minutes(1, 0, records - 1)])
    with running(spark, lake, kafka, topic) as run:
        status = run.poll_until(lambda s: s[f"log/{topic}"].state == "failed")[f"log/{topic}"]
    told = (status.error or "").splitlines()
    assert told[0] == (
        f"Topic '{topic}' was deleted and created again: it is another topic than the log was read from."
    )
    assert told[1].startswith("Kafka's topic id is ")
    assert "brokers of another cluster, correct HEADRACE_KAFKA_BOOTSTRAP_SERVERS" in told[2]
    assert (open_table(lake.log(topic)).version, small_files.names(lake.lease(f"log/{topic}"))) == before
    (finding,) = check_logs([run.node], lake.root, KafkaSettings(bootstrap_servers=kafka.bootstrap_servers))
    assert finding.result.startswith(told[0])
    assert run.offsets() == {0: list(range(10)), 1: list(range(5))}


def test_a_log_that_has_no_topic_id_is_held_against_kafkas_ends(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(2)
    produce(kafka, topic, [*minutes(0, 0, 9), *minutes(1, 0, 4)])
    with monkeypatch.context() as old_broker, running(spark, lake, kafka, topic) as run:
        old_broker.setattr(KafkaTopic, "topic_id", lambda _: None)
        run.catch_up()
    delete_topic(kafka, topic)
    create_topics(kafka.bootstrap_servers, {topic: 1})
    produce(kafka, topic, minutes(0, 0, 4))
    with running(spark, lake, kafka, topic) as run:
        short = "Kafka's records end before the log does"
        status = run.poll_until(lambda s: short in (s[f"log/{topic}"].error or ""))[f"log/{topic}"]
    assert status.state == "restarting"
    assert (status.error or "").splitlines()[:2] == [
        f"Topic '{topic}': Kafka's records end before the log does.",
        "partition 0: the log needs offset 10, Kafka ends before 5; "
        "partition 1: the log needs offset 5, which partition Kafka does not have",
    ]
    assert run.offsets() == {0: list(range(10)), 1: list(range(5))}

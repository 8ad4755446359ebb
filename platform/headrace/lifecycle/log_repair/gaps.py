"""Accept the loss of records that Kafka deleted before the log had them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import TerminalError
from headrace.log.clock import SystemClock
from headrace.log.sequencer import Sequencer
from headrace.spark.kafka import KafkaTopic, lost_offsets
from headrace.spark.session import pipeline_session
from headrace.writing.leases.lease_waits import take_lease_patiently

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Topic
    from headrace.lake.paths import Lake
    from headrace.spark.kafka import KafkaSettings


def accept_gap(
    spark: SparkSession, lake: Lake, topic: Topic, kafka: KafkaSettings
) -> dict[int, tuple[int, int]]:
    """Record the gap between the log and what Kafka still has as control rows; the stream then goes on after it.

    Out:    for each partition that lost records, the first offset lost and the first still there
    Raises: LeaseTakenError while the topic's stream runs; TerminalError when the topic was deleted and created again, and
            while its log has not begun or has not read its seed: it would do without what its `start` names
    """
    clock, session = SystemClock(), pipeline_session(spark)
    lease = take_lease_patiently(session, lake.lease(f"log/{topic.name}"), f"Log '{topic.name}'", clock)
    try:
        sequencer = Sequencer(session, topic, lake.log(topic.name), clock)
        _require_begun(sequencer)
        on_broker = KafkaTopic.of(topic, kafka)
        sequencer.reads_from(on_broker.topic_id())
        needed = dict.fromkeys(on_broker.partitions(), 0)
        needed |= sequencer.state.next_offsets
        lost = lost_offsets(needed, on_broker.earliest(needed))
        if lost:
            sequencer.accept_gap({partition: end for partition, (_, end) in lost.items()})
        return lost
    finally:
        lease.release()


def _require_begun(sequencer: Sequencer) -> None:
    name = sequencer.topic.name
    if sequencer.state.batch == 0:
        raise TerminalError(
            f"Topic '{name}': its log has not begun, so it has lost nothing.",
            hint="Start the stream: the log begins where the topic's `start` says.",
        )
    if sequencer.state.seed is not None:
        raise TerminalError(
            f"Topic '{name}': its log has not read its seed to the end.",
            hint="Start the stream, and let it read the seed. Accept a loss after that.",
        )

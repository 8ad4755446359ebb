"""Reset a replay guard: what a person does after the root topic of a chain was created anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.log.clock import SystemClock
from headrace.log.sequencer import Sequencer
from headrace.spark.session import pipeline_session
from headrace.writing.leases.lease_waits import take_lease_patiently

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Topic
    from headrace.lake.paths import Lake


def reset_guard(
    spark: SparkSession, lake: Lake, topic: Topic, root_topic: str, root_partition: int | None = None
) -> list[int]:
    """Record as a control row that a root begins anew; what the topic delivers from then on is judged without its past.

    In:     root_partition  None: every partition of the root topic
    Out:    the root partitions that the guard has forgotten
    Raises: LeaseTakenError while the topic's stream runs; TerminalError when its guard does not know that root.
    """
    clock, session = SystemClock(), pipeline_session(spark)
    lease = take_lease_patiently(session, lake.lease(f"log/{topic.name}"), f"Log '{topic.name}'", clock)
    try:
        sequencer = Sequencer(session, topic, lake.log(topic.name), clock)
        return sequencer.reset_guard(root_topic, root_partition)
    finally:
        lease.release()

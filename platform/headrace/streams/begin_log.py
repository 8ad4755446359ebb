"""Where a log begins that is empty: at its topic's `start`, which the log records first."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headrace.description.seed import Seed
from headrace.log.seeding import Seeding, seed_forsaken
from headrace.spark.kafka import (
    first_offsets,
    lost_offsets,
    require_no_loss,
    require_same_topic,
    start_offsets,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from headrace.log.sequencer import Sequencer
    from headrace.spark.kafka import KafkaTopic


def begin_log(
    spark: SparkSession,
    sequencer: Sequencer,
    kafka: KafkaTopic,
    partitions: Sequence[int],
    *,
    ends: Callable[[], bool],
) -> None:
    """Let an empty log begin. One whose seed was not read to its end reads the rest; others are left alone.

    In:     partitions  of the topic
            ends        whether to stop before the next piece of a seed
    Raises: TransientError when a seed was stopped; TerminalError when it cannot be read
    """
    topic, seed = sequencer.topic, sequencer.topic.start
    if not isinstance(seed, Seed):
        if sequencer.state.seed is not None:
            raise seed_forsaken(topic.name, sequencer.state.seed)
        if sequencer.state.batch == 0:
            sequencer.start_at(first_offsets(str(seed), kafka, partitions))
        return

    def require_readable(offsets: Mapping[int, int]) -> None:
        require_same_topic(topic.name, offsets, kafka.ends(partitions))
        require_no_loss(topic.name, lost_offsets(offsets, kafka.earliest(offsets)))

    seeding = Seeding(spark, sequencer, seed)
    if sequencer.state.batch == 0:
        start = partial(start_offsets, kafka=kafka, partitions=partitions)
        seeding.begin(len(partitions), start, require_readable)
    seeding.run(len(partitions), ends=ends)

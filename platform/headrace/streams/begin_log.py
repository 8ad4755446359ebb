"""Where a log begins that is empty: at its topic's `start`, which the log records first."""

from __future__ import annotations

import math
import time
from functools import partial
from typing import TYPE_CHECKING

from headrace.description.seed import Seed
from headrace.log.decisions.seeding import Seeding, SeedUnderWayError, seed_forsaken
from headrace.spark.kafka import (
    first_offsets,
    lost_offsets,
    require_no_loss,
    require_same_topic,
    start_offsets,
)
from headrace.writing.leases.handover import WaitsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from headrace.log.sequencer import Sequencer
    from headrace.spark.kafka import KafkaTopic

# A seed is read for so long at once. Meanwhile the run looks at nothing else, not even whether it is to stop.
SEED_SECONDS = 20.0
NOT_JOINED = (
    "Records between the seed and Kafka's first ones are missing. "
    "Let its `start` name newer rows, or give another `then`."
)


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
    Raises: WaitsError when a seed is not read to its end, and goes on with the next opening; TerminalError when it cannot be
            read
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
        require_no_loss(topic.name, lost_offsets(offsets, kafka.earliest(offsets)), NOT_JOINED)

    seeding = Seeding(spark, sequencer, seed)
    if sequencer.state.batch == 0:
        start = partial(start_offsets, kafka=kafka, partitions=partitions)
        seeding.begin(len(partitions), start, require_readable)
    try:
        seeding.run(len(partitions), ends=_Enough(ends))
    except SeedUnderWayError as error:
        raise WaitsError(
            f"Topic '{topic.name}': its seed is not read to the end; it goes on by itself."
        ) from error


class _Enough:
    """Whether an opening has read for long enough; it reads one piece at least, unless it is to stop."""

    def __init__(self, ends: Callable[[], bool]) -> None:
        self._ends, self._until = ends, math.inf

    def __call__(self) -> bool:
        now = time.monotonic()
        if self._until == math.inf:
            self._until = now + SEED_SECONDS
            return self._ends()
        return self._ends() or now >= self._until

"""Stream time: the running maximum of event time in each partition, carried over micro-batches; and what is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.log.columns import DEAD_LETTER
from headrace.spark.frames import Selection
from headrace.spark.varying import varying, varying_by

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame

    from headrace.log.state import LogState

LAST = "__last"  # true on the last row of each partition in a micro-batch


def only_new(raw: DataFrame, state: LogState) -> DataFrame:
    """The records that the log does not hold yet: a repeated micro-batch adds nothing.

    In, Out: one row per record, as Kafka delivers it
    """
    next_offset = varying_by("partition", {p: s.next_offset for p, s in state.partitions.items()})
    return raw.where(F.coalesce(F.col("offset") >= next_offset, F.lit(True)))


class StreamTime:
    """Assigns stream time to the records of one topic. Its columns are made once."""

    def __init__(self, *, judged: bool) -> None:
        """Needs a running Spark.

        In: judged  whether a guard has said of each record if it is a `replay`
        """
        ordered = Window.partitionBy("partition").orderBy("offset")
        counts = F.col("kind") != DEAD_LETTER
        if judged:
            counts = counts & ~F.col("replay")
        event_ms = F.when(counts, F.col("__event_ms"))
        self._highest = F.max(event_ms).over(
            ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        )
        self._found = self._highest.isNotNull()
        self._given = Selection(F.col("*"), F.lead("offset").over(ordered).isNull().alias(LAST))

    def assign(self, decoded: DataFrame, state: LogState) -> DataFrame:
        """Add `__stream_ms`, the highest event time of the partition up to and including the row, and `__last`.

        In:     decoded  one row per record, with `partition`, `offset`, `kind`, `__event_ms` and, if judged, `replay`
                state    of the log before this micro-batch
        Law:    cutting the same offsets elsewhere changes no row's stream time within a commit sequence; a new
                partition starts at the lowest stream time recorded before the commit. Dead letters advance nothing,
                and neither do replays: one that is dated when it was sent again would close windows early.
        """
        stream_ms = {p: s.stream_ms for p, s in state.partitions.items() if s.stream_ms is not None}
        known = varying_by("partition", stream_ms)
        start = F.coalesce(known, varying(state.lowest_stream_ms()))
        highest = F.when(self._found, F.greatest(self._highest, start)).otherwise(known)
        return self._given.of(decoded, highest.alias("__stream_ms"))


def observed(*, judged: bool) -> list[Expr]:
    """What is counted and kept of a micro-batch while it is written.

    In:     judged  as for `StreamTime`
    Out:    aggregates: `records`, of these `dead_letters` and `replays`; `last_rows`, the last of each partition; of judged
            rows `seen`, for the guard's state
    """
    last = F.struct("partition", "offset", F.col("__stream_ms").alias("stream_ms"))
    counted = [
        F.count("*").alias("records"),
        F.count_if(F.col("kind") == DEAD_LETTER).alias("dead_letters"),
        F.count_if(F.col("replay") if judged else F.lit(False)).alias("replays"),
        F.collect_list(F.when(F.col(LAST), last)).alias("last_rows"),
    ]
    return [*counted, F.collect_list("__seen").alias("seen")] if judged else counted

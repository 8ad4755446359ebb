"""The records behind the counts of a node's ledger: which they are, and why they met their fate."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import is_of_kafka, with_unnamed
from headrace.errors import DescriptionError
from headrace.fold.fates import FATES, KEPT, LATE, OPEN, USED
from headrace.nodes.node_tables import read_progress
from headrace.nodes.operator_frames import operator_of
from headrace.nodes.reader_frames import logs_and_unusable
from headrace.sequence.log_columns import DEAD_LETTER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node, Topic
    from headrace.lake.paths import Lake

POSITION = ("topic", "partition", "offset")


def nodes_with_fate(node: Node, fate: str) -> Sequence[Node]:
    """The nodes whose records stand behind a count of a node: it, and its steps without a name, which refuse records, too.

    Raises: DescriptionError when there is no such fate
    """
    if fate not in FATES:
        raise DescriptionError(f"There is no fate {fate!r}.", hint=f"There are: {', '.join(FATES)}.")
    return [node] if fate in (USED, OPEN) else with_unnamed([node])


def records_by_fate(spark: SparkSession, lake: Lake, node: Node, fate: str) -> DataFrame:
    """The records of a node's logs that met a fate, as far as the node has read; rows that were cut off are gone.

    In:     fate  one of `FATES`; of `used` and `open` the records of both, for which of them is still open depends on time
    Out:    topic, partition, offset, timestamp, reason (null: none is recorded), key, value, headers, ingested_at, node
            (null: a dead letter of the log, dead for every node); one row for each record
    """
    logs, unusable = logs_and_unusable(spark, lake, node, read_progress(lake, node).upto_ms)
    operator = operator_of(node)
    late = operator.late_rows_if_any(logs, unusable) if fate == LATE else None
    if late is not None:
        seconds = F.format_number(F.max("late_by_ms") / 1000, 3)
        places = late.groupBy(*POSITION).agg(F.concat(F.lit("late by "), seconds, F.lit(" s")).alias("why"))
    else:
        is_meant = F.col("__fate") == (KEPT if fate in (USED, OPEN) else fate)
        places = operator.decide(logs, unusable).where(is_meant & F.col("__offset").isNotNull())
        places = places.select(
            *(F.col(f"__{name}").alias(name) for name in POSITION), F.col("__reason").alias("why")
        )
    topics = {topic.name: topic for topic in node.topics}
    found = (_of_log(logs[name], topic, places, node.required_name) for name, topic in topics.items())
    return reduce(lambda one, other: one.unionByName(other), found)


def below_topic(records: DataFrame, topic: Topic) -> DataFrame:
    """Those of a node's dead letters that are not the log's: of one topic, and of rows that other nodes gave."""
    from_here = (F.col("topic") == topic.name) | F.col("topic").contains("@")
    return records.where(F.col("node").isNotNull() & from_here)


def _of_log(log: DataFrame, topic: Topic, places: DataFrame, node: str) -> DataFrame:
    key = F.to_json("key").cast("binary") if topic.key_columns else F.lit(None).cast("binary")
    is_dead = F.col("kind") == DEAD_LETTER
    raw_key, raw_value = (
        (F.col("raw_key"), F.col("raw_value")) if is_of_kafka(topic) else (F.lit(None), F.lit(None))
    )
    return log.join(places, [*POSITION]).select(
        *(*POSITION, "timestamp"),
        F.coalesce("why", "reason").alias("reason"),
        F.when(is_dead, raw_key).otherwise(key).alias("key"),
        F.when(is_dead, raw_value).otherwise(F.to_json("value").cast("binary")).alias("value"),
        *("headers", "ingested_at"),
        F.when(~is_dead, F.lit(node)).alias("node"),
    )

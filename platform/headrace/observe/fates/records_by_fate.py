"""The records behind the counts of a node's ledger: which they are, and why they met their fate."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import is_of_kafka, with_unnamed
from headrace.errors import DescriptionError
from headrace.fold.fates import FATES, KEPT, LATE, OPEN, USED
from headrace.nodes.descriptions.references import resolve_references
from headrace.nodes.node_tables import read_progress
from headrace.nodes.rows import row_frames
from headrace.nodes.rows.reader_frames import logs_and_unusable
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


def records_by_fate(spark: SparkSession, lake: Lake, node: Node, *fates: str) -> DataFrame:
    """The records of a node's logs that met one of some fates, as far as the node has read; rows that were cut off are gone.

    In:     fates  some of `FATES`; of `used` and `open` the records of both, for which of them is still open depends on time
    Out:    topic, partition, offset, timestamp, reason (null: none is recorded), key, value, headers, ingested_at, node
            (null: a dead letter of the log, dead for every node), fate (`used` of both); one row for each record and fate
    """
    logs, unusable = logs_and_unusable(spark, lake, node, read_progress(lake, node).upto_ms)
    late = row_frames.late(node, logs, unusable) if LATE in fates else None
    parts = [] if late is None else [_late(late)]
    if others := {KEPT if fate in (USED, OPEN) else fate for fate in fates if late is None or fate != LATE}:
        decided = row_frames.decided(node, logs, unusable)
        decided = decided.where(F.col("__fate").isin(sorted(others)) & F.col("__offset").isNotNull())
        fate = F.when(F.col("__fate") == KEPT, USED).otherwise(F.col("__fate"))
        columns = [F.col(f"__{name}").alias(name) for name in POSITION]
        parts.append(decided.select(*columns, F.col("__reason").alias("why"), fate.alias("fate")))
    places = reduce(lambda one, other: one.unionByName(other), parts)
    topics = {topic.name: topic for topic in node.topics}
    found = (_of_log(logs[name], topic, places, node.required_name) for name, topic in topics.items())
    return reduce(lambda one, other: one.unionByName(other), found)


def records_behind(spark: SparkSession, lake: Lake, node: Node, *fates: str) -> DataFrame:
    """The same of the records behind some counts of a node: those that its steps without a name refuse, too."""
    node = resolve_references(lake, node)
    asked: dict[str, tuple[Node, list[str]]] = {}
    for fate in fates:
        for each in nodes_with_fate(node, fate):
            asked.setdefault(each.required_name, (each, []))[1].append(fate)
    return once([records_by_fate(spark, lake, each, *of) for each, of in asked.values()])


def once(frames: Sequence[DataFrame]) -> DataFrame:
    """The records of several nodes; those of a log, which are dead for each of them, once."""
    found = reduce(lambda left, right: left.unionByName(right), frames)
    same = [*POSITION, *(name for name in ("node", "fate") if name in found.columns)]
    return found if len(frames) == 1 else found.dropDuplicates(same)


def _late(late: DataFrame) -> DataFrame:
    """The places of late records."""
    seconds = F.format_number(F.max("late_by_ms") / 1000, 3)
    why = F.concat(F.lit("late by "), seconds, F.lit(" s"))
    return late.groupBy(*POSITION).agg(why.alias("why")).withColumn("fate", F.lit(LATE))


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
        "fate",
    )

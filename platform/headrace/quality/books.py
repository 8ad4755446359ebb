"""The double-entry books of a node: what was delivered, what became of it, what stands in the results.

Law: all numbers belong to one micro-batch of the node. Progress is read first; the log is read as far as it
goes, and the results at the version that holds that micro-batch and nothing of a later one.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.errors import TransientError
from headrace.log.columns import DEAD_LETTER, RECORD
from headrace.operators.rows import FATES, KEPT, OPEN, USED
from headrace.operators.windows.fold import still_open
from headrace.runtime.runner import node_schemas, read_log, read_progress
from headrace.spark import tables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import WindowedAggregate
    from headrace.operators.progress import Progress
    from headrace.runtime.lake import Lake

    Counts = Counter[tuple[str, int]]

ATTEMPTS, PAUSE_SECONDS = 40, 0.25


@dataclass(frozen=True)
class Account:
    """One partition: the records in the log, and how many the ledger knows of each fate."""

    topic: str
    partition: int
    delivered: int
    fates: Mapping[str, int]

    @property
    def accounted(self) -> int:
        """The records that the ledger knows."""
        return sum(self.fates.values())

    @property
    def name(self) -> str:
        """The partition in words."""
        return f"{self.topic} partition {self.partition}"


@dataclass(frozen=True)
class Books:
    """A node's accounts as of one micro-batch; `in_results` are the records of which its table is made."""

    node: WindowedAggregate
    progress: Progress
    results: DataFrame
    in_results: int
    accounts: tuple[Account, ...]

    @property
    def delivered(self) -> int:
        """The records in the log, over all partitions."""
        return sum(account.delivered for account in self.accounts)

    @property
    def log_intact(self) -> bool:
        """Whether the log still holds as many records as the node read."""
        return all(account.delivered == account.accounted for account in self.accounts)

    def total(self, fate: str) -> int:
        """The records of one fate, over all partitions."""
        return sum(account.fates[fate] for account in self.accounts)


def open_books(spark: SparkSession, lake: Lake, node: WindowedAggregate) -> Books:
    """Read a node's books.

    Raises: TerminalError when the state was written by another description of the node;
            TransientError when the node moves on faster than it can be read.
    """
    progress, results = _settled(spark, lake, node)
    delivered = _delivered(spark, lake, node, progress)
    fates = _fates(spark, lake, node, progress)
    accounts = [
        Account(
            topic,
            partition,
            delivered[topic, partition],
            fates.get((topic, partition), dict.fromkeys(FATES, 0)),
        )
        for topic, partition in sorted(delivered.keys() | fates.keys())
    ]
    row = results.agg(F.sum("__records").alias("records")).first()
    return Books(node, progress, results, (row["records"] if row else 0) or 0, tuple(accounts))


def _settled(spark: SparkSession, lake: Lake, node: WindowedAggregate) -> tuple[Progress, DataFrame]:
    """The node's progress, and its results as of exactly that micro-batch."""
    name = node.required_name
    path = lake.table(name)
    for _ in range(ATTEMPTS):
        progress = read_progress(spark, lake, node)
        if not tables.exists(spark, path):
            return progress, spark.createDataFrame([], node_schemas(spark, node)[0])
        version = tables.latest_version(spark, path)
        newest = tables.last_commit(spark, path, f"node/{name}")
        ahead = 0 if newest is None else newest.record["batch"] - progress.batch
        if newest is not None and ahead == 1:
            version = min(version, newest.version - 1)  # its state is not committed yet
        if ahead <= 1:
            return progress, at_version(spark, path, version)
        time.sleep(PAUSE_SECONDS)
    raise TransientError(
        f"Node '{name}' moved on {ATTEMPTS} times while its books were read.", hint="Run the check again."
    )


def at_version(spark: SparkSession, path: str, version: int) -> DataFrame:
    """A Delta table as it was at a version."""
    return spark.read.format("delta").option("versionAsOf", version).load(path)


def _delivered(spark: SparkSession, lake: Lake, node: WindowedAggregate, progress: Progress) -> Counts:
    counts: Counts = Counter()
    for topic in node.topics:
        if tables.exists(spark, lake.log(topic.name)):
            log = read_log(spark, lake, topic, upto_ms=progress.upto_ms.get(topic.name, 0))
            records = (
                log.where(F.col("kind").isin(RECORD, DEAD_LETTER)).groupBy("partition").count().collect()
            )
            counts.update({(topic.name, row["partition"]): row["count"] for row in records})
    return counts


def _fates(
    spark: SparkSession, lake: Lake, node: WindowedAggregate, progress: Progress
) -> dict[tuple[str, int], Mapping[str, int]]:
    """The ledger as `Views.ledger` gives it, as of this progress: a running stream moves the view on."""
    still: Counts = Counter()
    if tables.exists(spark, lake.state(node.required_name)):
        state = tables.read(spark, lake.state(node.required_name)).where(F.col("__batch") <= progress.batch)
        counted = (
            still_open(state, node, progress)
            .groupBy("__topic", "__partition")
            .agg(F.sum("__records").alias("n"))
        )
        still.update({(row["__topic"], row["__partition"]): row["n"] for row in counted.collect()})
    fates: dict[tuple[str, int], Mapping[str, int]] = {}
    for topic, partitions in progress.records.items():
        for number, known in partitions.items():
            key = (topic, int(number))
            counts = {**known, OPEN: still[key], USED: known.get(KEPT, 0) - still[key]}
            fates[key] = {fate: counts.get(fate, 0) for fate in FATES}
    return fates

"""The double-entry books of a node: what was delivered, what became of it, what stands in the results.

Law: all numbers belong to one micro-batch of the node: the log is read as far as its progress goes, and state and
results at versions that hold that micro-batch and nothing of a later one.
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
    snapshot = _snapshot(spark, lake, node)
    delivered = _delivered(spark, lake, node, snapshot.progress)
    fates = _fates(node, snapshot)
    none = dict.fromkeys(FATES, 0)
    accounts = [
        Account(topic, partition, delivered[topic, partition], fates.get((topic, partition), none))
        for topic, partition in sorted(delivered.keys() | fates.keys())
    ]
    row = snapshot.results.agg(F.sum("__records").alias("records")).first()
    in_results = (row["records"] if row else 0) or 0
    return Books(node, snapshot.progress, snapshot.results, in_results, tuple(accounts))


@dataclass(frozen=True)
class _Snapshot:
    """A node's progress, and its tables as of exactly that micro-batch; no state before the first."""

    progress: Progress
    state: DataFrame | None
    results: DataFrame


def _snapshot(spark: SparkSession, lake: Lake, node: WindowedAggregate) -> _Snapshot:
    name = node.required_name
    for _ in range(ATTEMPTS):
        # The newest version first: what the stream commits after it shows in the progress, and is then not read.
        version = tables.latest_version(spark, lake.state(name))
        progress = read_progress(spark, lake, node)
        state = tables.last_commit(spark, lake.state(name), f"node/{name}")
        unmoved = state is None or (
            state.version <= version and state.record["progress"]["batch"] == progress.batch
        )
        results = _results(spark, lake, node, progress)
        if unmoved and results is not None:
            known = None if version < 0 else at_version(spark, lake.state(name), version)
            return _Snapshot(progress, known, results)
        time.sleep(PAUSE_SECONDS)
    raise TransientError(
        f"Node '{name}' moved on {ATTEMPTS} times while its books were read.", hint="Run the check again."
    )


def _results(
    spark: SparkSession, lake: Lake, node: WindowedAggregate, progress: Progress
) -> DataFrame | None:
    """The results as of a micro-batch; None when they are more than one ahead of it."""
    name, path = node.required_name, lake.table(node.required_name)
    if not tables.exists(spark, path):
        return spark.createDataFrame([], node_schemas(spark, node)[0])
    version = tables.latest_version(spark, path)
    newest = tables.last_commit(spark, path, f"node/{name}")
    ahead = 0 if newest is None else newest.record["batch"] - progress.batch
    if newest is not None and ahead == 1:
        version = min(version, newest.version - 1)  # its state is not committed yet
    return at_version(spark, path, version) if ahead <= 1 else None


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


def _fates(node: WindowedAggregate, snapshot: _Snapshot) -> dict[tuple[str, int], Mapping[str, int]]:
    """The ledger as `Views.ledger` gives it, as of this snapshot: a running stream moves the view on."""
    progress, still = snapshot.progress, Counter[tuple[str, int]]()
    if snapshot.state is not None:
        state = snapshot.state.where(F.col("__batch") <= progress.batch)
        counted = still_open(state, node, progress).groupBy("__topic", "__partition")
        rows = counted.agg(F.sum("__records").alias("n")).collect()
        still.update({(row["__topic"], row["__partition"]): row["n"] for row in rows})
    fates: dict[tuple[str, int], Mapping[str, int]] = {}
    for topic, partitions in progress.records.items():
        for number, known in partitions.items():
            key = (topic, int(number))
            counts = {**known, OPEN: still[key], USED: known.get(KEPT, 0) - still[key]}
            fates[key] = {fate: counts.get(fate, 0) for fate in FATES}
    return fates

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

from headrace import lake as lakes
from headrace.errors import TransientError
from headrace.fold.fates import FATES
from headrace.nodes.balances.older_rows import is_made
from headrace.nodes.balances.opening import Opening, read_opening
from headrace.nodes.bound_operator import bound
from headrace.nodes.node_tables import base_of, read_log, read_progress
from headrace.nodes.rows.node_frames import NodeFrames, shown_results
from headrace.observe.views import fates_of
from headrace.sequence.log_columns import DEAD_LETTER, RECORD
from headrace.spark.frames import local_frame
from headrace.spark.lake_rows import read_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake
    from headrace.nodes.progress import Progress

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
    """A node's accounts and tables as of one micro-batch; `in_results` are the records of which its table is made.

    in_results  None: its rows do not stand for numbers of records, as those of a table, where each replaces another
    """

    node: Node
    progress: Progress
    frames: NodeFrames
    results: DataFrame
    in_results: int | None
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


def open_books(spark: SparkSession, lake: Lake, node: Node) -> Books:
    """Read a node's books.

    Raises: TerminalError when the state was written by another description of the node;
            TransientError when the node moves on faster than it can be read.
    """
    held, progress = _snapshot(spark, lake, node)
    opening = read_opening(lake, node)
    delivered = _delivered(spark, lake, node, progress, opening)
    fates = fates_of(node, held, progress)
    none = dict.fromkeys(FATES, 0)
    accounts = [
        Account(topic, partition, delivered[topic, partition], fates.get((topic, partition), none))
        for topic, partition in sorted(delivered.keys() | fates.keys())
    ]
    results = _results_in(node, held, progress)
    return Books(node, progress, held, results, _records_in(results), tuple(accounts))


def _records_in(results: DataFrame) -> int | None:
    if "__records" not in results.columns:
        return None
    row = results.agg(F.sum("__records").alias("records")).first()
    return (row["records"] if row else 0) or 0


def _results_in(node: Node, frames: NodeFrames, progress: Progress) -> DataFrame:
    """The result rows, with `__records` where they stand for records; of current results with the changes since."""
    return frames.results if node.has_days else shown_results(node, frames, progress)


def _snapshot(spark: SparkSession, lake: Lake, node: Node) -> tuple[NodeFrames, Progress]:
    """The node's tables as of exactly one micro-batch, and its progress; no state before the first."""
    name = node.required_name
    for _ in range(ATTEMPTS):
        # The newest version first: what the stream commits after it shows in the progress, and is then not read.
        version = lakes.open_table(lake.state(name)).version
        progress = read_progress(lake, node)
        state = lakes.last_commit(lakes.open_table(lake.state(name)), f"node/{name}")
        unmoved = state is None or (
            state.version <= version and state.record["progress"]["batch"] == progress.batch
        )
        results = _base(spark, lake, node, progress)
        if unmoved and results is not None:
            known = None if version < 0 else read_table(spark, lake.state(name), version)
            return NodeFrames(results[0], known, results[1]), progress
        time.sleep(PAUSE_SECONDS)
    raise TransientError(
        f"Node '{name}' moved on {ATTEMPTS} times while its books were read.", hint="Run the check again."
    )


def _base(spark: SparkSession, lake: Lake, node: Node, progress: Progress) -> tuple[DataFrame, int] | None:
    """The result table as of a micro-batch, and the one folded into it; None when it is ahead of it."""
    name, path = node.required_name, lake.table(node.required_name)
    if not lakes.exists(path):
        return local_frame(spark, [], bound(spark, node).results), 0
    if not node.has_days:
        base = base_of(lake, node)
        return (base.read(spark), base.batch) if base.batch <= progress.batch else None
    version = lakes.open_table(path).version
    newest = lakes.last_commit(lakes.open_table(path), f"node/{name}")
    ahead = 0 if newest is None else newest.record["batch"] - progress.batch
    if newest is not None and ahead == 1:
        version = min(version, newest.version - 1)  # its state is not committed yet
    return (read_table(spark, path, version).where(is_made(node)), 0) if ahead <= 1 else None


def _delivered(spark: SparkSession, lake: Lake, node: Node, progress: Progress, opening: Opening) -> Counts:
    """The records in each log; those that were cut off as the opening balance counted them."""
    counts: Counts = Counter()
    for topic in node.topics:
        counts.update({(topic.name, p): records for p, records in opening.records(topic.name).items()})
        if lakes.exists(lake.log(topic.name)):
            after_ms, upto_ms = opening.upto_ms(topic.name), progress.upto_ms.get(topic.name, 0)
            log = read_log(spark, lake, topic, after_ms=after_ms, upto_ms=upto_ms)
            records = (
                log.where(F.col("kind").isin(RECORD, DEAD_LETTER)).groupBy("partition").count().collect()
            )
            counts.update({(topic.name, row["partition"]): row["count"] for row in records})
    return counts

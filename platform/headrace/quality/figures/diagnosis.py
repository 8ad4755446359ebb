"""Where the books of a node disagree with its log.

Asked only when they do not balance, for it reads the whole log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from headrace.description import TimeWindows, WindowedAggregate, quote
from headrace.description.clocks import WALL
from headrace.fold.fates import KEPT, OPEN
from headrace.nodes.balances.opening import read_opening
from headrace.nodes.rows.reader_frames import logs_and_unusable
from headrace.nodes.rows.row_frames import decided
from headrace.operators.registry import operator_for
from headrace.quality.books import Account
from headrace.quality.words import group_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.lake.paths import Lake
    from headrace.quality.books import Books

WINDOWS_SHOWN = 5


@dataclass(frozen=True)
class OpenDifference:
    """A partition whose state holds another number of records of open windows than its log."""

    account: Account
    in_log: int

    @property
    def in_state(self) -> int:
        """The records that the state holds."""
        return self.account.fates[OPEN]


@dataclass(frozen=True)
class WindowDifference:
    """A window whose row stands for another number of records than the log has for it."""

    group: str
    start_ms: int
    partitions: tuple[str, ...]
    in_log: int
    in_results: int


@dataclass(frozen=True)
class Diagnosis:
    """The differences; `windows` are the largest differences among `windows_differing`, `days` those of all."""

    open: tuple[OpenDifference, ...]
    windows: tuple[WindowDifference, ...]
    windows_differing: int
    days: tuple[str, ...]


def diagnose(spark: SparkSession, lake: Lake, books: Books) -> Diagnosis:
    """Count what the log says is open and used, and compare it with state and results.

    Tumbling and hopping windows alone can be told apart: theirs is a record by its own row. Where the log was cut, they
    cannot either: it no longer says how many records a window had.
    """
    if not operator_for(books.node).windows_by_time or not read_opening(lake, books.node).is_at_the_beginning:
        return Diagnosis((), (), 0, ())
    kept = _kept(spark, lake, books).persist()
    differing = _differing_windows(kept.where("__closed"), books).persist()
    try:
        largest = F.abs(F.col("__in_log") - F.col("__in_results")).desc()
        worst = differing.orderBy(largest, "__start").limit(WINDOWS_SHOWN).collect()
        days = (
            differing.select(F.to_date(F.timestamp_millis("__start")).alias("day"))
            .distinct()
            .orderBy("day")
            .collect()
        )
        return Diagnosis(
            _open_differences(kept, books),
            tuple(_window_difference(row.asDict(), books) for row in worst),
            differing.count(),
            tuple(str(row["day"]) for row in days),
        )
    finally:
        differing.unpersist()
        kept.unpersist()


def _window_difference(row: dict[str, Any], books: Books) -> WindowDifference:
    group, partitions = group_text(row, books.node.key[:-1]), tuple(sorted(row["__partitions"]))
    return WindowDifference(group, row["__start"], partitions, row["__in_log"], row["__in_results"])


def _kept(spark: SparkSession, lake: Lake, books: Books) -> DataFrame:
    """One row per record that entered windows: group, partition, start of its last window, if that closed."""
    node = books.node
    assert isinstance(node, WindowedAggregate)
    assert isinstance(node.window, TimeWindows)
    rows = decided(node, *logs_and_unusable(spark, lake, node, books.progress.upto_ms))
    closed_ms = F.lit(books.progress.closed_ms).cast("long")
    time = "__ingested_ms" if node.clock == WALL else "__event_ms"
    start = F.col(time) - F.pmod(time, F.lit(node.window.advance_ms))
    closed = F.coalesce(start + (node.window.size_ms + node.grace_ms) <= closed_ms, F.lit(False))
    return rows.where(F.col("__fate") == KEPT).select(
        *(F.col(quote(name)) for name in node.by),
        *("__topic", "__partition"),
        start.alias("__start"),
        closed.alias("__closed"),
    )


def _differing_windows(closed: DataFrame, books: Books) -> DataFrame:
    """One row per window whose records differ: the group columns, __start, in_log, in_results, partitions."""
    groups = [F.col(quote(name)) for name in books.node.key[:-1]]
    partition = F.concat_ws(" partition ", "__topic", F.col("__partition").cast("string"))
    log = closed.select(
        *groups,
        "__start",
        F.lit(1).alias("__in_log"),
        F.lit(0).alias("__in_results"),
        partition.alias("__at"),
    )
    start = F.unix_millis("window_start").alias("__start")
    nowhere = F.lit(None).cast("string").alias("__at")
    results = books.results.select(
        *groups, start, F.lit(0).alias("__in_log"), F.col("__records").alias("__in_results"), nowhere
    )
    return (
        log.unionByName(results)
        .groupBy(*groups, "__start")
        .agg(
            F.sum("__in_log").alias("__in_log"),
            F.sum("__in_results").alias("__in_results"),
            F.collect_set("__at").alias("__partitions"),
        )
        .where("__in_log <> __in_results")
    )


def _open_differences(kept: DataFrame, books: Books) -> tuple[OpenDifference, ...]:
    counted = kept.where("NOT __closed").groupBy("__topic", "__partition").count().collect()
    in_log = {(row["__topic"], row["__partition"]): row["count"] for row in counted}
    return tuple(
        OpenDifference(account, in_log.get((account.topic, account.partition), 0))
        for account in books.accounts
        if account.fates[OPEN] != in_log.get((account.topic, account.partition), 0)
    )

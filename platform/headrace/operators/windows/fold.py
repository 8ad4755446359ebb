"""Fold an increment of the log into a windowed aggregate.

The stream folds increments into its state; a backfill folds the whole log into nothing. There is no other code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.operators.progress import Tally
from headrace.operators.rows import KEPT, rows_of
from headrace.operators.windows.assign import assign_windows
from headrace.operators.windows.merge import merge_windows
from headrace.operators.windows.panes import last_window_start, starts_closed_between
from headrace.operators.windows.partials import partial_aggregates

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame

    from headrace.description import WindowedAggregate
    from headrace.operators.progress import Progress

NEVER_MS = 2**62


@dataclass(frozen=True)
class Folded:
    """What one increment leads to.

    finals    windows closed by it, as `merge_windows` gives them; None when it closes none
    partials  what to add to the state: partials of windows that are still open
    progress  the node's progress afterwards
    release   frees what was cached; call it when both frames have been written
    """

    finals: DataFrame | None
    partials: DataFrame
    progress: Progress
    cached: DataFrame

    def release(self) -> None:
        """Free the cached partials."""
        self.cached.unpersist()


def fold_windows(
    node: WindowedAggregate,
    logs: Mapping[str, DataFrame],
    upto_ms: Mapping[str, int],
    state: DataFrame | None,
    progress: Progress,
) -> Folded:
    """Fold rows of the logs into the state.

    In:     logs      for each topic, whole log commits after `progress.upto_ms` and through `upto_ms`
            state     partials appended by earlier micro-batches (rows of the state table); None: none yet
    Law:    folding a log in pieces emits the same windows with the same values as folding it whole.
    """
    rows = assign_windows(rows_of(logs, node.stream), node)
    partials = partial_aggregates(rows, node).persist()
    after = progress.after(upto_ms, _tallies(partials), (topic.name for topic in node.topics))
    kept = partials.where(F.col("__fate") == KEPT).drop("__fate")
    finals = None
    if after.closed_ms is not None and after.closed_ms != progress.closed_ms:
        closing = starts_closed_between(node.window, node.grace_ms, progress.closed_ms, after.closed_ms)
        if closing is not None:
            parts = kept if state is None else kept.unionByName(state.drop("__batch"))
            finals = merge_windows(parts, node, rows.schema, first_ms=closing[0], last_ms=closing[1])
    return Folded(
        finals, still_open(kept, node, after).withColumn("__batch", F.lit(after.batch)), after, partials
    )


def still_open(partials: DataFrame, node: WindowedAggregate, progress: Progress) -> DataFrame:
    """The partials that belong to a window not yet closed."""
    if progress.closed_ms is None:
        return partials
    return partials.where(~closed(node, progress.closed_ms))


def closed(node: WindowedAggregate, closed_ms: int) -> Expr:
    """Whether the last window of a partial is closed: nothing will read it any more."""
    closes_ms = last_window_start(node.window, F.col("__pane")) + (node.window.size_ms + node.grace_ms)
    return closes_ms <= closed_ms


def _tallies(partials: DataFrame) -> list[Tally]:
    counted = partials.groupBy("__topic", "__partition", "__fate").agg(
        F.sum("__records").alias("records"), F.max("__stream_ms").alias("stream_ms")
    )
    return [
        Tally(r["__topic"], r["__partition"], r["__fate"], r["records"], r["stream_ms"])
        for r in counted.collect()
    ]

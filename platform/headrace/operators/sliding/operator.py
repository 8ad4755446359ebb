"""Sliding windows as an operator: the stream folds increments into its state, a backfill folds the whole log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import WindowedAggregate
from headrace.operators.operator import AppendedOperator, Folded, Held, Schemas, nullable, of_batch, tallies
from headrace.operators.partials import kept_partials, partial_aggregates
from headrace.operators.progress import Progress, Tally
from headrace.operators.rows import KEPT, LATE, rows_of
from headrace.operators.sequence import in_order_of_ends
from headrace.operators.sliding.assign import assign_ends, difference_ms
from headrace.operators.sliding.late import late_records
from headrace.operators.sliding.merge import entering_none, merge_windows, running_windows
from headrace.spark.frames import Cache
from headrace.spark.varying import varying

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


class SlidingOperator(AppendedOperator[WindowedAggregate]):
    """Sliding windows; see the package for their law."""

    final_at = "window_end"

    def decide(self, logs: Mapping[str, DataFrame]) -> DataFrame:
        """Late, dead or kept, and the windows that are open (see `assign_ends`)."""
        return assign_ends(rows_of(logs, self.node.stream), self.node)

    def schemas(self, logs: Mapping[str, DataFrame]) -> Schemas:
        """Windows, and partials with the micro-batch that appended them."""
        rows = self.decide(logs)
        partials = kept_partials(self._partials(rows))
        results = merge_windows(partials, self.node, rows.schema, first_ms=0, last_ms=None)
        return Schemas(rows.schema, nullable(results), nullable(partials.withColumn("__batch", F.lit(0))))

    def fold(
        self, logs: Mapping[str, DataFrame], upto_ms: Mapping[str, int], held: Held, progress: Progress
    ) -> Folded:
        """Results are the windows that the increment closes; the state gains partials that open windows may need."""
        rows, topics = self.decide(logs), [topic.name for topic in self.node.topics]
        cache = Cache()
        partials = cache.share(self._partials(rows))
        counted = tallies(partials)
        after, results = progress.after(upto_ms, counted, topics), None
        kept = kept_partials(partials)
        if after.closed_ms is not None and after.closed_ms != progress.closed_ms:
            parts = kept if held.state is None else kept.unionByName(held.state.drop("__batch"))
            first_ms, last_ms = self._first_open_ms(progress), self._first_open_ms(after) - 1
            results = merge_windows(parts, self.node, rows.schema, first_ms=first_ms, last_ms=last_ms)
            missed = self._entered_none(parts, first_ms, last_ms)
            after = progress.after(upto_ms, [*counted, *missed], topics)
        state = of_batch(self._needed(kept, after), after.batch)
        emitted = None if results is None else lambda: self.emitted(results)
        return Folded(results, state, after, emitted, cache.release)

    def read(self, held: Held, progress: Progress, inputs: StructType) -> DataFrame:
        """Final windows if suppressed, else every window as of now."""
        assert held.results is not None
        if self.node.suppression is not None or held.state is None:
            return held.results
        return held.results.unionByName(self.open_windows(held.state, progress, inputs))

    def open_windows(self, state: DataFrame, progress: Progress, inputs: StructType) -> DataFrame:
        """The windows that are not closed yet, with their values so far."""
        first_ms = self._first_open_ms(progress)
        return merge_windows(state.drop("__batch"), self.node, inputs, first_ms=first_ms, last_ms=None)

    def updates(self, held: Held, progress: Progress, inputs: StructType) -> DataFrame:
        """What each window was worth after each micro-batch that touched it."""
        assert held.results is not None
        finals = held.results.withColumn("__batch", F.lit(None).cast("long"))
        if held.state is None:
            return finals
        open_ends = F.unix_millis("window_end") >= self._first_open_ms(progress)
        running = running_windows(held.state, self.node, inputs)
        return finals.unionByName(running.where(open_ends))

    def late(self, decided: DataFrame) -> DataFrame:
        """See `late_records`."""
        return late_records(decided, self.node)

    def open_records(self, state: DataFrame, progress: Progress) -> DataFrame | None:
        """A record is open while a window that holds it may be."""
        return state.where(F.col("__point") + difference_ms(self.node) >= self._first_open_ms(progress))

    def expired(self, progress: Progress) -> Expr | None:
        """Partials of closed windows."""
        return (
            None if progress.closed_ms is None else ~self._still_needed(F.lit(self._first_open_ms(progress)))
        )

    def settled(self, progress: Progress) -> Expr:
        """Windows that end no later than the last one closed."""
        return F.unix_millis("window_end") < self._first_open_ms(progress)

    def recompute(
        self, logs: Mapping[str, DataFrame], progress: Progress, span_ms: tuple[int, int] | None
    ) -> DataFrame:
        """The closed windows that start in the span."""
        rows, width = self.decide(logs), difference_ms(self.node)
        first_ms, last_ms = 0, self._first_open_ms(progress) - 1
        if span_ms is not None:
            first_ms, last_ms = span_ms[0] + width, min(last_ms, span_ms[1] + width)
            rows = rows.where(F.col("__event_ms").between(span_ms[0] - 1, last_ms))
        partials = kept_partials(self._partials(rows))
        return merge_windows(partials, self.node, rows.schema, first_ms=first_ms, last_ms=last_ms)

    def emitted(self, results: DataFrame) -> DataFrame:
        """See `in_order_of_ends`."""
        return in_order_of_ends(results, self.node)

    def _partials(self, rows: DataFrame) -> DataFrame:
        points = {"__point": F.col("__point"), "__from": F.col("__from")}
        return partial_aggregates(rows, self.node.by, self.node.aggregates, also_by=points)

    def _first_open_ms(self, progress: Progress) -> int:
        """The first end of a window that is not closed."""
        return 0 if progress.closed_ms is None else max(0, progress.closed_ms - self.node.grace_ms + 1)

    def _still_needed(self, first_open_ms: Expr) -> Expr:
        """Whether a partial is in, or makes, a window that is open or that holds a record which may still be late."""
        longest = 2 * difference_ms(self.node) + 1
        return F.col("__point") + longest >= first_open_ms

    def _needed(self, partials: DataFrame, progress: Progress) -> DataFrame:
        return partials.where(self._still_needed(varying(self._first_open_ms(progress))))

    def _entered_none(self, parts: DataFrame, first_ms: int, last_ms: int) -> list[Tally]:
        """Kept records that turn out late: all windows that could hold them end here at the latest, and none did."""
        width = difference_ms(self.node)
        near = parts.where(F.col("__point").between(first_ms - 2 * width - 1, last_ms))
        none = entering_none(near, self.node)
        none = none.where((F.col("__point") + width).between(first_ms, last_ms))
        counted = none.groupBy("__topic", "__partition").agg(F.sum("__records").alias("records")).collect()
        return [
            Tally(row["__topic"], row["__partition"], fate, sign * row["records"], None)
            for row in counted
            for fate, sign in ((KEPT, -1), (LATE, 1))
        ]

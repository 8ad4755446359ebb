"""Windowed aggregates as an operator: the stream folds increments into its state, a backfill folds the whole log."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import WindowedAggregate, quote
from headrace.description.limits import policy_of
from headrace.description.suppression import SHUT_DOWN
from headrace.operators.limits import entries_in, in_force
from headrace.operators.operator import AppendedOperator, Folded, Held, Schemas, nullable, of_batch, tallies
from headrace.operators.partials import kept_partials, merged_columns, partial_aggregates
from headrace.operators.progress import Progress
from headrace.operators.rows import rows_of
from headrace.operators.sequence import in_order_of_ends
from headrace.operators.windows.assign import assign_windows
from headrace.operators.windows.bound import too_much_open
from headrace.operators.windows.columnar import columnar_windows
from headrace.operators.windows.late import late_records
from headrace.operators.windows.merge import merge_windows, running_windows
from headrace.operators.windows.panes import last_window_start, starts_closed_between, time_windows
from headrace.spark.frames import Cache
from headrace.spark.varying import varying

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from headrace.description import Bound
    from headrace.errors import TerminalError
    from headrace.operators.columnar import Columnar


class WindowOperator(AppendedOperator[WindowedAggregate]):
    """Tumbling and hopping windows; see the package for their law."""

    final_at = "window_end"

    def __init__(self, node: WindowedAggregate) -> None:
        """The operator of one node with such windows."""
        super().__init__(node)
        self.window = time_windows(node)

    def decide(self, logs: Mapping[str, DataFrame]) -> DataFrame:
        """Late, dead or kept, and the windows entered (see `assign_windows`)."""
        return assign_windows(rows_of(logs, self.node.stream), self.node)

    def schemas(self, logs: Mapping[str, DataFrame]) -> Schemas:
        """Windows, and partials with the micro-batch that appended them."""
        rows = self.decide(logs)
        partials = kept_partials(self._partials(rows))
        results = merge_windows(partials, self.node, rows.schema, first_ms=0, last_ms=None)
        return Schemas(rows.schema, nullable(results), nullable(partials.withColumn("__batch", F.lit(0))))

    def fold(
        self, logs: Mapping[str, DataFrame], upto_ms: Mapping[str, int], held: Held, progress: Progress
    ) -> Folded:
        """Results are the windows that the increment closes; the state gains partials of windows still open."""
        rows = self.decide(logs)
        cache = Cache()
        partials = cache.share(self._partials(rows))
        after = progress.after(upto_ms, tallies(partials), (topic.name for topic in self.node.topics))
        if self._bound(progress) is not None:
            set_here = entries_in(rows, self.node.name or "")
            after = replace(after, limits=in_force(policy_of(self.node), progress.limits, set_here).altered)
        kept = kept_partials(partials)
        results = None
        if after.closed_ms is not None and after.closed_ms != progress.closed_ms:
            closing = starts_closed_between(
                self.window, self.node.grace_ms, progress.closed_ms, after.closed_ms
            )
            if closing is not None:
                first_ms, last_ms = closing
                known = held.state_within("__pane", first_ms, last_ms + self.window.size_ms - 1)
                parts = kept if known is None else kept.unionByName(known.drop("__batch"))
                results = merge_windows(parts, self.node, rows.schema, first_ms=first_ms, last_ms=last_ms)
        state = of_batch(self._still_open(kept, after), after.batch)
        emitted = None if results is None else lambda: self.emitted(results)
        refused = self._refusal(kept, held, after, rows.schema)
        return Folded(results, state, after, emitted, cache.release, refused)

    def columnar(self, schemas: Schemas) -> Columnar | None:
        """Unless it has to stop when too much is open; by the types of its groups and by its aggregates."""
        return columnar_windows(self, schemas.inputs)

    def read(self, held: Held, progress: Progress, inputs: StructType) -> DataFrame:
        """Final windows if suppressed, else every window as of now."""
        assert held.results is not None
        if self.node.suppression is not None or held.state is None:
            return held.results
        return held.results.unionByName(self.open_windows(held.state, progress, inputs))

    def open_windows(self, state: DataFrame, progress: Progress, inputs: StructType) -> DataFrame:
        """The windows that are not closed yet, with their values so far."""
        partials = state.drop("__batch")
        return merge_windows(
            partials, self.node, inputs, first_ms=self._first_open_ms(progress), last_ms=None
        )

    def updates(self, held: Held, progress: Progress, inputs: StructType) -> DataFrame:
        """What each window was worth after each micro-batch that touched it."""
        assert held.results is not None
        finals = held.results.withColumn("__batch", F.lit(None).cast("long"))
        if held.state is None:
            return finals
        return finals.unionByName(running_windows(held.state, self.node, inputs))

    def late(self, decided: DataFrame) -> DataFrame:
        """See `late_records`."""
        return late_records(decided, self.node)

    def open_records(self, state: DataFrame, progress: Progress) -> DataFrame | None:
        """A record is open while the last of its windows is."""
        return self._still_open(state, progress)

    def expired(self, progress: Progress) -> Expr | None:
        """Partials of closed windows."""
        return None if progress.closed_ms is None else self._closed(F.lit(progress.closed_ms))

    def condensed(self, state: DataFrame, inputs: StructType) -> DataFrame:
        """Of a group, pane and partition one row, where nobody is shown what a window was worth in between."""
        if self.node.suppression is None:
            return state
        by = [*(quote(name) for name in self.node.by), "__topic", "__partition", "__pane", "__from"]
        highest = (F.max(name).alias(name) for name in ("__event_ms", "__stream_ms", "__batch"))
        rows = state.groupBy(*by).agg(
            *merged_columns(self.node.aggregates, inputs), F.sum("__records").alias("__records"), *highest
        )
        return rows.select(*(F.col(quote(name)) for name in state.columns))

    def settled(self, progress: Progress) -> Expr:
        """Windows that start no later than the last one closed."""
        closing = self._all_closed(progress)
        return F.unix_millis("window_start") <= (closing[1] if closing else -1)

    def recompute(
        self, logs: Mapping[str, DataFrame], progress: Progress, span_ms: tuple[int, int] | None
    ) -> DataFrame:
        """The closed windows that start in the span."""
        window, rows = self.window, self.decide(logs)
        first_ms, last_ms = self._all_closed(progress) or (0, -1)
        if span_ms is not None:
            first_ms = max(first_ms, -(-span_ms[0] // window.advance_ms) * window.advance_ms)
            last_ms = min(last_ms, span_ms[1])
            rows = rows.where(F.col("__event_ms").between(first_ms, last_ms + window.size_ms))
        partials = kept_partials(self._partials(rows))
        last_ms = last_ms // window.advance_ms * window.advance_ms
        windows = merge_windows(partials, self.node, rows.schema, first_ms=first_ms, last_ms=last_ms)
        return windows.where(F.unix_millis("window_start") >= first_ms)

    def emitted(self, results: DataFrame) -> DataFrame:
        """See `in_order_of_ends`."""
        return in_order_of_ends(results, self.node)

    def _refusal(
        self, kept: DataFrame, held: Held, after: Progress, inputs: StructType
    ) -> TerminalError | None:
        """Why the stream has to stop: more windows would be open in a partition than its suppression allows."""
        bound = self._bound(after)
        if bound is None:
            return None
        parts = kept if held.state is None else kept.unionByName(held.state.drop("__batch"))
        return too_much_open(
            self._still_open(parts, after), self.node, bound, inputs, self._first_open_ms(after)
        )

    def _bound(self, progress: Progress) -> Bound | None:
        """What may be open as of a progress before the stream has to stop; None: anything may."""
        policy = self.node.suppression
        if policy is None or policy.bound.when_full != SHUT_DOWN:
            return None
        return in_force(policy, progress.limits).begun.bound

    def _partials(self, rows: DataFrame) -> DataFrame:
        panes = {"__pane": F.col("__pane"), "__from": F.col("__from")}
        return partial_aggregates(rows, self.node.by, self.node.aggregates, also_by=panes)

    def _still_open(self, partials: DataFrame, progress: Progress) -> DataFrame:
        if progress.closed_ms is None:
            return partials
        return partials.where(~self._closed(varying(progress.closed_ms)))

    def _closed(self, closed_ms: Expr) -> Expr:
        """Whether the last window of a partial is closed: nothing will read it any more."""
        window = self.window
        return last_window_start(window, F.col("__pane")) + (window.size_ms + self.node.grace_ms) <= closed_ms

    def _all_closed(self, progress: Progress) -> tuple[int, int] | None:
        if progress.closed_ms is None:
            return None
        return starts_closed_between(self.window, self.node.grace_ms, None, progress.closed_ms)

    def _first_open_ms(self, progress: Progress) -> int:
        closing = self._all_closed(progress)
        return 0 if closing is None else closing[1] + self.window.advance_ms

"""Session windows as an operator: the stream folds increments into its open sessions, a backfill folds the whole log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.description import WindowedAggregate, quote
from headrace.operators.operator import (
    AppendedOperator,
    Folded,
    Held,
    Schemas,
    newest_of,
    nullable,
    of_batch,
    tallies,
)
from headrace.operators.partials import decide_by_group, finished_columns, kept_partials
from headrace.operators.progress import Progress, Tally
from headrace.operators.rows import KEPT, LATE, rows_of
from headrace.operators.sessions.closing import closed_at, is_closed
from headrace.operators.sessions.fold import BEFORE_ALL, NOTHING_CLOSED, assigned, merge_sessions
from headrace.operators.sessions.late import late_records
from headrace.operators.sessions.runs import runs_of
from headrace.spark.frames import Cache

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

NO_STREAM_TIME: Mapping[str, int] = {}


class SessionOperator(AppendedOperator[WindowedAggregate]):
    """Session windows; see the package for their law."""

    final_at = "__closed_at"

    @property
    def uncuttable(self) -> str:
        """A view folds the log from its start."""
        return "which records were late for a session is told with the sessions before them"

    def decide(self, logs: Mapping[str, DataFrame]) -> DataFrame:
        """Every record that has a group and usable inputs is kept; which of these are late, only the fold can tell."""
        return decide_by_group(rows_of(logs, self.node.stream), self.node.by, self.node.aggregates)

    def schemas(self, logs: Mapping[str, DataFrame]) -> Schemas:
        """Sessions that closed; and open ones as partials, with the micro-batch that appended them."""
        rows = self.decide(logs)
        found = self._merged(kept_partials(self._runs(rows, NO_STREAM_TIME)), rows.schema)
        results = self._results(found, rows)
        return Schemas(rows.schema, nullable(results), nullable(self._state(found, 0)))

    def fold(
        self, logs: Mapping[str, DataFrame], upto_ms: Mapping[str, int], held: Held, progress: Progress
    ) -> Folded:
        """Results are the sessions that the increment closes; the state gains the open sessions of each group touched."""
        rows, topics = self.decide(logs), [topic.name for topic in self.node.topics]
        cache = Cache()
        runs = cache.share(self._runs(rows, self._stream_ms(progress)))
        counted = tallies(runs)
        reached_ms = self._stream_ms(progress.after(upto_ms, counted, topics))
        items = kept_partials(runs)
        if held.state is not None:
            items = items.unionByName(self._concerned(held.state, items, progress, reached_ms))
        found = self._merged(items, rows.schema)
        found = cache.share(found.withColumn("__closed", self._closed(reached_ms)))
        late, closes = _late_and_closing(found)
        after = progress.after(upto_ms, _judged(counted, late), topics)
        sessions = found.where(F.col("__session").isNotNull())
        results = self._results(sessions.where("__closed"), rows) if closes else None
        state = self._state(sessions.where("NOT __closed"), after.batch)
        emitted = None if results is None else lambda: self.emitted(results)
        return Folded(results, state, after, emitted, cache.release)

    def read(self, held: Held, progress: Progress, inputs: StructType) -> DataFrame:
        """Final sessions if suppressed, else every session as of now."""
        assert held.results is not None
        if self.node.suppression is not None or held.state is None:
            return held.results
        return self._users(held.results).unionByName(self.open_windows(held.state, progress, inputs))

    def open_windows(self, state: DataFrame, progress: Progress, inputs: StructType) -> DataFrame:
        """The sessions that are not closed yet, with their values so far."""
        return self._shown(self._open(state, progress), inputs)

    def updates(self, held: Held, progress: Progress, inputs: StructType) -> DataFrame:
        """What the open sessions of each group were after each micro-batch that touched it.

        A session that became part of another, or grew, is gone under its old bounds: a tombstone, its last word.
        """
        assert held.results is not None
        last_word = F.lit(None).cast("long").alias("__batch")
        finals = self._users(held.results).select("*", last_word)
        if held.state is None:
            return finals
        identity = [F.col(quote(name)) for name in self.node.identity]
        updates = self._shown(held.state, inputs, "__batch")
        standing = finals.drop("__batch").unionByName(self.open_windows(held.state, progress, inputs))
        gone = updates.select(*identity).distinct()
        gone = gone.join(standing.select(*identity), list(self.node.identity), "left_anti")
        tombstones = gone.select(*identity, last_word)
        return finals.unionByName(updates).unionByName(tombstones, allowMissingColumns=True)

    def late(self, decided: DataFrame) -> DataFrame:
        """See `late_records`."""
        return late_records(decided, self.node)

    def open_records(self, state: DataFrame, progress: Progress) -> DataFrame | None:
        """The records of sessions that are open."""
        return self._open(state, progress).select("__topic", "__partition", "__records")

    @property
    def superseding(self) -> tuple[str, ...]:
        """A group's newest rows are all its open sessions, in either partition."""
        return (*self.node.by, "__partition")

    def expired(self, progress: Progress) -> Expr | None:
        """Sessions that have closed."""
        return self._closed(self._stream_ms(progress))

    def settled(self, progress: Progress) -> Expr:
        """Sessions that the stream time of their partition has closed."""
        return self._closed(self._stream_ms(progress), F.unix_millis("window_end"))

    def recompute(
        self, logs: Mapping[str, DataFrame], progress: Progress, span_ms: tuple[int, int] | None
    ) -> DataFrame:
        """The closed sessions that start in the span.

        Where they start can depend on all before: runs are made of the whole log, but folded only from where nothing was
        open before the span, and only if a record of theirs lies in it.
        """
        rows = self.decide(logs)
        found = self._merged(kept_partials(self._runs(rows, NO_STREAM_TIME)), rows.schema, span_ms)
        closed = found.where(F.col("__session").isNotNull() & self._closed(self._stream_ms(progress)))
        if span_ms is not None:
            closed = closed.where(F.col("__start_ms").between(*span_ms))
        return self._results(closed, rows)

    def emitted(self, results: DataFrame) -> DataFrame:
        """Sessions in the order in which commits closed them; those of one commit by their ends, then by group."""
        by = [F.col(quote(name)) for name in self.node.by]
        ordinal = F.row_number().over(
            Window.partitionBy("__closed_at").orderBy("window_end", *by, "__partition")
        )
        return results.select(
            *(F.col(quote(name)) for name in self.node.columns),
            F.lit(False).alias("__deleted"),
            F.col("__timestamp"),
            F.unix_millis("__closed_at").alias("__sequence"),
            (ordinal - 1).alias("__ordinal"),
        )

    def _stream_ms(self, progress: Progress) -> Mapping[str, int]:
        return progress.stream_ms.get(self.node.topics[0].name, NO_STREAM_TIME)

    def _closed(self, stream_ms: Mapping[str, int], end_ms: Expr | None = None) -> Expr:
        return is_closed(F.col("__end_ms") if end_ms is None else end_ms, self.node.final_ms, stream_ms)

    def _runs(self, rows: DataFrame, known_ms: Mapping[str, int]) -> DataFrame:
        return runs_of(rows, self.node, self.node.aggregates, known_ms)

    def _merged(
        self, items: DataFrame, inputs: StructType, span_ms: tuple[int, int] | None = None
    ) -> DataFrame:
        return merge_sessions(assigned(items, self.node, span_ms), self.node, self.node.aggregates, inputs)

    def _open(self, state: DataFrame, progress: Progress) -> DataFrame:
        """The open sessions as of a micro-batch, one row each."""
        still = state.where(~self._closed(self._stream_ms(progress)))
        return newest_of(still, self._groups()).drop("__batch")

    def _concerned(
        self, state: DataFrame, items: DataFrame, progress: Progress, reached_ms: Mapping[str, int]
    ) -> DataFrame:
        """Of the sessions open before, those that close now, and those of groups with new records; as items."""
        touched = items.select(*self._groups()).distinct().withColumn("__touched", F.lit(True))
        still = self._open(state, progress).join(touched, list(self.superseding), "left")
        concerned = still.where(F.col("__touched") | self._closed(reached_ms)).drop("__touched")
        return concerned.withColumns(
            {
                "__offset": F.lit(BEFORE_ALL).cast("long"),
                "__before_ms": F.lit(NOTHING_CLOSED).cast("long"),
                "__old": F.lit(False),
                "__stream_ms": F.lit(None).cast("long"),
            }
        )

    def _state(self, still_open: DataFrame, batch: int) -> DataFrame:
        return of_batch(still_open.drop("__session", "__closed"), batch)

    def _shown(self, sessions: DataFrame, inputs: StructType, *also: str) -> DataFrame:
        """Sessions with their values, from merged partials."""
        return sessions.select(
            *(F.col(quote(name)) for name in self.node.by),
            F.timestamp_millis("__start_ms").alias("window_start"),
            F.timestamp_millis("__end_ms").alias("window_end"),
            *finished_columns(self.node.aggregates, inputs),
            *also,
        )

    def _results(self, closed: DataFrame, rows: DataFrame) -> DataFrame:
        timed = closed_at(closed, rows, self.node.final_ms)
        timed = timed.withColumn("__timestamp", F.timestamp_millis("__end_ms"))
        return self._shown(timed, rows.schema, "__timestamp", "__records", "__partition", "__closed_at")

    def _users(self, results: DataFrame) -> DataFrame:
        return results.select(*(F.col(quote(name)) for name in self.node.columns))

    def _groups(self) -> list[Expr]:
        return [*(F.col(quote(name)) for name in self.node.by), F.col("__partition")]


def _late_and_closing(found: DataFrame) -> tuple[dict[int, int], bool]:
    """The late records of each partition, and whether any session has closed."""
    late = F.col("__session").isNull()
    counted = found.groupBy("__partition").agg(
        F.sum(F.when(late, F.col("__records")).otherwise(0)).alias("late"),
        F.count_if(~late & F.col("__closed")).alias("closes"),
    )
    rows = counted.collect()
    return {row["__partition"]: row["late"] for row in rows}, any(row["closes"] for row in rows)


def _judged(counted: list[Tally], late: Mapping[int, int]) -> list[Tally]:
    """What was kept so far, told apart into kept and late."""
    judged = []
    for tally in counted:
        missed = late.get(tally.partition, 0) if tally.fate == KEPT else 0
        judged.append(
            Tally(tally.topic, tally.partition, tally.fate, tally.records - missed, tally.stream_ms)
        )
        if missed:
            judged.append(Tally(tally.topic, tally.partition, LATE, missed, None))
    return judged

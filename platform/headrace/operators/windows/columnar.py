"""Windows by Arrow: what `WindowOperator.fold` does, behind the fates and panes that Spark decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from headrace.description import quote
from headrace.description.suppression import SHUT_DOWN
from headrace.operators.columnar import Columnar, ColumnarFold, Found
from headrace.operators.columnar.aggregates import arrow_aggregates
from headrace.operators.columnar.fold import tallied
from headrace.operators.columnar.places import sorted_topics, source, topic_names
from headrace.operators.rows import KEPT
from headrace.operators.windows.panes import last_window_start, starts_closed_between, time_windows
from headrace.spark.frames import Selection
from headrace.spark.one_task import COMPARED, NotCertainError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

    from headrace.description import TimeWindows
    from headrace.operators.columnar import HeldFiles
    from headrace.operators.columnar.aggregates import ArrowAggregates
    from headrace.operators.progress import Progress
    from headrace.operators.windows.operator import WindowOperator

WINDOW = "__start"
PIECES_MAX = 1 << 23  # of panes, one for each window: windows may overlap a thousand times


def columnar_windows(operator: WindowOperator, inputs: StructType) -> Columnar | None:
    """How the increments of a node are folded; None: Spark has to.

    In: inputs  the schema of `decide`
    """
    node = operator.node
    bounded = node.suppression is not None and node.suppression.bound.when_full == SHUT_DOWN
    aggregates = arrow_aggregates(node.aggregates, inputs)
    by = {field.name.lower(): field.dataType for field in inputs}
    if node.stream.transformed or bounded or aggregates is None:
        return None
    if not all(isinstance(by[name.lower()], COMPARED) for name in node.by):
        return None
    window, topics = time_windows(node), sorted_topics([topic.name for topic in node.topics])
    fold = ColumnarWindows(
        by=node.by, topics=topics, window=window, grace_ms=node.grace_ms, aggregates=aggregates[0]
    )
    kept = F.col("__fate") == KEPT
    columns = Selection(
        *(F.col(quote(name)).alias(name) for name in node.by),
        *(expression.alias(name) for name, expression in aggregates[1].items()),
        *([source(topics, topics)] if len(topics) > 1 else []),
        F.col("__partition"),
        F.when(~kept, F.col("__fate")).alias("__fate"),
        *(F.col(name) for name in (*fold.panes, "__event_ms", "__stream_ms")),
    )
    return Columnar(fold, lambda logs: columns.of(operator.decide(logs)))


@dataclass(frozen=True)
class ColumnarWindows(ColumnarFold):
    """Tumbling and hopping windows of one node.

    topics  of the node; which is a row's goes to the task only if there are several
    """

    by: tuple[str, ...]
    topics: tuple[str, ...]
    window: TimeWindows
    grace_ms: int
    aggregates: ArrowAggregates

    @property
    def tumbling(self) -> bool:
        """Whether each pane is a window."""
        return self.window.advance_ms == self.window.size_ms

    @property
    def place(self) -> tuple[str, ...]:
        """What tells the partitions apart."""
        return ("__partition",) if len(self.topics) == 1 else ("__source", "__partition")

    @property
    def panes(self) -> tuple[str, ...]:
        """Which windows a row enters: in a tumbling one `__from` is the pane."""
        return ("__pane",) if self.tumbling else ("__pane", "__from")

    def fold(self, rows: pa.Table, upto_ms: Mapping[str, int], held: HeldFiles, progress: Progress) -> Found:
        """See `WindowOperator.fold`."""
        after = progress.after(upto_ms, tallied(rows, self.topics), self.topics)
        kept = pc.is_null(rows["__fate"]).to_numpy()
        pane = rows["__pane"].fill_null(0).to_numpy()
        results, still_open = None, kept
        if after.closed_ms is not None:
            last = last_window_start(self.window, pane)
            still_open = kept & (last + (self.window.size_ms + self.grace_ms) > after.closed_ms)
        if after.closed_ms is not None and after.closed_ms != progress.closed_ms:
            closing = starts_closed_between(self.window, self.grace_ms, progress.closed_ms, after.closed_ms)
            if closing is not None:
                results = self._closed(rows, kept, pane, held, *closing)
        by = [*self.by, *self.place, *self.panes]
        state = self.aggregates.partials(rows, by, pa.array(still_open), also=("__stream_ms",))
        columns = {name: state[name] for name in state.column_names}
        if self.tumbling:
            columns["__from"] = columns["__pane"]
        if len(self.topics) == 1:
            columns["__topic"] = pa.repeat(pa.scalar(self.topics[0]), state.num_rows)
        else:
            columns["__topic"] = topic_names(state["__source"], self.topics)
        return Found(results, [pa.table(columns)], after)

    def _closed(
        self, rows: pa.Table, kept: np.ndarray, pane: np.ndarray, held: HeldFiles, first_ms: int, last_ms: int
    ) -> pa.Table:
        """The windows that start from `first_ms` through `last_ms` (see `merge_windows`)."""
        through_ms, by = last_ms + self.window.size_ms - 1, [*self.by, *self.panes]
        known = held.state.within("__pane", first_ms, through_ms, [*by, *self.aggregates.kept_for_results])
        mine = pa.array(kept & (pane >= first_ms) & (pane <= through_ms))
        came = self.aggregates.partials(rows, by, mine)
        if self.tumbling and not known.num_rows:
            merged = came.rename_columns({"__pane": WINDOW})
        else:
            parts = pa.concat_tables([came, known.select(came.column_names).cast(came.schema)])
            merged = self.aggregates.merged(self._in_windows(parts, first_ms, last_ms), [*self.by, WINDOW])
        start = merged[WINDOW]
        columns = {name: merged[name] for name in self.by} | self.aggregates.finish(merged)
        times = {
            "window_start": start,
            "window_end": pc.add(start, self.window.size_ms),
            "__timestamp": merged["__event_ms"],
        }
        columns |= {name: pc.multiply(ms, 1000) for name, ms in times.items()}
        return pa.table(columns | {"__records": merged["__records"]})

    def _in_windows(self, parts: pa.Table, first_ms: int, last_ms: int) -> pa.Table:
        """A row for each window of a part; its records count in the last of them alone."""
        advance_ms = self.window.advance_ms
        last = last_window_start(self.window, _numbers(parts, "__pane"))
        if self.tumbling:
            return parts.append_column(WINDOW, pa.array(last))
        begins, ends = np.maximum(_numbers(parts, "__from"), first_ms), np.minimum(last, last_ms)
        windows = np.maximum((ends - begins) // advance_ms + 1, 0)
        if windows.sum() > PIECES_MAX:
            raise NotCertainError("more pieces of windows than one task takes")
        row = np.repeat(np.arange(len(windows)), windows)
        number = np.arange(len(row)) - np.repeat(np.cumsum(windows) - windows, windows)
        start = begins[row] + number * advance_ms
        exploded = parts.take(pa.array(row))
        records = np.where(start == last[row], _numbers(exploded, "__records"), 0)
        place = exploded.column_names.index("__records")
        exploded = exploded.set_column(place, "__records", pa.array(records))
        return exploded.append_column(WINDOW, pa.array(start))


def _numbers(table: pa.Table, name: str) -> np.ndarray:
    numbers: np.ndarray = table[name].to_numpy()
    return numbers

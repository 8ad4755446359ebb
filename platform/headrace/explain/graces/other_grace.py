"""`what-if`: a windowed node with another grace, on its log as it is.

Law: both answers are folds of the same rows of the log, by the operator that streams run. So the rows are those of a run
with that grace. The lake is read alone; what is folded lies in a temporary folder.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description.durations import duration_ms
from headrace.description.windows import END, START
from headrace.explain.scope_size import require_small
from headrace.explain.tables.compared_rows import ComparedRows, compare_rows
from headrace.fold.contract import PARTITION, TOPIC
from headrace.fold.fates import KEPT, LATE
from headrace.fold.keys import key_of_row
from headrace.fold.segments import ms_or_no_time
from headrace.fold.values.columns import int64
from headrace.lake import small_files
from headrace.nodes.balances.opening import Opening, read_opening
from headrace.nodes.bound_operator import bound
from headrace.nodes.descriptions.references import resolve_references
from headrace.nodes.node_tables import read_progress
from headrace.nodes.rows.stored_rows import rows_of
from headrace.operators.contract import SEQUENCE
from headrace.operators.grace import with_grace
from headrace.writing.fold_aside import folded_logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node, WindowedAggregate
    from headrace.description.durations import Duration
    from headrace.lake.paths import Lake
    from headrace.nodes.progress import Progress

WINDOW = "__window"  # the bytes of what tells a window from others


@dataclass(frozen=True)
class WhatIf:
    """A node with another grace.

    grace_ms, other_ms     the node's grace, and the other one
    records                that count, or came too late for every window, with the node's grace
    late, late_then        records that come too late for every window, with each grace
    windows                final windows that both graces give; these are compared
    waiting                windows that are final now, and still open with the other grace
    waiting_now            the reverse
    later_ms, later_p99_ms how much later these windows are final: median, 99th percentile, by the times of log commits;
                           below 0: sooner. None: there is no such window
    since                  of a cut log: windows that begin later are compared
    differences            of the windows that both give, or that one grace alone gives because the other drops their records
    """

    node: str
    grace_ms: int
    other_ms: int
    records: int
    late: int
    late_then: int
    windows: int
    waiting: int
    waiting_now: int
    later_ms: int | None
    later_p99_ms: int | None
    since: dt.datetime | None
    differences: ComparedRows


def what_if(spark: SparkSession, lake: Lake, node: Node, grace: Duration, *, large: bool = False) -> WhatIf:
    """Fold the log of a node by its own grace and by another one, and compare.

    In:     large  whether to read logs of any size
    Raises: DescriptionError when no grace bounds what counts; TerminalError when the node has not run, or its logs are
            too large
    """
    node, other_ms = resolve_references(lake, node), duration_ms(grace, "grace")
    own = with_grace(node)
    require_small(lake, node, large=large, hint="Spark folds the log.")
    stretch = _Stretch(read_opening(lake, own), read_progress(lake, own).upto_ms)
    now, then = (_fold(spark, lake, each, stretch) for each in (own, with_grace(own, other_ms)))
    since_ms = _cut_ms(lake, own)
    before, after = now.rows(since_ms), then.rows(since_ms)
    waiting, waiting_now = then.is_open_for(before, after), now.is_open_for(after, before)
    later_ms = _later_ms(before, after)
    return WhatIf(
        own.required_name,
        own.grace_ms,
        other_ms,
        now.records(KEPT) + now.records(LATE),
        now.records(LATE),
        then.records(LATE),
        len(later_ms),
        int(waiting.sum()),
        int(waiting_now.sum()),
        _percentile(later_ms, 50),
        _percentile(later_ms, 99),
        None if since_ms is None else dt.datetime.fromtimestamp(since_ms / 1_000, dt.UTC),
        compare_rows(
            _shown(own, before.filter(pa.array(~waiting))),
            _shown(own, after.filter(pa.array(~waiting_now))),
            own.key,
        ),
    )


@dataclass(frozen=True)
class _Stretch:
    """The part of its logs that a node has read. In: opening  where it begins; upto_ms: the last commit of each log."""

    opening: Opening
    upto_ms: Mapping[str, int]


@dataclass(frozen=True)
class _Folded:
    """A fold of a stretch of logs. In: results  the final windows, with the commit that closed each, and WINDOW."""

    node: WindowedAggregate
    stretch: _Stretch
    results: pa.Table
    progress: Progress

    def records(self, fate: str) -> int:
        """How many records of the stretch met a fate."""
        before = self.stretch.opening.progress.totals()
        return self.progress.totals().get(fate, 0) - before.get(fate, 0)

    def rows(self, since_ms: int | None) -> pa.Table:
        """The windows that begin after a moment; None: all."""
        rows = self.results
        return rows if since_ms is None else rows.filter(pa.array(_ms(rows, START) > since_ms))

    def is_open_for(self, rows: pa.Table, own: pa.Table) -> np.ndarray:
        """Which windows of another fold are still open in this one. In: own  the windows of this fold."""
        missing = ~pc.is_in(rows[WINDOW], own[WINDOW].combine_chunks()).to_numpy()
        return np.asarray(missing & (_ms(rows, END) + self.node.final_ms > self._clock_ms(rows)))

    def _clock_ms(self, rows: pa.Table) -> np.ndarray:
        """The clock by which each window closes: sessions go by that of their partition."""
        if PARTITION not in rows.column_names:
            return np.full(rows.num_rows, ms_or_no_time(self.progress.lowest_ms))
        clock = self.progress.clock
        places = zip(rows[TOPIC].to_pylist(), rows[PARTITION].to_pylist(), strict=True)
        return np.array([ms_or_no_time(clock.partition_ms(place)) for place in places], np.int64)


def _fold(spark: SparkSession, lake: Lake, node: WindowedAggregate, stretch: _Stretch) -> _Folded:
    """Fold a stretch of the logs. After a cut the windows that were open then are left out."""
    opening = replace(stretch.opening, source=None)
    with (
        tempfile.TemporaryDirectory(prefix="headrace-what-if-") as path,
        folded_logs(spark, lake, node, stretch.upto_ms, opening, f"file:{path}/fold") as folded,
    ):
        uris = [f"{folded.results_uri}/{name}" for name in folded.results]
        rows = rows_of(uris, bound(spark, node).result_schema)
    names = [*node.key, *(name for name in (TOPIC, PARTITION) if name in rows.column_names)]
    return _Folded(node, stretch, rows.append_column(WINDOW, key_of_row(rows, names)[0]), folded.progress)


def _shown(node: Node, rows: pa.Table) -> pa.Table:
    return rows.select([*node.columns])


def _later_ms(before: pa.Table, after: pa.Table) -> np.ndarray:
    """How much later each window that both have is final."""
    own = before.select([WINDOW, SEQUENCE])
    other = after.select([WINDOW, SEQUENCE]).rename_columns([WINDOW, "then"])
    both = own.join(other, [WINDOW], join_type="inner")
    return np.asarray(int64(both["then"]) - int64(both[SEQUENCE]))


def _percentile(values: np.ndarray, percent: int) -> int | None:
    return round(float(np.percentile(values, percent))) if len(values) else None


def _ms(rows: pa.Table, column: str) -> np.ndarray:
    return np.asarray(int64(rows[column].cast(pa.int64())) // 1_000)


def _cut_ms(lake: Lake, node: WindowedAggregate) -> int | None:
    """Windows that begin later hold no record that was cut off the logs; None: the logs are whole."""
    cuts = [small_files.read_json(lake.cut(topic.name)) for topic in node.topics]
    highest_ms = [cut["highest_event_ms"] for cut in cuts if cut is not None]
    return max((ms for ms in highest_ms if ms is not None), default=None)

"""The curve of a windowed node: how complete its windows are, and how late, with each grace.

Law: it follows from the log's rows alone, from the event time of each record and the stream time when it arrived. A record
is complete if it counts in all of its windows. One of a session may count with less grace than the curve says, if its
session is open for another reason. Graces are whole seconds.

The log is read once, in bounded increments. Whole UTC days of commit time are remembered, if the caller names a folder.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headrace.description.calendars import DAY_MS
from headrace.description.durations import format_duration
from headrace.engine.clocks import raised, times_of
from headrace.engine.slices.increments import reach
from headrace.engine.slices.log_slices import first_commit_ms
from headrace.fold.contract import EVENT, OFFSET, STREAM, Clock
from headrace.fold.fates import KEPT, LATE, has_fate
from headrace.fold.segments import NO_TIME
from headrace.fold.values.columns import int64
from headrace.lake import small_files
from headrace.nodes.balances.opening import read_opening
from headrace.nodes.bound_operator import bound
from headrace.nodes.descriptions.references import resolve_references
from headrace.nodes.node_tables import read_progress, slices_of
from headrace.nodes.progress import Progress, by_place
from headrace.nodes.rows.feed_tables import feed_tables
from headrace.nodes.standing.state_commits import writings_read
from headrace.nodes.unusable_table import UnusableTable
from headrace.operators.grace import first_ends, least_grace_ms, with_grace
from headrace.operators.registry import operator_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node, WindowedAggregate
    from headrace.lake.paths import Lake
    from headrace.nodes.bound_operator import BoundOperator

MINUTE_MS, SECOND_MS = 60_000, 1_000
EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
POINTS = 40  # of the curve, besides the node's grace
ARRAYS = ("graces", "counts", "ends", "commits", "lowest")


@dataclass(frozen=True)
class GracePoint:
    """One grace.

    complete              how many records count in all of their windows
    wait_ms, wait_p99_ms  how much later results come than with no grace: median and 99th percentile of the windows, by the
                          times of log commits; None: no window would be final
    """

    grace_ms: int
    complete: int
    wait_ms: int | None
    wait_p99_ms: int | None


def wait_in_words(wait_ms: int | None) -> str:
    """How long results wait, for people."""
    return "–" if wait_ms is None else format_duration(wait_ms) if wait_ms else "none"


@dataclass(frozen=True)
class GraceCurve:
    """The curve of a node.

    records  that belong to a window
    points   from no grace to the least with which all records count
    now      with the node's grace; more: with one more minute
    """

    node: str
    records: int
    points: Sequence[GracePoint]
    now: GracePoint
    more: GracePoint

    @property
    def in_words(self) -> str:
        """The worth of the next minute of grace, in a sentence."""
        grace, gained = format_duration(self.more.grace_ms), self.more.complete - self.now.complete
        late = self.records - self.now.complete
        if not late:
            return "All records count, so a longer grace buys nothing."
        if not gained:
            return f"A grace of {grace} buys nothing: none of the {late:,} incomplete records would count."
        cost = ""
        if self.more.wait_ms is not None and self.now.wait_ms is not None:
            later_ms = max(self.more.wait_ms - self.now.wait_ms, 0)
            cost = (
                f", and results come {format_duration(later_ms)} later"
                if later_ms
                else ", and results come no later"
            )
        return f"With a grace of {grace}, {gained:,} of the {late:,} incomplete records count{cost}."


@dataclass(frozen=True)
class _Stretch:
    """A stretch of a node's logs, in numbers: what the curve needs of it.

    graces, counts   least graces in seconds, rising, and how many records have each
    ends             the ends of windows, in seconds, each once
    lowest, commits  the lowest stream times, rising, and the first log commit after which each is reached
    """

    graces: np.ndarray
    counts: np.ndarray
    ends: np.ndarray
    commits: np.ndarray
    lowest: np.ndarray

    @classmethod
    def of(cls, parts: Sequence[_Stretch]) -> _Stretch:
        """Several stretches as one."""
        nothing = np.empty(0, np.int64)
        each = {name: np.concatenate([nothing, *(getattr(p, name) for p in parts)]) for name in ARRAYS}
        graces, which = np.unique(each["graces"], return_inverse=True)
        counts = np.bincount(which, each["counts"], len(graces)).astype(np.int64)
        lowest, first = np.unique(each["lowest"], return_index=True)
        return cls(graces, counts, np.unique(each["ends"]), each["commits"][first], lowest)


def grace_curve(
    spark: SparkSession,
    lake: Lake,
    node: Node,
    *,
    upto_ms: Mapping[str, int] | None = None,
    folder: str | None = None,
) -> GraceCurve:
    """The curve of a node.

    In:     upto_ms  how far each log is read; None: as far as the node has read it
            folder  URI of a folder that remembers days; None: nothing is remembered
    Raises: DescriptionError when the node has no windows of event time
    """
    of = with_grace(resolve_references(lake, node))
    upto_ms = read_progress(lake, of).upto_ms if upto_ms is None else upto_ms
    whole = _Stretch.of([*_Days(spark, lake, of, upto_ms, folder).read()])
    total = int(whole.counts.sum())
    late = whole.graces[whole.graces > 0]
    places = np.linspace(0, len(late) - 1, min(POINTS, len(late))).round().astype(int)
    graces_ms = sorted({0, of.grace_ms, *(late[places] * SECOND_MS).tolist()})
    points = [_point(whole, grace_ms) for grace_ms in graces_ms]
    now = next(each for each in points if each.grace_ms == of.grace_ms)
    return GraceCurve(of.required_name, total, points, now, _point(whole, of.grace_ms + MINUTE_MS))


def _point(whole: _Stretch, grace_ms: int) -> GracePoint:
    complete = int(whole.counts[whole.graces * SECOND_MS <= grace_ms].sum())
    ends_ms = whole.ends * SECOND_MS
    first, then = (np.searchsorted(whole.lowest, ends_ms + wait_ms) for wait_ms in (0, grace_ms))
    closed = then < len(whole.commits)
    waits_ms = whole.commits[then[closed]] - whole.commits[first[closed]]
    if not len(waits_ms):
        return GracePoint(grace_ms, complete, None, None)
    median, highest = (round(float(each)) for each in np.percentile(waits_ms, (50, 99)))
    return GracePoint(grace_ms, complete, median, highest)


class _Days:
    """The logs of a node, day by day of commit time."""

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        node: WindowedAggregate,
        upto_ms: Mapping[str, int],
        folder: str | None,
    ) -> None:
        self._spark, self._lake, self._node = spark, lake, node
        self._of: BoundOperator = bound(spark, node)
        self._driving = operator_for(node).driving
        self._unusable = UnusableTable(spark, lake, node).read()
        self._upto_ms = upto_ms
        self._folder = folder and f"{folder}/{node.required_name}-{node.fingerprint()[:12]}"
        self._writings = writings_read(lake, node)

    def read(self) -> Iterator[_Stretch]:
        """The stretches from the opening balance on."""
        clock = read_opening(self._lake, self._node).progress.clock
        while (day := self._next_day(clock)) is not None:
            stretch, clock = self._day(day, clock)
            yield stretch

    def _left(self, clock: Clock, through_ms: Mapping[str, int]) -> dict[str, tuple[int, int]]:
        """The commit times after which and through which each topic is still to be read."""
        done_ms = {topic: clock.upto_ms.get(topic, 0) for topic in through_ms}
        return {topic: (done_ms[topic], ms) for topic, ms in through_ms.items() if done_ms[topic] < ms}

    def _next_day(self, clock: Clock) -> int | None:
        """The day of the first commit that is still to be read."""
        left = self._left(clock, self._upto_ms)
        if not left:
            return None
        firsts_ms = (first_commit_ms(self._lake.log(topic), *between) for topic, between in left.items())
        return min(firsts_ms) // DAY_MS

    def _day(self, day: int, clock: Clock) -> tuple[_Stretch, Clock]:
        """The stretch of a day, and the clock after it."""
        end_ms = (day + 1) * DAY_MS - 1
        is_over = end_ms < min(self._upto_ms.values())
        path = f"{self._folder}/{dt.date.fromordinal(EPOCH_DAY + day)}.json"
        known_by = {"before": _as_json(clock), "writings": self._writings}
        if self._folder and is_over:
            document = small_files.read_json(path)
            if document is not None and document["known_by"] == known_by:
                arrays = (np.array(document[name], np.int64) for name in ARRAYS)
                return _Stretch(*arrays), Progress.from_json(document["after"]).clock
        through_ms = {t: max(clock.upto_ms.get(t, 0), min(ms, end_ms)) for t, ms in self._upto_ms.items()}
        parts = []
        while left := self._left(clock, through_ms):
            part, clock = self._increment(clock, left)
            parts.append(part)
        stretch = _Stretch.of(parts)
        if self._folder and is_over:
            arrays_as_json = {name: getattr(stretch, name).tolist() for name in ARRAYS}
            small_files.write_json(path, {"known_by": known_by, "after": _as_json(clock), **arrays_as_json})
        return stretch, clock

    def _increment(self, clock: Clock, left: Mapping[str, tuple[int, int]]) -> tuple[_Stretch, Clock]:
        """As much as fits into memory, and the clock after it."""
        ends_ms = {topic: last_ms for topic, (_, last_ms) in left.items()}
        through_ms = reach(self._lake, {topic: done_ms for topic, (done_ms, _) in left.items()}, ends_ms)
        upto_ms = {
            **clock.upto_ms,
            **{t: max(done, min(last, through_ms)) for t, (done, last) in left.items()},
        }
        topics = {topic.name: 0 for topic in self._node.topics}
        slices = slices_of(self._lake, self._node, clock.upto_ms, {**topics, **upto_ms})
        feeds = feed_tables(self._spark, self._of, slices, self._unusable)
        times = times_of([*feeds.values()], clock, upto_ms, (), self._driving)
        dated = {name: raised(rows, times, self._driving) for name, rows in feeds.items()}
        rows = self._of.operator.kernel.decided(dated)
        rows = rows.filter(pa.array(has_fate(rows, KEPT, LATE) & rows[OFFSET].is_valid().to_numpy()))
        event_ms, stream_ms = int64(rows[EVENT]), int64(rows[STREAM], NO_TIME)
        graces, counts = np.unique(
            _whole_seconds(least_grace_ms(self._node, event_ms, stream_ms)), return_counts=True
        )
        ends = np.unique(_whole_seconds(first_ends(self._node, event_ms)))
        moved = [(at_ms, of.lowest_ms) for at_ms, of in times.commits if of.lowest_ms is not None]
        commits, lowest = np.array(moved, np.int64).reshape(-1, 2).T
        return _Stretch(graces, counts, ends, commits, lowest), times.after


def _whole_seconds(ms: np.ndarray) -> np.ndarray:
    return np.asarray(-(-ms // SECOND_MS))


def _as_json(clock: Clock) -> dict[str, Any]:
    return Progress(
        upto_ms=dict(clock.upto_ms),
        stream_ms=by_place(clock.stream_ms),
        complete=sorted(clock.complete),
        idle=sorted(clock.idle),
        lowest_ms=clock.lowest_ms,
    ).to_json()

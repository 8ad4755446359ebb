"""The input of a node: the rows of its logs one by one, and how far their partitions have come."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from headrace.description.feeds import RESULT
from headrace.oracle.reader_time import Commit, StreamTimes, commits_of, times_of_reader

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.description import Join, Refined
    from headrace.oracle.values import Identity

Place = tuple[int, str, int, int]  # commit time, topic, partition, offset
Partition = tuple[str, int]  # topic and number
Values = dict[str, Any]
Pair = tuple[Values | None, Values | None]  # a left and a right row; one of them may be missing
Compute = Callable[["Join", Sequence[Pair]], Sequence[Values]]
Refine = Callable[["Refined", Sequence[Values]], Sequence[Values | None]]
AT_THE_END = 1 << 62  # of ticks and control rows: behind the records of their commit


@dataclass(frozen=True)
class Row:
    """One row of a log, after the row-wise steps. Times are ms since 1970.

    at_ms      commit time
    event_ms   event time; None: it has none
    stream_ms  stream time of its partition up to and including the row, not below the node's own; None: there is none yet
    before_ms  the same before the row
    offset     None: a tick or a control row
    fate       what has become of it already, as `filtered` or `tombstone`; None: the node decides
    reason     why it is a dead letter; of a control row that sets limits, its JSON
    values     the columns of the stream
    passes     False: a condition of its table fails
    cause      of a node's row the place of what caused it; empty: it has none
    """

    at_ms: int
    topic: str
    partition: int
    offset: int | None
    event_ms: int | None
    stream_ms: int | None
    before_ms: int | None
    size_bytes: int
    fate: str | None
    reason: str | None
    values: Mapping[str, Any]
    passes: bool
    cause: bytes = b""

    @property
    def place(self) -> Place:
        """Its place in the order of all logs."""
        return (self.at_ms, self.topic, self.partition, AT_THE_END if self.offset is None else self.offset)

    @property
    def time_ms(self) -> int:
        """The event time of a record that counts."""
        assert self.event_ms is not None
        return self.event_ms


@dataclass(frozen=True)
class Log:
    """The logs of a node's topics.

    plain    for each feed (see `description.feeds`) the rows of its stream, as dicts in any order: its columns, and those of
             `ROW_COLUMNS`; `__passes` of a table with conditions. `__before_ms`, where rows of other keys are left out
    history  the log commits, in the order of commit time; None: all rows of the logs are there, so these tell it
    through_ms  commit time through which the logs are read; None: through the last commit
    compute  the values of a join's `select` that repeat no column, for pairs of a left and a right row; SQL computes them
    schemas  for each feed the Arrow schema of its columns, as a vectorised processor gets them; None: there is none
    refine   what row-wise steps after a table make of its rows; None: a `where` refuses the row. SQL computes them
    driving  the topics by whose stream time the node goes
    wanted   of a suppression by a time limit: for which keys rows are asked. Rows of other keys move its time
    """

    plain: Mapping[str, Iterable[Mapping[str, Any]]]
    history: Sequence[Commit] | None = None
    through_ms: int | None = None
    compute: Compute | None = None
    refine: Refine | None = None
    schemas: Mapping[str, pa.Schema] | None = None
    driving: frozenset[str] = frozenset()
    wanted: Callable[[Identity], bool] = lambda key: True

    @cached_property
    def feeds(self) -> Mapping[str, list[Row]]:
        """The rows of each feed in their order."""
        return {name: [self._seen(row) for row in _rows(plain)] for name, plain in self.plain.items()}

    @property
    def rows(self) -> list[Row]:
        """The rows of the only feed."""
        return self.feeds[RESULT]

    def through(self, at_ms: int) -> Log:
        """The same logs, read through a commit time."""
        plain = {
            name: [row for row in rows if row["__ingested_ms"] <= at_ms] for name, rows in self.plain.items()
        }
        history = [each for each in self.all_commits if each.at_ms <= at_ms]
        return replace(self, plain=plain, history=history, through_ms=at_ms)

    @cached_property
    def all_commits(self) -> Sequence[Commit]:
        """The log commits as the logs say them."""
        return commits_of(self.plain.values()) if self.history is None else self.history

    @cached_property
    def commits(self) -> Sequence[tuple[int, StreamTimes]]:
        """The commit time of each log commit, and the stream times after it, as the node sees them."""
        return times_of_reader(self.all_commits, self.driving)

    @cached_property
    def lowest(self) -> list[tuple[int, int]]:
        """After each commit the lowest stream time of the node, once there is one."""
        return [(at_ms, of.lowest_ms) for at_ms, of in self.commits if of.lowest_ms is not None]

    @cached_property
    def last_ms(self) -> int:
        """The commit time through which the logs are read."""
        last_ms = self.commits[-1][0] if self.commits else 0
        return last_ms if self.through_ms is None else self.through_ms

    def _seen(self, row: Row) -> Row:
        """A row as the node sees it: with a stream time not below the node's own before its commit (L4)."""
        earlier = bisect_left(self._commits_ms, row.at_ms)
        floor_ms = self.commits[earlier - 1][1].lowest_ms if earlier else None
        if floor_ms is None or row.topic not in self.driving:
            return row
        times = (row.stream_ms, row.before_ms)
        stream_ms, before_ms = (None if ms is None else max(ms, floor_ms) for ms in times)
        return replace(row, stream_ms=stream_ms, before_ms=before_ms)

    @cached_property
    def _commits_ms(self) -> list[int]:
        return [at_ms for at_ms, _ in self.commits]


@dataclass
class Results:
    """The results of a node, computed from its logs.

    rows   of its table: those that are final, or the current ones. Beside the node's columns some have columns of their
           own, with `__` before the name: the commit time at which they were final (`__sequence`), their event time
    open   windows that are not closed yet, with their values so far
    fates  of each record: topic, partition and offset
    late   for each record and window that it came too late for: topic, partition, offset, start and end of the window
    waiting  of a suppression by a time limit, by partition and commit time how many entries wait after the commit, and the
             bytes of their last records
    """

    rows: list[Values] = field(default_factory=list)
    open: list[Values] = field(default_factory=list)
    fates: dict[tuple[str, int, int], str] = field(default_factory=dict)
    late: list[tuple[str, int, int, int, int]] = field(default_factory=list)
    waiting: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)

    def met(self, row: Row, fate: str) -> None:
        """Note the fate of a record; rows that are none have no fate."""
        if row.offset is not None:
            self.fates[row.topic, row.partition, row.offset] = fate

    def windowed(self, window: Values, final_at: int | None) -> None:
        """Note a window: a row if a commit made it final, else it is open."""
        if final_at is None:
            self.open.append(window)
        else:
            self.rows.append(window | {"__sequence": final_at})

    def missed(self, row: Row, start_ms: int, end_ms: int) -> None:
        """Note that a record came too late for a window."""
        assert row.offset is not None
        self.late.append((row.topic, row.partition, row.offset, start_ms, end_ms))


def reached(times: Iterable[tuple[int, int]], deadline_ms: int) -> int | None:
    """The first commit after which a stream time has reached a deadline; None: none has."""
    return next((at_ms for at_ms, ms in times if ms >= deadline_ms), None)


def _rows(plain: Iterable[Mapping[str, Any]]) -> list[Row]:
    """The rows in their order, each with the stream time before it."""
    shown = sorted(plain, key=_place)
    before: dict[Partition, int | None] = {}
    found = []
    for row in shown:
        partition = row["__topic"], row["__partition"]
        stream_ms, earlier = row["__stream_ms"], before.get(partition)
        found.append(_row(row, row.get("__before_ms", earlier)))
        before[partition] = max((ms for ms in (earlier, stream_ms) if ms is not None), default=None)
    return found


def _row(row: Mapping[str, Any], before_ms: int | None) -> Row:
    return Row(
        row["__ingested_ms"],
        row["__topic"],
        row["__partition"],
        row["__offset"],
        row["__event_ms"],
        row["__stream_ms"],
        before_ms,
        row["__size_bytes"] or 0,
        row["__fate"],
        row["__reason"],
        {name: value for name, value in row.items() if not name.startswith("__")},
        bool(row.get("__passes", True)),
        row.get("__cause") or b"",
    )


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    offset = row["__offset"]
    return (
        row["__ingested_ms"],
        row["__topic"],
        row["__partition"],
        AT_THE_END if offset is None else offset,
    )

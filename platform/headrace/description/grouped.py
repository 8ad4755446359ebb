"""Grouped streams: what `group_by` gives, and what can be made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from headrace.description.aggregate_inputs import columns_read
from headrace.description.batches import Batches
from headrace.description.clocks import STREAM, WALL, check_clock
from headrace.description.durations import Duration, duration_ms, optional_ms
from headrace.description.grouping import grouping_columns, require_known_columns
from headrace.description.process_groups import process_groups
from headrace.description.running import RunningAggregate
from headrace.description.stream import Stream, in_one_partition, rekeyed
from headrace.description.ways_on import WaysOn
from headrace.description.window_checks import check_grouping, check_window, check_window_clock
from headrace.description.windowed import WindowedAggregate
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.aggregates import Aggregate
    from headrace.description.global_table import GlobalTable
    from headrace.description.previous_values import Increase
    from headrace.description.processed import Makes, Processed
    from headrace.description.stores import Store
    from headrace.description.windows import WindowKind

WHOLE = "stream"  # the group column of a whole stream


@dataclass(frozen=True)
class GroupedStream(WaysOn, kind="grouped stream"):
    """A stream with the columns that it is grouped by: `window`, `aggregate`, `batch` and `process` go on from here."""

    stream: Stream
    by: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "by", grouping_columns(self.stream, self.by))

    def window(
        self, window: WindowKind, grace: Duration | None = None, clock: str = STREAM
    ) -> WindowedStream:
        """Group by windows, too.

        A record is late for a window when stream time has reached the window's end plus `grace`; for a session, its end
        plus gap plus `grace`.

        In:     clock  "stream": windows of event time; "wall": of the time at which the log recorded each record, so that a
                       backfill repeats them. By the wall clock no record is late, and there is no grace
        Raises: DescriptionError when `grace` is missing or negative, `window` is no window, or sessions are not grouped by
                the record key of one topic.
        """
        check_clock(clock, "window")
        if grace is None and clock == WALL:
            grace = 0
        if grace is None:
            raise DescriptionError(
                "window: grace is missing.", hint="Say how long to wait for late records: grace='2 minutes'."
            )
        grouped = self
        if getattr(window, "by_partition", False):  # others are no windows, or lie in several partitions
            grouped = replace(self, stream=in_one_partition(self.stream, self.by))
        return WindowedStream(grouped, window, duration_ms(grace, "grace"), clock)

    def aggregate(self, **aggregates: Aggregate) -> RunningAggregate:
        """Keep one row for each group, with a column for each aggregate over all its records so far.

        In:     aggregates  by the names of their columns: `n=hr.count(), total=hr.sum("value")`
        Raises: DescriptionError for an aggregate that its column's type does not allow
        """
        stream, made = _with_inputs(self.stream, aggregates)
        return RunningAggregate(stream, self.by, made)

    def batch(
        self,
        *,
        collect: Sequence[str],
        max_records: int | None = None,
        max_wait: Duration | None = None,
        max_bytes: int | None = None,
        every: Duration | None = None,
    ) -> Batches:
        """Collect columns of each group's records into batches, each closed by the first limit that it meets.

        In:     max_wait   of wall clock since the batch's first record; None: a group that falls silent waits for a drain
                max_bytes  of raw keys and values; a larger record is a batch by itself
                every      in place of `max_wait`: all open batches close together, at each multiple of it since 1970, by the
                           time at which the log recorded the records
        Raises: DescriptionError without any limit, or for a limit that is not positive.
        """
        wait_ms = optional_ms(max_wait, "max_wait")
        every_ms = optional_ms(every, "every")
        limits = max_records, wait_ms, max_bytes, every_ms
        return Batches(self.stream, self.by, collect, *limits)  # type: ignore[arg-type]

    def process(
        self,
        processor: Makes,
        *,
        output: str | Mapping[str, str],
        stores: Sequence[Store | GlobalTable] = (),
        stream_wait: Duration | None = None,
        wall_wait: Duration | None = None,
        on_error: str = "stop",
        attempts: int = 1,
        order: str | None = None,
        grace: Duration = 0,
    ) -> Processed:
        """Run a processor of your own over the records of each group (see `hr.Processor`); its rows are a stream.

        In:     processor    a class, or a `functools.partial` of one
                output       columns of the rows that it forwards, as DDL; of several outputs by name (see `output_stream`)
                stores       of `hr.key_value_store`, `hr.value_store`, `hr.window_store` and `hr.session_store`; each group
                             has its own; and of `hr.global_table`, which all groups read
                stream_wait  the longest interval of the timers by the stream clock that it schedules after `init`; a silent
                             log ticks so long, or as long as those of `init` say
                wall_wait    the same by the wall clock; a silent log ticks so long after a record
                on_error     "stop": the node stops when `process` raises; "dead_letter": the record is set apart, and what
                             it has done is undone
                attempts     how often a record is tried before
                order        "log": records come in the log's order; "time": by event time, each once all inputs have come
                             so far. A node with timers must say it if its groups come from several partitions
                grace        with order="time", how long a record may come after records of a later time; one that comes
                             later takes its turn among what comes now, and `record.late` is true
        Raises: DescriptionError naming what does not fit.
        """
        rest = stream_wait, wall_wait, on_error, attempts, order, duration_ms(grace, "grace")
        return process_groups(self.stream, self.by, processor, output, stores, rest)

    def reaches(
        self,
        number: int | Decimal,
        of: Aggregate | None = None,
        *,
        order: str | None = None,
        grace: Duration = 0,
    ) -> Processed:
        """Give each group's record with which an aggregate reaches a number, once: `reaches(5)` is the fifth record.

        In:     of     `hr.count(…)` (the default: of all records) or `hr.sum(…)` of exact numbers
                order  "log" (the default) or "time", and `grace`: see `process`
        Out:    a stream: the columns of that record, then `reached`, the value. A sum that falls again takes nothing back,
                and the number is not reached a second time
        Raises: DescriptionError for another aggregate, or a number that is none
        """
        from headrace.description.reaching import reaches, threshold_of  # its rows are a stream

        return reaches(self.stream, self.by, threshold_of(number, of), order, grace)

    def with_previous(
        self, *, order: str | None = None, grace: Duration = 0, **columns: str | Increase
    ) -> Processed:
        """Give each record values of the record of its group before, at once: `with_previous(before="value")`.

        In:     columns  the name of each new column, and the column whose value before it is, or `hr.increase("litres")`
                order    "log" (the default): the record before in the log; "time": by event time, see `process`. A record
                         then waits until the lowest stream time is more than `grace` beyond it
                grace    with order="time", how long a record may come after records of a later time. One that comes later
                         has nulls, and is not the record before of any other
        Out:    a stream: the columns of the records, then the new ones. The first record of a group has nulls
        Raises: DescriptionError for a column that does not exist, whose type is not known, or that is no number
        """
        # Its rows are a stream, which can be grouped.
        from headrace.description.previous_values import with_previous

        return with_previous(self.stream, self.by, columns, order, grace)


@dataclass(frozen=True)
class WindowedStream(WaysOn, kind="windowed stream"):
    """A grouped stream and its windows, each open until its clock reaches its end and `grace_ms` (sessions: and gap)."""

    grouped: GroupedStream
    window: WindowKind
    grace_ms: int
    clock: str = STREAM

    def __post_init__(self) -> None:
        check_window(self.window, self.grace_ms)
        check_window_clock(self.clock, self.window, self.grace_ms)
        check_grouping(self.window, self.grouped.stream, self.grouped.by)

    def aggregate(self, **aggregates: Aggregate) -> WindowedAggregate:
        """Make one row for each group and window, with a column for each aggregate.

        In:     aggregates  by the names of their columns: `n=hr.count(), total=hr.sum("value")`
        Raises: DescriptionError for an aggregate that its column's type does not allow
        """
        grouped = self.grouped
        stream, made = _with_inputs(grouped.stream, aggregates)
        return WindowedAggregate(stream, grouped.by, self.window, self.grace_ms, made, by_clock=self.clock)

    def reaches(
        self, number: int | Decimal, of: Aggregate | None = None, *, order: str | None = None
    ) -> Processed:
        """Give the record with which an aggregate reaches a number, once for each group and window, and at once.

        It is for tumbling and hopping windows of event time. A record that is late for a window does not count there.

        In:     of     `hr.count(…)` (the default: of all records) or `hr.sum(…)` of exact numbers
                order  "log" or "time", if groups come from several partitions: see `process`
        Out:    a stream: the columns of that record, `window_start`, `window_end`, and `reached`, the value
        Raises: DescriptionError for another aggregate or another kind of windows, or a number that is none
        """
        from headrace.description.reaching import reaches, threshold_of  # its rows are a stream

        grouped, window = self.grouped, (self.window, self.grace_ms, self.clock)
        return reaches(grouped.stream, grouped.by, threshold_of(number, of, window), order)


def whole_stream(stream: Stream) -> GroupedStream:
    """All records of a stream as one group: of a column WHOLE, which is 'all'.

    Raises: DescriptionError when the stream has such a column
    """
    columns = require_known_columns(stream, "a whole stream as one group")
    if WHOLE in (name.lower() for name in columns):
        raise DescriptionError(
            f"A whole stream as one group has the column '{WHOLE}', and so has this stream.",
            hint=f"Rename it before: .select('{WHOLE} AS its_{WHOLE}', …).",
        )
    return GroupedStream(rekeyed(stream.with_column(WHOLE, "'all'"), (WHOLE,)), (WHOLE,))


def _with_inputs(
    stream: Stream, aggregates: Mapping[str, Aggregate]
) -> tuple[Stream, tuple[tuple[str, Aggregate], ...]]:
    """The stream with the columns that aggregates read, and these by name."""
    columns, made = columns_read(stream.shape, aggregates)
    for name, expression in columns.items():
        stream = stream.with_column(name, expression)
    return stream, made

"""Windowed aggregates: one row per group and window."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Self, cast, overload

from headrace.description.aggregate_columns import aggregate_column
from headrace.description.aggregate_inputs import aggregated_feed, aggregated_sources, grouped_in_words
from headrace.description.aggregates import Aggregate
from headrace.description.checks import checked_aggregates
from headrace.description.clocks import STREAM, WALL, WallWait
from headrace.description.durations import format_duration
from headrace.description.emitting import stream_of
from headrace.description.fingerprint import rules_of
from headrace.description.grouping import group_column, grouping_columns, why_regrouped
from headrace.description.node import REFUSE
from headrace.description.relation import Relation
from headrace.description.schema import ResultColumn
from headrace.description.since import checked_since, records_since
from headrace.description.stream import in_one_partition
from headrace.description.suppression import UntilTimeLimit, UntilWindowCloses
from headrace.description.window_checks import (
    BOUND_NAMES,
    check_bounds,
    check_grouping,
    check_window,
    check_window_clock,
)
from headrace.description.windows import TimeWindows, WindowKind
from headrace.description.wording import a_value, listed
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from headrace.description.feeds import Feed
    from headrace.description.grouped_windows import GroupedWindows
    from headrace.description.node import Node
    from headrace.description.stream import Stream
    from headrace.description.suppressed import Suppressed
    from headrace.description.topic import Topic
    from headrace.description.windows import CalendarWindows


@dataclass(frozen=True)
class WindowedAggregate(Relation):
    """A windowed aggregate: one row per group and window.

    In:  by_clock  "stream": windows of event time; "wall": of `ingested_at`, which the log has recorded. Then no record is
                   late, and a window is final at its end
         since     the UTC day from which on windows are made; older rows of its table are those of an earlier description
    Out: columns `by`, `window_start`, `window_end` (TIMESTAMP), then the aggregates by name.
    Law: a function of the logs of its topics alone.
    """

    stream: Stream
    by: tuple[str, ...]
    window: WindowKind
    grace_ms: int
    aggregates: tuple[tuple[str, Aggregate], ...]
    suppression: UntilWindowCloses | None = None
    by_clock: str = STREAM
    since: str | None = None

    def __post_init__(self) -> None:
        check_window(self.window, self.grace_ms)
        check_window_clock(self.by_clock, self.window, self.grace_ms)
        _check_suppression(self.suppression)
        by = grouping_columns(self.stream, self.by)
        check_bounds(by)
        check_grouping(self.window, self.stream, by)
        taken = (*by, *BOUND_NAMES)
        object.__setattr__(self, "by", by)
        object.__setattr__(self, "aggregates", checked_aggregates(self.stream.shape, self.aggregates, taken))
        super().__post_init__()

    def named(
        self,
        name: str,
        description: str = "",
        owners: tuple[str, ...] = (),
        *,
        on_change: str = REFUSE,
        renamed_from: str | None = None,
        expectations: Sequence[Any] = (),
        since: str | date | None = None,
    ) -> Self:
        """Give the node its name. With `since` only windows from that UTC day on are made, and older rows stay.

        Raises: DescriptionError when windows from before reach into that day
        """
        node = super().named(
            name,
            description,
            owners,
            on_change=on_change,
            renamed_from=renamed_from,
            expectations=expectations,
        )
        if since is None:
            return node
        day = checked_since(since)
        return replace(node, stream=records_since(node, day), since=day)

    @overload
    def suppress(self, policy: UntilWindowCloses) -> WindowedAggregate: ...
    @overload
    def suppress(self, policy: UntilTimeLimit) -> Suppressed: ...
    def suppress(self, policy: UntilWindowCloses | UntilTimeLimit) -> WindowedAggregate | Suppressed:
        """Emit what the policy says instead of every update."""
        if self.suppression is not None:
            raise DescriptionError(
                f"suppress: this aggregate is suppressed already, by {self.suppression}.",
                hint="Remove one of the two .suppress(…).",
            )
        if policy is None:
            raise DescriptionError("suppress: None is no policy.", hint="Write hr.until_window_closes().")
        if isinstance(policy, UntilTimeLimit):
            return super().suppress(policy)
        return replace(self, suppression=policy)

    def as_stream(self) -> Stream:
        """Go on from the final windows as a stream: each window once, when it closes. They have to be suppressed.

        Raises: DescriptionError when it is not, or the type of a column is known to Spark alone
        """
        if self.suppression is None:
            of = f" of '{self.name}'" if self.name else ""
            raise DescriptionError(
                f"Windows{of} that are not suppressed are revised: they are no stream.",
                hint="Write .suppress(hr.until_window_closes()) before. Open windows, too, are in the table "
                "of their changes: .changes().table().where(…).",
            )
        return stream_of(self)

    def where(self, expression: str) -> Stream:
        """Keep the final windows for which the SQL expression is true: see `as_stream`."""
        return self.as_stream().where(expression)

    def select(self, *expressions: str) -> Stream:
        """Keep the columns that SQL expressions make of the final windows: see `as_stream`."""
        return self.as_stream().select(*expressions)

    def with_column(self, name: str, expression: str) -> Stream:
        """Add a column to the final windows: see `as_stream`."""
        return self.as_stream().with_column(name, expression)

    def group_by(self, *columns: str) -> GroupedWindows:
        """Group the windows: final ones as a stream or as a table, whichever the next step needs (see `GroupedWindows`).

        Raises: as `Relation.group_by`
        """
        from headrace.description.grouped_windows import GroupedWindows  # it holds one of these

        return GroupedWindows(self, columns)

    @property
    def window_ms(self) -> int | None:
        """The length of its windows, if they can be joined; those of sliding windows and sessions differ."""
        size_ms: int | None = getattr(self.window, "size_ms", None)
        return None if self.no_side is not None else size_ms

    @property
    def no_side(self) -> tuple[str, str] | None:
        """Several records decide which sliding windows and sessions there are."""
        if self.by_clock == WALL:
            what = "windows by the wall clock are no table to be joined."
            return (
                what,
                "Name the node and go on from its final rows: .suppress(hr.until_window_closes()).named('…').",
            )
        if not self.window.by_records:
            return None
        what = f"{self.window.in_words}: windows that records make are no table to be joined."
        return what, "Join hr.tumbling(…) or hr.hopping(…)."

    @property
    def grows(self) -> bool:
        """If records make its windows, and these are not suppressed."""
        return self.window.by_records and self.suppression is None

    @property
    def own_updates(self) -> WindowedAggregate | None:
        """Its own, if its groups are those of the record key; by the wall clock those of one log."""
        if self.window.by_records:
            return None
        if self.by_clock == WALL:
            return replace(self, stream=in_one_partition(self.stream, self.by))  # refused, unless it is whole
        return self if why_regrouped(self.stream, self.by) is None else None

    @property
    def no_updates(self) -> tuple[str, str] | None:
        """Records make sliding windows and sessions."""
        what = f"a {self.window.in_words} is made by its records, and waits by its changes."
        hint = "Write .suppress(hr.until_time_limit(…)), which follows them."
        return (what, hint) if self.window.by_records else None

    @property
    def topics(self) -> tuple[Topic, ...]:
        """The topics that it reads."""
        return self.stream.topics

    has_windows = True  # one row per group and window

    @property
    def suppressed_by(self) -> UntilWindowCloses | None:
        """As described."""
        return self.suppression

    @property
    def feed(self) -> Feed:
        """The rows of its stream; of their columns the groups, and what is aggregated."""
        return aggregated_feed(self.stream, self.by, self.aggregates)

    def column_sources(self) -> Mapping[str, Sequence[tuple[Stream, str]]]:
        """A group has its column, an aggregate those that it is made of."""
        return aggregated_sources(self.stream, self.by, self.aggregates)

    @property
    def inputs(self) -> tuple[Stream | Node, ...]:
        """Its stream; of windows that are suppressed the windows."""
        return (self.stream,) if self.suppression is None else (replace(self, suppression=None, sinks=()),)

    @property
    def group(self) -> tuple[str, ...]:
        """The group columns."""
        return self.by

    @property
    def key(self) -> tuple[str, ...]:
        """The group columns and `window_start`; of a session `window_end` too."""
        return (*self.by, *self.window.key)

    @property
    def result_columns(self) -> tuple[ResultColumn, ...]:
        """The group columns, the bounds of the window, the aggregates."""
        shape = self.stream.shape
        return (
            *(group_column(shape, name) for name in self.by),
            *(ResultColumn(n, "TIMESTAMP", m) for n, m in zip(BOUND_NAMES, self.window.bounds, strict=True)),
            *(aggregate_column(shape, name, aggregate) for name, aggregate in self.aggregates),
        )

    day_column = "window_start"  # a window belongs to the day in which it starts

    @property
    def calendar(self) -> CalendarWindows | None:
        """Its windows, if they are those of a calendar."""
        return cast("CalendarWindows", self.window) if self.window.unit else None

    @property
    def longest_wait_ms(self) -> int:
        """How long after a record the last window that it is in can still be open: size (of a session, gap) plus grace."""
        return 0 if self.by_clock == WALL else self.window.wait_ms + self.grace_ms

    @property
    def longest_wall_wait_ms(self) -> int:
        """The size of a window by the wall clock; 0: windows of event time do not wait for it."""
        return self.window.wait_ms if self.by_clock == WALL else 0

    @property
    def clock(self) -> str:
        """The clock of the windows, as described."""
        return self.by_clock

    @property
    def wall_waits(self) -> tuple[WallWait, ...]:
        """Windows by the wall clock wait for each end of a window."""
        if self.by_clock != WALL:
            return ()
        assert isinstance(self.window, TimeWindows)
        return (WallWait(self.window.size_ms, self.window.advance_ms),)

    @property
    def in_words(self) -> str:
        """One sentence for people."""
        if self.by_clock == WALL:
            grain = f"{', '.join(self.by)} and {self.window.in_words}"
            return f"One row per {grain} of the wall clock, final at the window's end."
        return (
            f"One row per {', '.join(self.by)} and {self.window.in_words}, "
            f"final {format_duration(self.final_ms)} of stream time after the window's end."
        )

    @property
    def work(self) -> Sequence[tuple[str, bool]]:
        """The groups, the windows and the aggregates; of windows that are suppressed that."""
        if self.suppression is not None:
            return (("suppress until the window closes", False),)
        by = f"{listed(self.by)} and {self.window.in_words}, grace {format_duration(self.grace_ms)}"
        return ((grouped_in_words(by, self.aggregates), False),)

    @property
    def final_ms(self) -> int:
        """How long after its end, in stream time, a window is final: grace; of a session gap plus grace."""
        return self.grace_ms + self.window.open_after_end_ms

    def rules(self) -> dict[str, Any]:
        """Stream, groups, windows, grace, aggregates and suppression."""
        return rules_of(
            self.stream, (*self.by, *(name for _, a in self.aggregates for name in a.columns))
        ) | {
            "by": self.by,
            "window": asdict(self.window),
            "grace_ms": self.grace_ms,
            "aggregates": [[name, aggregate.rules()] for name, aggregate in self.aggregates],
            "suppression": type(self.suppression).__name__ if self.suppression else None,
            **({"clock": WALL} if self.by_clock == WALL else {}),
            **({} if self.since is None else {"since": self.since}),
        }


def _check_suppression(policy: object) -> None:
    if policy is not None and not isinstance(policy, UntilWindowCloses):
        raise DescriptionError(
            f"suppress: {a_value(policy)} is no policy.", hint="Write hr.until_window_closes()."
        )

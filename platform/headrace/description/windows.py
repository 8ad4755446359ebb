"""Where windows lie: tumbling and hopping ones, aligned to 1970-01-01T00:00:00Z; calendar windows; others by records.

Each kind says whether records make its windows (`by_records`), whether a window's bounds change as it grows (`moves`),
whether those of each partition stand alone (`by_partition`), whether each time is in one window (`tumbles`), how long after
its end a window takes records without grace (`open_after_end_ms`), and the calendar's `unit`, if it has one.

Law: a tumbling, hopping or calendar window holds its start and not its end, and which windows a timestamp is in depends on
the timestamp alone. Sliding windows and sessions hold both bounds, and there are such only as records make them.
Source: Kafka Streams, TimeWindows.java, SlidingWindows.java and SessionWindows.java.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise

from headrace.description.calendars import check_unit, starts_of
from headrace.description.code_text import digest
from headrace.description.durations import Duration, duration_ms, format_duration, positive_ms
from headrace.errors import DescriptionError

START, END = "window_start", "window_end"


@dataclass(frozen=True)
class TimeWindows:
    """Windows of `size_ms`, one starting every `advance_ms`."""

    size_ms: int
    advance_ms: int

    def __post_init__(self) -> None:
        size_ms = positive_ms(self.size_ms, "window size")
        advance_ms = positive_ms(self.advance_ms, "window advance")
        if advance_ms > size_ms:
            raise DescriptionError(
                f"window advance: {format_duration(advance_ms)} is longer than the window's size, "
                f"{format_duration(size_ms)}, so that records between two windows would be in none.",
                hint="Make advance at most size, or filter those records with .where(…).",
            )
        object.__setattr__(self, "size_ms", size_ms)
        object.__setattr__(self, "advance_ms", advance_ms)

    key = (START,)
    bounds = ("First moment of the window.", "End of the window, itself outside.")
    by_records = moves = by_partition = False
    open_after_end_ms, unit = 0, ""

    @property
    def tumbles(self) -> bool:
        """Whether each time is in one window."""
        return self.size_ms == self.advance_ms

    @property
    def wait_ms(self) -> int:
        """How long after a record the last window that it is in ends."""
        return self.size_ms

    @property
    def in_words(self) -> str:
        """The kind of window and its lengths."""
        advance = f"hopping (every {format_duration(self.advance_ms)})"
        kind = "tumbling" if self.tumbles else advance
        return f"{kind} window of {format_duration(self.size_ms)}"


@dataclass(frozen=True)
class CalendarWindows:
    """The days, weeks or months of a time zone, one after another.

    rules_digest  of the moments at which they begin: another version of the zone's rules may give other rows
    """

    unit: str
    zone: str = "UTC"
    rules_digest: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_unit(self.unit)
        object.__setattr__(self, "rules_digest", _rules_digest(self.unit, self.zone))

    key = (START,)
    bounds = TimeWindows.bounds
    by_records = moves = by_partition = tumbles = False
    open_after_end_ms = 0

    @property
    def wait_ms(self) -> int:
        """The length of the longest one."""
        return _longest_ms(self.unit, self.zone)

    @property
    def in_words(self) -> str:
        """The kind of window and its zone."""
        return f"calendar {self.unit} ({self.zone})"


@cache
def _rules_digest(unit: str, zone: str) -> str:
    return digest(repr(starts_of(unit, zone)))


@cache
def _longest_ms(unit: str, zone: str) -> int:
    return max(end - start for start, end in pairwise(starts_of(unit, zone)))


@dataclass(frozen=True)
class SessionWindows:
    """Sessions: the events of one group, each at most `gap_ms` from another.

    Law: a session's bounds are its first and last event, both inside; two events exactly `gap_ms` apart are one session.
    Source: Kafka Streams, SessionWindows.java.
    """

    gap_ms: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "gap_ms", positive_ms(self.gap_ms, "session gap"))

    key = (START, END)
    bounds = ("First event of the session.", "Last event of the session, itself inside.")
    by_records = moves = by_partition = True
    tumbles = False
    unit = ""

    @property
    def open_after_end_ms(self) -> int:
        """The gap."""
        return self.gap_ms

    @property
    def wait_ms(self) -> int:
        """How long after a record its session can still be continued."""
        return self.gap_ms

    @property
    def in_words(self) -> str:
        """The kind of window and its gap."""
        return f"session (gap {format_duration(self.gap_ms)})"


@dataclass(frozen=True)
class SlidingWindows:
    """Windows of two records at most `difference_ms` apart, both bounds inside.

    Law: for a record of time t there is the window that ends at t, or [0, difference] when that one would begin before 1970,
    and, when it holds a record, the one that begins just after t. No other window exists.
    Source: Kafka Streams, SlidingWindows.java (KIP-450).
    """

    difference_ms: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "difference_ms", positive_ms(self.difference_ms, "time difference"))

    key = (START,)
    bounds = ("First moment of the window.", "Last moment of the window, itself inside.")
    by_records, moves, by_partition, tumbles = True, False, False, False
    open_after_end_ms, unit = 0, ""

    @property
    def wait_ms(self) -> int:
        """How long after a record the last window that it is in ends."""
        return self.difference_ms

    @property
    def in_words(self) -> str:
        """The kind of window and its length."""
        return f"sliding window of {format_duration(self.difference_ms)}"


WindowKind = TimeWindows | CalendarWindows | SessionWindows | SlidingWindows


def tumbling(size: Duration) -> TimeWindows:
    """Describe windows that follow one another without overlap: each record is in exactly one.

    In:     size  a duration, such as "2 minutes"; windows are aligned to 1970-01-01T00:00:00Z
    Raises: DescriptionError for a size that is no positive duration
    """
    size_ms = duration_ms(size, "window size")
    return TimeWindows(size_ms, size_ms)


def hopping(size: Duration, advance: Duration) -> TimeWindows:
    """Describe windows of `size` that start every `advance`.

    They overlap if `advance` is shorter than `size`: then each record is in several.

    Raises: DescriptionError for a size or an advance that is no positive duration, or an advance beyond the size
    """
    return TimeWindows(duration_ms(size, "window size"), duration_ms(advance, "window advance"))


def calendar(unit: str, zone: str = "UTC") -> CalendarWindows:
    """Describe windows that are the days, weeks (from Monday) or months of a time zone.

    In:     unit  "day", "week" or "month"
            zone  a name of the IANA time zone database, such as "Europe/Berlin"; its rules are those of the package tzdata
    Raises: DescriptionError for another unit, or a zone that does not exist
    """
    return CalendarWindows(unit, zone)


def session(gap: Duration) -> SessionWindows:
    """Describe windows that follow a group's activity: a session ends where no event comes for longer than `gap`.

    Raises: DescriptionError for a gap that is no positive duration
    """
    return SessionWindows(duration_ms(gap, "session gap"))


def sliding(time_difference: Duration) -> SlidingWindows:
    """Describe windows whose first and last record are at most `time_difference` apart.

    Law:    see `SlidingWindows`: records decide where the windows lie
    Raises: DescriptionError for a difference that is no positive duration
    """
    return SlidingWindows(duration_ms(time_difference, "time difference"))

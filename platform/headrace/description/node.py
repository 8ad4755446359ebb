"""Nodes: from a grouped stream over its windows to an aggregate that can be run and read as a table."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.description.aggregates import Aggregate
from headrace.description.checks import checked_aggregates, checked_owners
from headrace.description.durations import Duration, duration_ms
from headrace.description.fingerprint import fingerprint_of
from headrace.description.grouping import grouping_columns
from headrace.description.suppression import UntilWindowCloses
from headrace.description.windows import TimeWindows
from headrace.description.wording import a_value
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.stream import Stream
    from headrace.description.topic import Topic

NAME_MAX = 80
WINDOW_BOUNDS = ("window_start", "window_end")
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


@dataclass(frozen=True)
class GroupedStream:
    """A stream and the columns that it is grouped by."""

    stream: Stream
    by: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "by", grouping_columns(self.stream, self.by))

    def window(self, window: TimeWindows, grace: Duration | None = None) -> WindowedStream:
        """Group by windows too; a record is late for one when stream time has reached its end plus `grace`.

        Raises: DescriptionError when `grace` is missing or negative, or `window` is no window.
        """
        if grace is None:
            raise DescriptionError(
                "window: grace is missing.", hint="Say how long to wait for late records: grace='2 minutes'."
            )
        return WindowedStream(self, window, duration_ms(grace, "grace"))


@dataclass(frozen=True)
class WindowedStream:
    """A grouped stream and its windows, each open until stream time reaches its end plus `grace_ms`."""

    grouped: GroupedStream
    window: TimeWindows
    grace_ms: int

    def __post_init__(self) -> None:
        _check_window(self.window, self.grace_ms)

    def aggregate(self, **aggregates: Aggregate) -> WindowedAggregate:
        """One row per group and window, with a column for each aggregate."""
        return WindowedAggregate(
            self.grouped.stream, self.grouped.by, self.window, self.grace_ms, tuple(aggregates.items())
        )


@dataclass(frozen=True)
class WindowedAggregate:
    """A windowed aggregate: one row per group and window.

    Out: columns `by`, `window_start`, `window_end` (TIMESTAMP), then the aggregates by name.
    Law: a function of the logs of its topics alone.
    """

    stream: Stream
    by: tuple[str, ...]
    window: TimeWindows
    grace_ms: int
    aggregates: tuple[tuple[str, Aggregate], ...]
    suppression: UntilWindowCloses | None = None
    name: str | None = None
    description: str = ""
    owners: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_window(self.window, self.grace_ms)
        _check_suppression(self.suppression)
        _check_name(self.name)
        if not isinstance(self.description, str):
            raise DescriptionError(f"named: description {a_value(self.description)} is not text.")
        by = grouping_columns(self.stream, self.by)
        _check_bounds(by)
        taken = (*by, *WINDOW_BOUNDS)
        object.__setattr__(self, "by", by)
        object.__setattr__(self, "aggregates", checked_aggregates(self.stream.shape, self.aggregates, taken))
        object.__setattr__(self, "owners", checked_owners(self.owners))

    def suppress(self, policy: UntilWindowCloses) -> WindowedAggregate:
        """Emit what the policy says instead of every update."""
        if self.suppression is not None:
            raise DescriptionError(
                f"suppress: this aggregate is suppressed already, by {self.suppression}.",
                hint="Remove one of the two .suppress(…).",
            )
        if policy is None:
            raise DescriptionError("suppress: None is no policy.", hint="Write hr.until_window_closes().")
        return replace(self, suppression=policy)

    def named(self, name: str, description: str = "", owners: tuple[str, ...] = ()) -> WindowedAggregate:
        """Give the node its name: that of its table and of its assets."""
        if name is None:
            _check_name("")
        return replace(self, name=name, description=description, owners=owners)

    @property
    def topics(self) -> tuple[Topic, ...]:
        """The topics that it reads."""
        return self.stream.topics

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its table."""
        return (*self.by, *WINDOW_BOUNDS, *(name for name, _ in self.aggregates))

    @property
    def longest_wait_ms(self) -> int:
        """How long after a record the last window that it is in can still be open: size plus grace."""
        return self.window.size_ms + self.grace_ms

    @property
    def required_name(self) -> str:
        """The name; raises DescriptionError when there is none."""
        if self.name is None:
            raise DescriptionError(
                f"the aggregate of {', '.join(name for name, _ in self.aggregates)} has no name.",
                hint="Add .named('…'): it is the name of its table and of its assets.",
            )
        return self.name

    def fingerprint(self) -> str:
        """A sha256 in hex of everything that alters the rows computed from a log; equal in every process."""
        return fingerprint_of(self)


def _check_window(window: object, grace_ms: int) -> None:
    if not isinstance(window, TimeWindows):
        raise DescriptionError(
            f"window: {a_value(window)} is no window.",
            hint="Write hr.tumbling('2 minutes') or hr.hopping('2 minutes', advance='1 minute').",
        )
    if duration_ms(grace_ms, "grace") != grace_ms:
        raise DescriptionError(f"grace_ms: {a_value(grace_ms)} is not a number of milliseconds.")


def _check_bounds(by: tuple[str, ...]) -> None:
    for name in by:
        if name.lower() in WINDOW_BOUNDS:
            raise DescriptionError(
                f"group_by: '{name}' is also the name of an output column, a bound of the window.",
                hint=f"Rename it first: .with_column('its_{name}', '{name}').",
            )


def _check_suppression(policy: object) -> None:
    if policy is not None and not isinstance(policy, UntilWindowCloses):
        raise DescriptionError(
            f"suppress: {a_value(policy)} is no policy.", hint="Write hr.until_window_closes()."
        )


def _check_name(name: object) -> None:
    if name is not None and not (isinstance(name, str) and len(name) <= NAME_MAX and _NAME.fullmatch(name)):
        raise DescriptionError(
            f"named: {a_value(name)} is not a name in lower-case letters, digits and single underscores, "
            f"starting with a letter, of at most {NAME_MAX} characters.",
            hint="Write for example .named('reading_counts').",
        )

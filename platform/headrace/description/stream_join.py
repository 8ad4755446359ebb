"""Joins of two streams: pairs of records that lie close to one another in event time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.description.durations import Duration, format_duration, optional_ms
from headrace.description.emitting import Emitting
from headrace.description.fingerprint import rules_of
from headrace.description.grouping import grouping_columns, require_known_columns
from headrace.description.join import INNER, LEFT
from headrace.description.schema import ResultColumn
from headrace.description.wording import listed, require_choice
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.description.stream import Stream

OUTER = "outer"
STREAM_HOWS = (INNER, LEFT, OUTER)


@dataclass(frozen=True)
class StreamJoin(Emitting):
    """A join of two streams: the pairs of records with one key that lie close to one another in event time.

    In:  on         columns that both streams have; a record in which one of them is null has no partner
         before_ms  how much earlier than the left record the right one may be; after_ms: how much later
         grace_ms   how long, in stream time, a record waits beyond that for partners
         how        "inner": pairs; "left": also left records without a partner; "outer": also right ones
    Out: the columns of `on`, the others of the left stream, the others of the right one. A row is never revised.
    Law: a function of the logs alone. A left record closes at its event time + after + grace, a right one at its event time
         + before + grace: later no partner can come in time. A record is late if it closes at or before its own stream time.
         Each record of a pair has to come in time for both: the earlier closing is beyond the higher one of their stream
         times. The order of the logs takes no part. A record without a partner leaves at the first commit after which the
         lowest stream time of the node reaches the time at which it closes.
    Source: Kafka Streams, JoinWindows.ofTimeDifferenceAndGrace, KIP-633 and KAFKA-10847.
    """

    left: Stream
    right: Stream
    on: tuple[str, ...]
    before_ms: int
    after_ms: int
    grace_ms: int
    how: str = INNER

    def __post_init__(self) -> None:
        require_choice("join: how", self.how, STREAM_HOWS)
        require_known_columns(self.left, "join: left")
        require_known_columns(self.right, "join: right")
        object.__setattr__(self, "on", grouping_columns(self.left, self.on, "join: on, left"))
        self._check_on()
        self._refuse_clashes()
        super().__post_init__()

    @property
    def sides(self) -> Mapping[str, Stream]:
        """Both streams."""
        return {"left": self.left, "right": self.right}

    @property
    def shares_topics(self) -> bool:
        """Whether a topic is on both sides: its records are left ones and right ones, and partners of themselves."""
        return not {*self.left.topics}.isdisjoint(self.right.topics)

    @property
    def right_on(self) -> tuple[str, ...]:
        """The columns of `on` as the right stream spells them."""
        return tuple(self.right.shape.resolve(name, "join: on, right") for name in self.on)

    @property
    def left_values(self) -> tuple[str, ...]:
        """The columns of the left stream beside `on`."""
        return tuple(name for name in self.left.columns or () if name not in self.on)

    @property
    def right_values(self) -> tuple[str, ...]:
        """The columns of the right stream beside `on`."""
        return tuple(name for name in self.right.columns or () if name not in self.right_on)

    @property
    def key(self) -> tuple[str, ...]:
        """The key of the join, as in Kafka Streams."""
        return self.on

    day_column = "__released_at"  # a row belongs to the day of the commit at which it left

    @property
    def waits_ms(self) -> tuple[int, int]:
        """How long after a left record, and after a right one, its partner may still come."""
        return self.after_ms + self.grace_ms, self.before_ms + self.grace_ms

    passes_causes = True  # those of both records of a pair

    @property
    def longest_wait_ms(self) -> int:
        """How long after a record its partner may still come, at most."""
        return max(self.waits_ms)

    @property
    def apart_in_words(self) -> str:
        """How far apart a pair may be, for people."""
        if self.before_ms == self.after_ms:
            return f"at most {format_duration(self.before_ms)} apart"
        before, after = format_duration(self.before_ms), format_duration(self.after_ms)
        return f"the right one at most {before} before and {after} after the left one"

    @property
    def result_columns(self) -> tuple[ResultColumn, ...]:
        """The key, the columns of the left stream, those of the right one."""
        sides = (
            (self.left, self.on, "Joined by this."),
            (self.left, self.left_values, "Of the left record."),
            (self.right, self.right_values, "Of the right record."),
        )
        return tuple(of.shape.result_column(name, meaning) for of, names, meaning in sides for name in names)

    @property
    def in_words(self) -> str:
        """One sentence for people."""
        left, right = map(format_duration, self.waits_ms)
        both = f"a record without a partner leaves after {left} of stream time"
        if left != right:
            both = f"{both}, a right one after {right}"
        alone = {
            INNER: "",
            LEFT: f"; a left record without a partner leaves after {left} of stream time",
            OUTER: f"; {both}",
        }
        return f"One row per pair of records with the same {listed(self.on)}, {self.apart_in_words}{alone[self.how]}."

    @property
    def work(self) -> Sequence[tuple[str, bool]]:
        """The key, the kind and the times."""
        apart = (
            f"within {format_duration(self.before_ms)}"
            if self.before_ms == self.after_ms
            else f"before {format_duration(self.before_ms)}, after {format_duration(self.after_ms)}"
        )
        times = f"{apart}, grace {format_duration(self.grace_ms)}"
        return ((f"{self.how} join of streams on {listed(self.on)}, {times}", False),)

    def rules(self) -> dict[str, Any]:
        """Both streams, the key, the times and the kind."""
        apart = {"before_ms": self.before_ms, "after_ms": self.after_ms}
        return {
            "stream_join": rules_of(self.left, self.left.columns or ()),
            "with": rules_of(self.right, self.right.columns or ()),
            "columns": self.columns,
            "on": self.on,
            **({"within_ms": self.before_ms} if self.before_ms == self.after_ms else apart),
            "grace_ms": self.grace_ms,
            "how": self.how,
        }

    def _check_on(self) -> None:
        grouping_columns(self.right, self.on, "join: on, right")
        for name, theirs in zip(self.on, self.right_on, strict=True):
            mine, other = self.left.shape.type_of(name), self.right.shape.type_of(theirs)
            if mine and other and mine.type != other.type:
                raise DescriptionError(
                    f"join: '{name}' is {mine.type} on the left and {other.type} on the right.",
                    hint=f"Cast it before: .with_column('{name}', 'CAST({name} AS {mine.type})').",
                )

    def _refuse_clashes(self) -> None:
        left = {name.lower() for name in (*self.on, *self.left_values)}
        for name in self.right_values:
            if name.lower() in left:
                raise DescriptionError(
                    f"join: both streams have a column '{name}'.",
                    hint=f"Rename one before: .select(…, '{name} AS right_{name}').",
                )


def interval(within: Duration | None, before: Duration | None, after: Duration | None) -> tuple[int, int]:
    """How much earlier and how much later than the left record the right one may be, in ms.

    Raises: DescriptionError when one of them is not told, or `within` says nothing
    """
    within_ms = optional_ms(within, "within")
    before_ms, after_ms = optional_ms(before, "before"), optional_ms(after, "after")
    is_told_twice = None not in (within_ms, before_ms, after_ms)
    before_ms = within_ms if before_ms is None else before_ms
    after_ms = within_ms if after_ms is None else after_ms
    if before_ms is None or after_ms is None:
        raise DescriptionError(
            "join: how far apart two records may be is not told.",
            hint="Write within='10 minutes', or before='10 minutes' and after='0 s'.",
        )
    if is_told_twice:
        raise DescriptionError(
            "join: within, before and after are given, and within has no meaning.", hint="Leave it out."
        )
    return before_ms, after_ms

"""Joins of two streams: pairs of records that lie close to one another in event time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.description.durations import format_duration
from headrace.description.emitting import Emitting
from headrace.description.fingerprint import rules_of
from headrace.description.grouping import grouping_columns, require_known_columns
from headrace.description.join import INNER, LEFT
from headrace.description.schema import ResultColumn
from headrace.description.wording import a_value, listed
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.stream import Stream
    from headrace.description.topic import Topic

OUTER = "outer"
STREAM_HOWS = (INNER, LEFT, OUTER)


@dataclass(frozen=True)
class StreamJoin(Emitting):
    """A join of two streams: the pairs of records with one key whose event times differ by at most `within`.

    In:  on         columns that both streams have; a record in which one of them is null has no partner
         within_ms  the largest difference of event times
         grace_ms   how long, in stream time, a record waits beyond `within` for partners
         how        "inner": pairs; "left": also left records without a partner; "outer": also right ones
    Out: the columns of `on`, the others of the left stream, the others of the right one. A row is never revised.
    Law: a function of the logs alone. A record is late if its event time + within + grace is not beyond its own stream time.
         Of two records of a pair the later one, by commit time, topic, partition and offset, has to come in time for both:
         the lower event time of the two + within + grace is beyond its stream time. A record without a partner leaves at the
         first commit after which the lowest stream time of the partitions of all topics reaches its event time + within +
         grace.
    Source: Kafka Streams, JoinWindows.ofTimeDifferenceAndGrace, KIP-633 and KAFKA-10847.
    """

    left: Stream
    right: Stream
    on: tuple[str, ...]
    within_ms: int
    grace_ms: int
    how: str = INNER

    def __post_init__(self) -> None:
        if self.how not in STREAM_HOWS:
            raise DescriptionError(
                f"join: how {a_value(self.how)} does not exist; there are {listed(STREAM_HOWS)}."
            )
        self._refuse_shared_topics()
        require_known_columns(self.left, "join: left")
        require_known_columns(self.right, "join: right")
        object.__setattr__(self, "on", grouping_columns(self.left, self.on, "join: on, left"))
        self._check_on()
        self._refuse_clashes()
        super().__post_init__()

    @property
    def topics(self) -> tuple[Topic, ...]:
        """The topics of both streams."""
        return (*self.left.topics, *self.right.topics)

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
    def identity(self) -> tuple[str, ...]:
        """The key of the join, as in Kafka Streams: to a sink, a later row of a key replaces an earlier one."""
        return self.on

    @property
    def day_column(self) -> str:
        """A row belongs to the day of the commit at which it left."""
        return "__released_at"

    @property
    def longest_wait_ms(self) -> int:
        """How long after a record its partner may still come: within plus grace."""
        return self.within_ms + self.grace_ms

    @property
    def result_columns(self) -> tuple[ResultColumn, ...]:
        """The key, the columns of the left stream, those of the right one."""
        sides = (
            (self.left, self.on, "Joined by this."),
            (self.left, self.left_values, "Of the left record."),
            (self.right, self.right_values, "Of the right record."),
        )
        return tuple(
            ResultColumn(name, known.type if (known := of.shape.type_of(name)) else "computed", meaning)
            for of, names, meaning in sides
            for name in names
        )

    @property
    def in_words(self) -> str:
        """One sentence for people."""
        waits = format_duration(self.longest_wait_ms)
        alone = {
            INNER: "",
            LEFT: f"; a left record without a partner leaves after {waits} of stream time",
            OUTER: f"; a record without a partner leaves after {waits} of stream time",
        }
        return (
            f"One row per pair of records with the same {listed(self.on)}, "
            f"at most {format_duration(self.within_ms)} apart{alone[self.how]}."
        )

    def rules(self) -> dict[str, Any]:
        """Both streams, the key, the times and the kind."""
        return {
            "stream_join": rules_of(self.left, self.left.columns or ()),
            "with": rules_of(self.right, self.right.columns or ()),
            "columns": self.columns,
            "on": self.on,
            "within_ms": self.within_ms,
            "grace_ms": self.grace_ms,
            "how": self.how,
        }

    def _refuse_shared_topics(self) -> None:
        names = {topic.name for topic in self.left.topics}
        for topic in self.right.topics:
            if topic.name in names:
                raise DescriptionError(
                    f"join: topic '{topic.name}' is on both sides, and a stream is not joined with itself.",
                    hint="Join streams of different topics.",
                )

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

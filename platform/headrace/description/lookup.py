"""Lookups: a stream, each record with the row that a table had for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.description.complete_first import check_complete_first
from headrace.description.durations import format_duration, require_ms
from headrace.description.emitting import Emitting
from headrace.description.feeds import RECORDS, VERSIONS, Feed
from headrace.description.fingerprint import rules_of
from headrace.description.grouping import common_key, require_known_columns
from headrace.description.join import INNER, LEFT
from headrace.description.meanings import meaning_of
from headrace.description.schema import ResultColumn, fields_of_struct
from headrace.description.table import Table, is_latest
from headrace.description.ways_on import what_is
from headrace.description.wording import listed, require_choice
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.description.node import Node
    from headrace.description.stream import Stream
    from headrace.description.topic import Topic

LOG, EVENT = "log", "event"
AS_OF = (LOG, EVENT)
HOWS = (INNER, LEFT)


@dataclass(frozen=True)
class Prior:
    """A lookup among the records of a stream: the latest one at or before a record in event time.

    If both read one topic, it is the latest one before the record in event time and then in the log; so never itself.

    grace_ms   how long, in stream time, a record waits for others that come late; one that is further behind is late
    within_ms  how much earlier the one that it finds may be; None: any time
    """

    grace_ms: int
    within_ms: int | None = None


@dataclass(frozen=True)
class Lookup(Emitting):
    """A lookup: each record of a stream with the row of a table that it refers to.

    In:  on          columns of the stream that hold the table's key; one that is null refers to nothing
         how         "left": every record; "inner": those that find a row
         as_of       "log": the row that the table had at the record's place in the log;
                     "event": of the table's rows in time the one with the highest timestamp that is not beyond the
                     record's, of equal ones that at the higher position, whatever order the table has; none if it is a
                     delete. A row of the table is in time if its stream time is not beyond that at which the record is due
         history_ms  of "event": a record further behind its partition's stream time is late; None: none is
         prior       of "event": the table stands for a stream, of which tombstones are no records; None: it is a table
         complete_first  whether no record is looked up before the table's topics were read to where they ended when their
                     logs were first begun; earlier records wait for the log commit with which they are
    Out: the columns of the stream, then those of the table that are not in its key. One row per record, never revised.
    Law: a function of the logs alone. Across topics a record's place is its commit time, then topic, partition, offset. The
         changes of a table (see `TableChanges`) stand after all records of the commit that caused them. As of event time a
         record is due at its timestamp plus the grace of `prior`, and not before the node's time has reached the record's
         stream time; it is released at the first commit, not before its own, after which the node's time is beyond that.
         With `complete_first` it is released at the commit that completes the table, if that is later; it then finds the
         table after that commit, and as of event time rows through that commit are in time for all records.
    """

    stream: Stream
    right: Table
    on: tuple[str, ...]
    how: str = LEFT
    as_of: str = LOG
    history_ms: int | None = None
    prior: Prior | None = None
    complete_first: bool = False

    def __post_init__(self) -> None:
        if not is_latest(self.right):
            raise DescriptionError(
                f"lookup: {what_is(self.right)} is no table.",
                hint="Write .lookup(topic.table(), on='…'). Two streams are paired: "
                ".join(stream, on='…', within='1 minute', grace='1 minute').",
            )
        require_choice("lookup: how", self.how, HOWS)
        if self.right.forget_deletes_ms is not None:
            raise DescriptionError(
                "lookup: a table with forget_deletes_after takes no late records, and a lookup finds versions of any age.",
                hint="Leave it out; with as_of='event', history=… bounds what is kept.",
            )
        self._check_as_of()
        self._check_prior()
        check_complete_first("lookup", self.complete_first, self.right.topics, "Look up in topic.table()")
        columns = require_known_columns(self.stream, "lookup")
        self._check_on()
        names = {name.lower() for name in columns}
        for name in self.right.values:
            if name.lower() in names:
                raise DescriptionError(
                    f"lookup: the stream and the table both have a column '{name}'.",
                    hint=f"Rename one before: .select(…, '{name} AS its_{name}').",
                )
        super().__post_init__()

    @property
    def row_topics(self) -> tuple[Topic, ...]:
        """The topics of the stream."""
        return self.stream.topics

    @property
    def finds_earlier_of_its_own(self) -> bool:
        """Whether `prior` is among records of the stream's own topics: then of equal timestamps the place decides."""
        return self.prior is not None and not {*self.stream.topics}.isdisjoint(self.right.topics)

    @property
    def waits_for(self) -> tuple[str, ...]:
        """The topics that have to be complete before any record is looked up."""
        return tuple(topic.name for topic in self.right.topics) if self.complete_first else ()

    @property
    def revised_at_commit_end(self) -> tuple[str, ...]:
        """The topics of the table whose rows follow from a whole log commit: they stand after all records of that commit."""
        return tuple(topic.name for topic in self.right.topics if topic.tells_changes)

    @property
    def key(self) -> tuple[str, ...]:
        """The record key of the stream, if all its topics have it and the steps keep it."""
        return common_key(self.stream)

    @property
    def day_column(self) -> str:
        """A row belongs to the day of its record's commit; if records wait, to that of the commit that released it."""
        return "__released_at" if self.as_of == EVENT or self.complete_first else "__ingested_at"

    @property
    def goes_by_clocks(self) -> bool:
        """As of the log it passes them on; as of event time it waits for stream time."""
        return self.as_of != EVENT

    # Those of its records; as of event time those of versions order versions of one moment
    passes_causes = True

    @property
    def longest_wait_ms(self) -> int:
        """As of event time a record waits until stream time is beyond its timestamp, and grace."""
        return 1 + self.grace_ms if self.as_of == EVENT else 0

    @property
    def grace_ms(self) -> int:
        """How far stream time has to be beyond a record before it is released."""
        return self.prior.grace_ms if self.prior else 0

    @property
    def result_columns(self) -> tuple[ResultColumn, ...]:
        """The columns of the stream, then the values of the table."""
        assert self.stream.columns is not None
        key, shape = self.right.key, self.stream.shape
        own = [shape.result_column(name, meaning_of(self.stream, name)) for name in self.stream.columns]
        return (*own, *(column for column in self.right.result_columns if column.name not in key))

    @property
    def in_words(self) -> str:
        """One sentence for people."""
        if self.prior is not None:
            return self._prior_in_words
        which = "" if self.how == LEFT else " that finds a row"
        when = "event time, once that is past" if self.as_of == EVENT else "place in the log"
        late = "" if self.history_ms is None else f"; late if {format_duration(self.history_ms)} behind"
        first = "; once the table is complete" if self.complete_first else ""
        return f"One row per record{which}, by {listed(self.on)}; as of the record's {when}{late}{first}."

    @property
    def feeds(self) -> Mapping[str, Feed]:
        """The records, and the rows of the table; a table that stands for a stream has no deletes."""
        versions = Feed(self.right.stream, read=self.right.columns)
        return {RECORDS: Feed(self.stream), VERSIONS: self.right.feed if self.prior is None else versions}

    @property
    def inputs(self) -> tuple[Stream | Node, ...]:
        """The stream and the table."""
        return (self.stream, self.right)

    @property
    def work(self) -> Sequence[tuple[str, bool]]:
        """The columns, the kind and what it is as of."""
        first = ", the table complete first" if self.complete_first else ""
        words = f"{self.how} lookup on {listed(self.on)}, as of the {self.as_of}{first}"
        if self.prior is not None:
            grace = format_duration(self.prior.grace_ms)
            words = f"{self.how} join on {listed(self.on)} with the latest record before, grace {grace}"
        return ((words, False),)

    def rules(self) -> dict[str, Any]:
        """The stream, the table, the columns, the kind and what it is as of."""
        assert self.stream.columns is not None
        event: dict[str, Any] = {"as_of": EVENT, "history_ms": self.history_ms} if self.as_of == EVENT else {}
        if self.prior is not None:
            event["prior"] = {"grace_ms": self.prior.grace_ms, "within_ms": self.prior.within_ms}
        if self.complete_first:
            event["complete_first"] = True
        return event | {
            "lookup": rules_of(self.stream, self.stream.columns),
            "table": self.right.rules(),
            "on": self.on,
            "how": self.how,
        }

    @property
    def _prior_in_words(self) -> str:
        assert self.prior is not None
        which = "" if self.how == LEFT else " that has one"
        within = self.prior.within_ms
        earlier = "" if within is None else f", at most {format_duration(within)} earlier"
        waits = f"leaves {format_duration(self.prior.grace_ms)} of stream time after its timestamp"
        same = f"the latest record before it of the same {listed(self.on)}{earlier}"
        return f"One row per record{which} with {same}; it {waits}."

    def _check_prior(self) -> None:
        if self.prior is None:
            return
        if self.as_of != EVENT or self.history_ms != self.prior.grace_ms:
            raise DescriptionError(
                "lookup: `prior` goes by event time, and its grace says how late a record may be.",
                hint="Write stream.join_prior(other, on='…', grace='…').",
            )

    def _check_as_of(self) -> None:
        require_choice("lookup: as_of", self.as_of, AS_OF)
        if self.history_ms is None:
            return
        if self.as_of == LOG:
            raise DescriptionError(
                "lookup: as of the log no record is late, and history has no meaning.",
                hint="Leave history out, or write as_of='event'.",
            )
        require_ms(self.history_ms, "lookup: history")

    def _check_on(self) -> None:
        shape, key = self.stream.shape, self.right.key
        object.__setattr__(self, "on", tuple(shape.resolve(name, "lookup: on") for name in self.on))
        if len(self.on) != len(key):
            raise DescriptionError(
                f"lookup: on names {listed(self.on)}, and the key of the table is {listed(key)}.",
                hint="Name one column of the stream for each, in that order.",
            )
        for name, theirs in zip(self.on, key, strict=True):
            mine, other = shape.type_of(name), self.right.shape.type_of(theirs)
            if mine and other and mine.type != other.type:
                raise DescriptionError(
                    f"lookup: '{name}' is {mine.type} and the table's '{theirs}' is {other.type}.",
                    hint=_way_to(name, mine.type, other.type),
                )


def _way_to(name: str, own_type: str, other: str) -> str:
    """The step that makes a column of the other type."""
    if own_type.startswith("STRUCT<"):
        fields = [field.name for field in fields_of_struct(own_type, name) if field.type == other]
        field = fields[0] if fields else "field"
        return f"Take one of its fields: .with_column('{name}_{field}', '{name}.{field}')."
    return f"Cast it before: .with_column('{name}', 'CAST({name} AS {other})')."

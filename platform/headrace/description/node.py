"""A node: what can be run and read as a table. Each kind of operator describes its own."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from headrace.description.checks import checked_owners, checked_sinks
from headrace.description.clocks import STREAM, WallWait
from headrace.description.durations import require_ms
from headrace.description.expectations import Expectation, checked_expectations
from headrace.description.feeds import RESULT, Feed
from headrace.description.fingerprint import digest_of
from headrace.description.unnamed import PREFIX, is_unnamed
from headrace.description.ways_on import WaysOn
from headrace.description.wording import a_value, require_choice
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.description.relation import Relation
    from headrace.description.schema import ResultColumn
    from headrace.description.sink import Sink
    from headrace.description.stream import Stream
    from headrace.description.suppression import Policy
    from headrace.description.topic import Topic
    from headrace.description.windows import CalendarWindows

NAME_MAX = 80
REFUSE, REBUILD = "refuse", "rebuild"
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


@dataclass(frozen=True, kw_only=True)
class Node(WaysOn, ABC):
    """The base of all nodes: the name of its table and assets, a description for people, owners, sinks.

    In:  throttle_ms  how often its table is worked out, at most; 0: as often as records come
         on_change    what a stream does whose node has tables of another description: "refuse" them until a person applies
                      the change, or "rebuild" the node from the log when it starts
         renamed_from the name that the node had before: `headrace apply` lets it go on from the tables of that name
         expectations of Great Expectations about its rows, which checks judge (see `description.expectations`)
    Law: its results are a function of the logs of its topics alone.
    """

    name: str | None = None
    description: str = ""
    owners: tuple[str, ...] = ()
    sinks: tuple[Sink, ...] = ()
    throttle_ms: int = 0
    on_change: str = REFUSE
    renamed_from: str | None = None
    expectations: tuple[Expectation, ...] = ()

    def __post_init__(self) -> None:
        check_name(self.name)
        check_name(self.renamed_from)
        require_ms(self.throttle_ms, "throttle")
        require_choice("named: on_change", self.on_change, (REFUSE, REBUILD))
        if not isinstance(self.description, str):
            raise DescriptionError(f"named: description {a_value(self.description)} is not text.")
        object.__setattr__(self, "owners", checked_owners(self.owners))
        object.__setattr__(self, "sinks", checked_sinks(self.sinks))
        if self.expectations:  # the columns of some nodes take work
            object.__setattr__(self, "expectations", checked_expectations(self.expectations, self.columns))
        for sink in self.sinks:
            if (check := getattr(sink, "check", None)) is not None:
                check(self)

    def named(
        self,
        name: str,
        description: str = "",
        owners: tuple[str, ...] = (),
        *,
        on_change: str = REFUSE,
        renamed_from: str | None = None,
        expectations: Sequence[Any] = (),
    ) -> Self:
        """Give the node its name: that of its table and of its assets.

        In: on_change, renamed_from, expectations  see the class
        """
        if name is None:
            check_name("")
        return replace(
            self,
            name=name,
            description=description,
            owners=owners,
            on_change=on_change,
            renamed_from=renamed_from,
            expectations=expectations,  # type: ignore[arg-type]  # the constructor makes them its own
        )

    def to(self, sink: Sink) -> Self:
        """Deliver what the node emits to a sink too, beside its Delta table."""
        return replace(self, sinks=(*self.sinks, sink))

    @property
    def topics(self) -> tuple[Topic, ...]:
        """The topics that it reads: those of its streams and tables, each once."""
        return tuple(dict.fromkeys(topic for each in self.inputs for topic in each.topics))

    @property
    def row_topics(self) -> tuple[Topic, ...]:
        """Those whose records its rows are made of: all but those of tables in which it only looks something up."""
        return self.topics

    if TYPE_CHECKING:  # a table has a field of this name

        @property
        @abstractmethod
        def key(self) -> tuple[str, ...]:
            """The columns that say what a row is about: a record key, a group; empty: rows have none.

            It is the record key for readers of the node, and the message key of Kafka sinks. Several appended rows may
            have one key; for what tells rows apart see `operators.contract.Operator.identity`.
            """

    @property
    @abstractmethod
    def result_columns(self) -> tuple[ResultColumn, ...]:
        """The columns of its table."""

    @property
    def record_columns(self) -> tuple[ResultColumn, ...]:
        """The columns that readers of its log get."""
        return self.result_columns

    @property
    def day_column(self) -> str | None:
        """The TIMESTAMP whose UTC day a row belongs to, for good; None: rows are revised, and belong to no day."""
        return None

    @property
    def has_days(self) -> bool:
        """Whether each row of its table is written once, for good, and belongs to a day; False: rows are revised."""
        return self.day_column is not None

    @property
    def reads_together(self) -> bool:
        """Whether an increment takes several topics through one commit time: its rows follow from their order."""
        return len(self.topics) > 1

    @property
    def time_column(self) -> str | None:
        """The column with the event time of its rows for readers of its log; None: its clock tells it."""
        return None

    @property
    def is_appended(self) -> bool:
        """Whether its rows are never revised, of whatever kind its parts are; suppressed windows are final, too."""
        return self.suppressed_by is not None

    @property
    def is_latest(self) -> bool:
        """Whether a row is the latest record of its key, with no step after it."""
        return False

    @property
    def grows(self) -> bool:
        """Whether its rows are windows that records make, and that are revised as they grow: sessions, sliding windows."""
        return False

    @property
    def has_windows(self) -> bool:
        """Whether a row is one of a window."""
        return False

    @property
    def suppressed_by(self) -> Policy | None:
        """The policy that holds its rows back until they are final; None: there is none."""
        return None

    @property
    def since(self) -> str | None:
        """The UTC day from which on its rows are made; None: all are."""
        return None

    @property
    def tells_changes(self) -> bool:
        """Whether its rows are the changes of a table, so that some say that a key is gone."""
        return False

    @property
    def shows_open(self) -> bool:
        """Whether windows that are still open are rows of its table, too."""
        return self.has_windows and self.suppressed_by is None

    @property
    def longest_wait_ms(self) -> int:
        """How long after a record something can still wait for stream time; 0: nothing ever does."""
        return 0

    @property
    def behind_clock_ms(self) -> int:
        """How far stream time in the node's log is behind its clock: as long as the node waits.

        A node that goes by clocks is as far behind as the logs of its rows' topics, at most. So says its `NodeOutput`, too.
        """
        if self.goes_by_clocks:
            return max((topic.behind_clock_ms for topic in self.row_topics), default=0)
        return self.longest_wait_ms

    @property
    def goes_by_clocks(self) -> bool:
        """Whether it takes rows of nodes by their clocks, and not by the stream time of the node's log: its feeds say so."""
        return False

    @property
    def passes_causes(self) -> bool:
        """Whether the place of a row's cause follows from records, so that those of nodes' rows go on (L32)."""
        return self.goes_by_clocks

    @property
    def calendar(self) -> CalendarWindows | None:
        """The calendar of whose zone its days are; None: its days are those of UTC."""
        return None

    @property
    def sides(self) -> Mapping[str, Stream]:
        """Its streams by the names of their feeds, if it takes several, each in its own way."""
        return {}

    @property
    def feed(self) -> Feed:
        """The rows of its stream, if it takes one."""
        return Feed(self.stream, chained=self.passes_chains)  # type: ignore[attr-defined]

    @property
    def feeds(self) -> Mapping[str, Feed]:
        """The rows that its operator takes, by name (see `feeds_of`)."""
        sides = {name: Feed(side, chained=self.passes_chains) for name, side in self.sides.items()}
        return sides or {RESULT: self.feed}

    @property
    def inputs(self) -> tuple[Stream | Node, ...]:
        """The streams and tables that its rows are made of, as a person writes them before it."""
        return tuple(self.sides.values()) or (self.stream,)  # type: ignore[attr-defined]

    @property
    def inputs_drawn(self) -> tuple[Stream | Node, ...]:
        """The same as `describe` draws them."""
        return self.inputs

    @property
    def work(self) -> Sequence[tuple[str, bool]]:
        """Its steps after them in few words, each with whether only Spark computes it; empty: it names them."""
        return ((self.in_words.removesuffix("."), False),)

    @property
    def relation(self) -> Relation | None:
        """The table that it is, or whose changes it gives; None: it is neither."""
        return None

    @property
    def as_stream_of(self) -> Stream | None:
        """The stream whose rows it has, so that a name is all that it adds; None: it computes something."""
        return None

    @property
    def update_source(self) -> Node:
        """The node whose updates a time limit holds back; of another node itself."""
        return self

    def column_sources(self) -> Mapping[str, Sequence[tuple[Stream, str]]]:
        """The columns of streams that its columns are made of, by column; empty: nothing is known."""
        return {}

    @property
    def passes_chains(self) -> bool:
        """Whether each row follows from one record, so that the source chain goes on."""
        return False

    @property
    def longest_wall_wait_ms(self) -> int:
        """How long after a record's ingestion something can still wait for wall-clock time; 0: nothing ever does."""
        return 0

    @property
    def clock(self) -> str:
        """By what its rows become final: "stream" time, or the "wall" clock as the log has recorded it."""
        return STREAM

    @property
    def wall_waits(self) -> tuple[WallWait, ...]:
        """For what wall-clock time after a record's ingestion the log has to tick, if nothing else comes."""
        return (WallWait(self.longest_wall_wait_ms),) if self.longest_wall_wait_ms else ()

    @property
    @abstractmethod
    def in_words(self) -> str:
        """One sentence for people: the grain of its table, and when its rows are final."""

    @abstractmethod
    def rules(self) -> dict[str, Any]:
        """Everything that alters the rows computed from a log, as JSON; its fingerprint is made of it."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of its table."""
        return tuple(column.name for column in self.result_columns)

    @property
    def required_name(self) -> str:
        """The name; raises DescriptionError when there is none."""
        if self.name is None:
            raise DescriptionError(
                f"the node of {', '.join(self.columns)} has no name.",
                hint="Add .named('…'): it is the name of its table and of its assets.",
            )
        return self.name

    def how_to_type(self, column: str) -> str:
        """How to say the type of a column, where SQL computes it."""
        return (
            f".with_column('{column}', 'CAST(… AS …)'), with the type that it has, such as STRING or DOUBLE"
        )

    def fingerprint(self) -> str:
        """A sha256 in hex of everything that alters the rows computed from a log; equal in every process."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        """Each commit names it."""
        return digest_of(self.rules())


def check_name(name: object) -> None:
    """Raise DescriptionError when this is no name of a node."""
    if name is not None and not (isinstance(name, str) and len(name) <= NAME_MAX and _NAME.fullmatch(name)):
        raise DescriptionError(
            f"named: {a_value(name)} is not a name in lower-case letters, digits and single underscores, "
            f"starting with a letter, of at most {NAME_MAX} characters.",
            hint="Write for example .named('reading_counts').",
        )
    if isinstance(name, str) and name.startswith(PREFIX) and not is_unnamed(name):
        raise DescriptionError(
            f"named: {a_value(name)} is kept for steps without a name, because it starts with '{PREFIX}'.",
            hint="Choose another name.",
        )

"""The base `Operator`: what the system asks of an operator, of the description alone.

Law: each answer follows from the description. No file, no clock, no Spark session and no row takes part.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from headrace.description import WindowedAggregate
from headrace.description.clocks import STREAM, WALL
from headrace.description.feeds import RESULT
from headrace.description.windows import END, START
from headrace.fold.contract import CLOCK, KEY, OFFSET, PARTITION, TOPIC
from headrace.operators.claims import OF_ROWS, OF_WINDOWS

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from headrace.description import Node
    from headrace.description.clocks import WallWait
    from headrace.fold.kernel import Kernel
    from headrace.operators.processors.fold.shape import AsFields

INGESTED_AT, TIMESTAMP = "__ingested_at", "__timestamp"
SEQUENCE, PLACE = "__sequence", "__place"
OF_PLACE = (SEQUENCE, PLACE)  # the identity of rows that are only appended
POSITION = (TOPIC, PARTITION, OFFSET)
CUT_ONE_BY_ONE = "it reads several topics in one order, and logs are cut one by one"
ORDER_OF_CHANGES = (*POSITION, TIMESTAMP, KEY)  # of the changes of any table

AnyNode = TypeVar("AnyNode", bound="Node")


@dataclass(frozen=True)
class Waits:
    """The waits of an operator after a record.

    stream_ms  at most so much stream time; 0: it never waits for stream time
    wall       so much wall-clock time after the commit of a record
    complete   topics that are read to their first ends before any row leaves
    drain      true if a drain makes rows leave
    lag_ms     the clock of the node's log is so far behind the node's own time (L32): what waits without a deadline
    later      true if rows may leave later than the records that cause them, though no wait here says so: it is 0
    """

    stream_ms: int = 0
    wall: tuple[WallWait, ...] = ()
    complete: tuple[str, ...] = ()
    drain: bool = False
    lag_ms: int = 0
    later: bool = False

    @property
    def are_some(self) -> bool:
        """Whether rows may leave with a log commit that has none of the records that cause them."""
        return bool(self.stream_ms or self.wall or self.complete or self.drain or self.lag_ms or self.later)


@dataclass(frozen=True)
class RowClock:
    """The clock of a row, by the node's table: the stream time of what caused the row (L32).

    column    milliseconds since 1970, or a timestamp
    later_ms  the clock is so much later: a deadline after a time of the row
    """

    column: str
    later_ms: int = 0


@dataclass(frozen=True)
class Bindings:
    """The schemas that a kernel is bound to.

    inputs    of each feed (see `description.feeds.feeds_of`) the columns of its stream, and ROW_COLUMNS
    changes   whether each change of a table is wanted, or its current rows alone
    computed  for each part of a relation whose values SQL computes, the columns that it has then
    fields    makes Arrow's fields of declared columns
    """

    inputs: Mapping[str, pa.Schema]
    changes: bool
    computed: Mapping[str, pa.Schema]
    fields: AsFields

    @property
    def input(self) -> pa.Schema:
        """The schema of the only feed."""
        return self.inputs[RESULT]


@dataclass(frozen=True)
class Unmatched:
    """The records that find no partner, as a check counts them.

    claim    of the check
    columns  all are null in the row of such a record
    asking   the topics of the records that ask, if those without a partner are no rows; empty: they are rows
    words    one of them, and several
    of       one of those that ask, and several
    advice   what to find out; `{name}` is the node
    """

    claim: str
    columns: tuple[str, ...]
    asking: frozenset[str]
    words: tuple[str, str]
    of: tuple[str, str]
    advice: str


@dataclass(frozen=True)
class Judged(Generic[AnyNode]):
    """The questions of checks and of care to the operator of one node, with the answers of most. At most ten members."""

    node: AnyNode

    @property
    def checks(self) -> Mapping[str, str]:
        """The claims about the node's table alone, by name, in the order in which they are judged."""
        return OF_ROWS

    @property
    def unmatched(self) -> Unmatched | None:
        """The records that find no partner; None: none asks for one, or nothing tells which."""
        return None

    @property
    def group(self) -> tuple[str, ...]:
        """The columns by which rows that belong together are asked for: those of the key, without the bounds of a window."""
        return tuple(name for name in self.node.key if name not in (START, END))

    @property
    def lateness(self) -> tuple[str, int | None]:
        """The setting that bounds how late a record may be, and its length in ms; empty and None: there is none."""
        return "", None

    @property
    def windows_by_time(self) -> bool:
        """Whether a record tells by its own row which windows it enters, and when they close."""
        return False

    @property
    def has_balance(self) -> bool:
        """Whether the totals at a cut of the log can be those with which another description begins."""
        return False

    @property
    def uncuttable(self) -> str:
        """Why rows of its logs cannot be cut off; empty: they can."""
        return CUT_ONE_BY_ONE if self.node.has_days and self.node.reads_together else ""


class Operator(Judged[AnyNode], ABC):
    """The questions of the system to the operator of one node, with the answers of most. At most ten members of its own."""

    @abstractmethod
    def kernel(self, of: Bindings) -> Kernel:
        """The operator bound to the schemas of its rows.

        Raises: DescriptionError when the types of columns do not fit
        Law:    no type of a column, no option and no size leads to another kernel; the description alone does.
        """

    @property
    def driving(self) -> tuple[str, ...]:
        """The topics whose stream time the node goes by: all. The node's other topics are *reference*.

        Law: no record of a reference topic makes a row leave, and the node waits for none of its times. A topic that is
             both is driving.
        """
        return tuple(topic.name for topic in self.node.topics)

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that tell a row from all others, in the lake and in every sink: the key, if a later row of it counts.

        `__sequence` is the log commit that caused the row. `__place` is its place among the rows of that commit, as bytes
        that are made of the columns of `order` (see `nodes.rows.sink_rows`).
        """
        return self.node.key

    @property
    def order(self) -> tuple[str, ...]:
        """The columns by which the rows of one log commit go. Some may be missing in a table."""
        return POSITION

    @property
    def waits(self) -> Waits:
        """The waits of the node after a record."""
        return Waits(self.node.longest_wait_ms, self.node.wall_waits)

    @property
    def cause(self) -> tuple[str, ...]:
        """The columns of the node's table that order what caused rows of one clock (L32): as they stand in a commit.

        POSITION is that of a record; the place of its own cause stands in for it if the record is a node's row.
        """
        return self.order

    @property
    def clock(self) -> RowClock | None:
        """The clock of a row in the node's log; None: the log's clock before the row's commit.

        Law: a row of a later commit than n has a clock at or beyond that of the log after n.
        """
        return None

    @property
    def can_be_late(self) -> bool:
        """Whether a record can come too late for the node, so that it is dropped."""
        return False

    @property
    def by_commit(self) -> bool:
        """Whether a row belongs to the day of a log commit, and not to one of event time."""
        return False

    def open_from_ms(self, closed_ms: int | None, read_ms: int | None) -> int | None:
        """The time from which on rows of the table may still come, by its day column; None: from any time on.

        In: closed_ms  every window with end + grace at or before it is closed; None: none is
            read_ms    commit time through which the log is folded; None: nothing is
        """
        return None


class Appended(Operator[AnyNode]):
    """Rows that are only appended: several may have one key, so a row is told from all others by its place."""

    identity = OF_PLACE  # the log commit, and the place in it

    @property
    def clock(self) -> RowClock | None:
        """That of the record, or of the call, that gave the row."""
        return RowClock(CLOCK)

    @property
    def by_commit(self) -> bool:
        """To that of the commit in which it left."""
        return True

    def open_from_ms(self, closed_ms: int | None, read_ms: int | None) -> int | None:
        """From the commit on through which the log is folded."""
        return read_ms


class OfWindows(Operator[WindowedAggregate]):
    """A row says when its window ended."""

    @abstractmethod
    def changes(self, of: Bindings) -> Kernel:
        """The changes of windows that grow (see `Node.grows`), appended."""

    @property
    def clock(self) -> RowClock | None:
        """The time at which the window closes; by the wall clock there is none."""
        return None if self.node.clock == WALL else RowClock("window_end", self.node.final_ms)

    checks = OF_WINDOWS  # each window is there once, and few records are late

    @property
    def lateness(self) -> tuple[str, int | None]:
        """The grace."""
        return "grace", self.node.grace_ms

    has_balance = True  # those of open windows

    @property
    def can_be_late(self) -> bool:
        """By event time a window may have closed; by the wall clock no record is late."""
        return self.node.clock == STREAM

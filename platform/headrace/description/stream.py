"""A stream: the records of one or more topics, each sent through its own row-wise steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from headrace.description.durations import Duration, duration_ms
from headrace.description.grouped import GroupedStream
from headrace.description.grouping import key_of
from headrace.description.schema import parse_ddl
from headrace.description.shape import Shape
from headrace.description.steps import Select, Step, Transform, Where, WithColumn, predicate
from headrace.description.table import POSITION, Table
from headrace.description.wording import a_value, listed
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.lookup import Lookup
    from headrace.description.stream_join import StreamJoin
    from headrace.description.topic import Topic

__all__ = ["Branch", "RowOperators", "Select", "Step", "Stream", "Transform", "Where", "WithColumn"]


class RowOperators(ABC):
    """The operators that a topic and a stream share; each returns a new description and changes nothing."""

    @property
    @abstractmethod
    def stream(self) -> Stream:
        """This, as a stream."""

    def where(self, expression: str) -> Stream:
        """Keep the records for which the SQL expression is true."""
        return self.stream._with_step(Where(expression))

    def select(self, *expressions: str) -> Stream:
        """Keep the columns that the SQL expressions make: names, or "expression AS name"."""
        return self.stream._with_step(Select(expressions))

    def with_column(self, name: str, expression: str) -> Stream:
        """Add a column made by the SQL expression, or replace the one of that name."""
        return self.stream._with_step(WithColumn(name, expression))

    def transform(self, function: Callable[[Any], Any], columns: str | None = None) -> Stream:
        """Apply a row-wise function from DataFrame to DataFrame.

        In: `columns`, the DDL of what the function returns; without it names are checked only when it runs.
        Law: the function must treat each row by itself and depend on nothing else.
        """
        declared = None if columns is None else parse_ddl(columns, "transform: columns")
        return self.stream._with_step(Transform(function, declared))

    def merge(self, other: Stream | Topic) -> Stream:
        """The records of both; their columns must have the same names, in any order."""
        if not isinstance(other, RowOperators):
            raise DescriptionError(f"merge: {a_value(other)} is neither a topic nor a stream.")
        return _merged(self.stream, other.stream)

    def branch(self, *predicates: str) -> tuple[Stream, ...]:
        """One stream for each predicate; a record goes to the first that is true, and nowhere when none is.

        Source: Kafka Streams, KStream.split.
        """
        if not predicates:
            raise DescriptionError("branch: no predicates.", hint="Write .branch('value < 0', 'value >= 0').")
        for condition in predicates:
            self.stream.shape.require(predicate(condition, "branch").columns, f"branch({condition!r})")
        return tuple(self.where(_first_true(predicates, index)) for index in range(len(predicates)))

    def group_by(self, *columns: str) -> GroupedStream:
        """Group by columns; by those of the record key when none is named."""
        return GroupedStream(self.stream, columns or key_of(self.stream))

    def lookup(
        self,
        table: Table,
        on: str | Sequence[str],
        how: str = "left",
        as_of: str = "log",
        history: Duration | None = None,
    ) -> Lookup:
        """Give each record the row of a table that it refers to.

        In:     on       the column, or columns, that hold the key of `table`; null refers to nothing
                how      "left": every record; "inner": those that find a row
                as_of    "log": the row that the table had at the record's place in the log; "event": the one that was valid
                         at the record's timestamp, given when the lowest stream time of both inputs is beyond it
                history  of "event": how far a record may be behind its partition's stream time. One further behind is late,
                         and older versions of the table's rows are not kept. None: none is late, and all are kept
        Raises: DescriptionError naming what does not fit.
        """
        from headrace.description.lookup import Lookup  # a lookup holds a stream

        columns = (on,) if isinstance(on, str) else tuple(on)
        history_ms = None if history is None else duration_ms(history, "history")
        return Lookup(self.stream, table, columns, how, as_of, history_ms)

    def join(
        self,
        other: Stream | Topic,
        on: str | Sequence[str],
        *,
        within: Duration,
        grace: Duration,
        how: str = "inner",
    ) -> StreamJoin:
        """Pair each record with the records of another stream that have its key and lie close to it in event time.

        In:     on      the column, or columns, that both streams have; a record with a null in them has no partner
                within  the largest difference of the two event times
                grace   how long, in stream time, a record waits beyond `within` for records that come late
                how     "inner": pairs; "left": also left records without a partner; "outer": also right ones
        Raises: DescriptionError naming what does not fit.
        """
        from headrace.description.stream_join import StreamJoin  # a join holds streams

        if not isinstance(other, RowOperators):
            raise DescriptionError(
                f"join: {a_value(other)} is neither a topic nor a stream.",
                hint="For the row of a table write .lookup(table, on='…').",
            )
        columns = (on,) if isinstance(on, str) else tuple(on)
        times = duration_ms(within, "within"), duration_ms(grace, "grace")
        return StreamJoin(self.stream, other.stream, columns, *times, how)

    def table(self, order_by: str = POSITION) -> Table:
        """The latest value of every record key; tombstones delete.

        In: order_by "position": the record further on in the log; "timestamp": the one with the higher event time.
        Raises: DescriptionError when the records have no key, or a transform left the columns unknown.
        """
        return Table(self.stream, key_of(self.stream, "table"), order_by)


@dataclass(frozen=True)
class Branch:
    """A topic and the steps that its records go through."""

    topic: Topic
    steps: tuple[Step, ...]

    @property
    def shape(self) -> Shape:
        """The columns after the last step."""
        before = Shape(self.topic.columns, self.topic.types)
        return reduce(lambda shape, step: step.applied_to(shape), self.steps, before)


@dataclass(frozen=True)
class Stream(RowOperators):
    """Branches whose records flow together; `columns` is None where a transform has left them unknown."""

    branches: tuple[Branch, ...]
    columns: tuple[str, ...] | None

    def __post_init__(self) -> None:
        if not self.branches:
            raise DescriptionError("Stream: no branches.", hint="Begin with a topic: hr.Topic(…).where(…).")

    @property
    def stream(self) -> Stream:
        """Itself."""
        return self

    @property
    def topics(self) -> tuple[Topic, ...]:
        """The topics, in the order in which they were merged."""
        return tuple(branch.topic for branch in self.branches)

    @property
    def shape(self) -> Shape:
        """The columns, and those types on which all branches agree."""
        first, *others = [branch.shape for branch in self.branches]
        types = {
            name: column
            for name, column in first.types.items()
            if all((theirs := other.type_of(name)) and theirs.type == column.type for other in others)
        }
        return Shape(self.columns, types)

    @property
    def transformed(self) -> bool:
        """Whether a step is a function of somebody's, which may be anything, also slow."""
        return any(isinstance(step, Transform) for branch in self.branches for step in branch.steps)

    def _with_step(self, step: Step) -> Stream:
        branches = tuple(Branch(branch.topic, (*branch.steps, step)) for branch in self.branches)
        return Stream(branches, step.applied_to(self.shape).columns)


def _merged(left: Stream, right: Stream) -> Stream:
    for topic in right.topics:
        if topic.name in [known.name for known in left.topics]:
            raise DescriptionError(
                f"merge: topic '{topic.name}' occurs on both sides, so that its records would count twice.",
                hint="Write one stream with its conditions joined by OR.",
            )
    if left.columns is None or right.columns is None:
        return Stream(left.branches + right.branches, None)
    _refuse_other_columns(left.columns, right.columns)
    _refuse_other_types(left, right)
    return Stream(left.branches + right.branches, left.columns)


def _refuse_other_columns(left: tuple[str, ...], right: tuple[str, ...]) -> None:
    only_left = [name for name in left if name not in right]
    only_right = [name for name in right if name not in left]
    if only_left or only_right:
        sides = (("left", only_left), ("right", only_right))
        found = "; ".join(f"only the {side} has {listed(names)}" for side, names in sides if names)
        raise DescriptionError(
            f"merge: the columns differ: {found}.", hint="Give both the same columns with .select(…)."
        )


def _refuse_other_types(left: Stream, right: Stream) -> None:
    for name, column in left.shape.types.items():
        theirs = right.shape.type_of(name)
        if theirs and theirs.type != column.type:
            raise DescriptionError(
                f"merge: column '{name}' is {column.type} on the left and {theirs.type} on the right.",
                hint=f"Cast one of them: .with_column('{name}', 'CAST({name} AS {column.type})').",
            )


def _first_true(predicates: tuple[str, ...], index: int) -> str:
    """The predicate at `index` where none before it is true; a line end closes a comment at its end."""
    ended = [f"({condition}\n)" if "--" in condition else f"({condition})" for condition in predicates]
    return " AND ".join([f"NOT coalesce({earlier}, false)" for earlier in ended[:index]] + [ended[index]])

"""The row-wise operators of streams, and what streams become: of topics, streams, and nodes whose rows are final."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.description.durations import Duration, duration_ms, optional_ms
from headrace.description.expectations import FAILED, split_conditions
from headrace.description.grouping import On, columns_for_key, key_of, named_as_left
from headrace.description.known_types import require_condition
from headrace.description.one_group import OneGroup
from headrace.description.process_groups import process_groups
from headrace.description.relation import Relation
from headrace.description.schema import parse_ddl
from headrace.description.steps import Select, Transform, Where, WithColumn, predicate
from headrace.description.table import POSITION, TIMESTAMP, Table
from headrace.description.ways_on import what_is
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.distinct import Distinct
    from headrace.description.emitting import Emitting
    from headrace.description.flat_mapped import FlatMapped
    from headrace.description.global_table import GlobalTable
    from headrace.description.grouped import GroupedStream
    from headrace.description.lookup import Lookup
    from headrace.description.named_stream import NamedStream
    from headrace.description.processed import Makes, Processed
    from headrace.description.sink import Sink
    from headrace.description.stores import Store
    from headrace.description.stream import Stream
    from headrace.description.stream_join import StreamJoin
    from headrace.description.topic import Topic


class RowOperators(OneGroup, ABC, kind="stream"):
    """The operators of topics, streams, and nodes with final rows; each returns a new description, and changes nothing."""

    @property
    @abstractmethod
    def _flow(self) -> Stream:
        """Take it as a stream."""

    def where(self, expression: str) -> Stream:
        """Keep the records for which the SQL expression is true.

        Raises: DescriptionError for a column that does not exist, or an expression that depends on more than the record
        """
        return self._flow._with_step(Where(expression))

    def select(self, *expressions: str) -> Stream:
        """Keep the columns that the SQL expressions make: names, or "expression AS name". Raises: as `where`."""
        return self._flow._with_step(Select(expressions))

    def with_column(self, name: str, expression: str) -> Stream:
        """Add a column made by the SQL expression, or replace the one of that name. Raises: as `where`."""
        return self._flow._with_step(WithColumn(name, expression))

    def transform(self, function: Callable[[Any], Any], columns: str | None = None) -> Stream:
        """Apply a row-wise function from DataFrame to DataFrame.

        In:     columns  the DDL of what the function returns; without it names are checked only when it runs
        Law: the function must treat each row by itself and depend on nothing else.
        """
        declared = None if columns is None else parse_ddl(columns, "transform: columns")
        return self._flow._with_step(Transform(function, declared))

    def key_by(self, *columns: str) -> Stream:
        """Give the records another key, by which tables, groups without names, sessions, joins and sinks go from here on.

        Law:    they keep their places and chains. A tombstone deletes only if the new key is made of the record key
        Raises: DescriptionError for a column that does not exist, or when a transform left the columns unknown
        """
        from headrace.description.stream import rekeyed  # a stream has these operators itself

        return rekeyed(self._flow, columns)

    def flat_map(self, array: str, ordinal: str | None = None) -> FlatMapped:
        """Make one row for each element of an array that SQL makes of the record; the other columns stay.

        In:     array    SQL of the type ARRAY with a name, "split(text, ' ') AS word"; `explode(…) AS word` is the same
                ordinal  the name of one more column with the element's place in the array, from 0
        Law:    a record is taken whole or not at all. A record whose array is null or empty is filtered
        Raises: DescriptionError when the expression is known to give no array, or a transform left the columns unknown
        """
        from headrace.description.flat_map import FlatMap  # both hold streams
        from headrace.description.flat_mapped import FlatMapped

        return FlatMapped(self._flow, FlatMap.of(array, self._flow.shape), ordinal)

    def distinct(self, *columns: str, within: Duration, grace: Duration | None = None) -> Distinct:
        """Let the first record of each id pass; later ones are duplicates.

        In:     columns  those of the id; without names those of the record key. Null is an id like others
                within   a record is a duplicate if a record that passed has its id, and their event times differ by less
                grace    a record that is so far behind stream time is late. None: as long as `within`
        Raises: DescriptionError for a column that does not exist, or a time of 0
        """
        from headrace.description.distinct import Distinct  # it holds a stream

        within_ms = duration_ms(within, "within")
        grace_ms = within_ms if grace is None else duration_ms(grace, "grace")
        return Distinct(self._flow, columns or key_of(self._flow, "distinct"), within_ms, grace_ms)

    def merge(self, other: Stream | Topic) -> Stream:
        """Put the records of two streams into one, in the order of their logs.

        A record of a topic on both sides is there once for each side that lets it pass, first as of this one.

        Raises: DescriptionError when the names of their columns differ; their order does not matter
        """
        if not isinstance(other, RowOperators):
            raise DescriptionError(
                f"merge: {what_is(other)} is neither a topic nor a stream.",
                hint="Of a table write .changes(), of final windows .as_stream().",
            )
        from headrace.description.stream import merged  # a stream has these operators itself

        return merged(self._flow, other._flow)

    def branch(self, *predicates: str) -> tuple[Stream, ...]:
        """Make one stream for each predicate. A record goes to the first that is true, or nowhere if none is.

        Source: Kafka Streams, KStream.split.
        """
        if not predicates:
            raise DescriptionError("branch: no predicates.", hint="Write .branch('value < 0', 'value >= 0').")
        for condition in predicates:
            require_condition(predicate(condition, "branch"), self._flow.shape, f"branch({condition!r})")
        return tuple(self.where(_first_true(predicates, index)) for index in range(len(predicates)))

    def quarantine(self, *expectations: Any) -> tuple[Stream, Stream]:
        """Split the stream into the rows that meet all expectations, and those that fail one.

        In:     expectations  of Great Expectations, about single rows: nulls, bounds, sets, patterns, lengths, pairs
        Out:    the first has the columns as they are. The second has one more, `failed_expectations`: the names of the
                expectations that the row fails, with commas in between. Give it a name to keep its rows
        Law:    the split is a function of the row alone, by steps in SQL. So a backfill splits as the stream did.
        Raises: DescriptionError for an expectation that needs other rows, as the mean of a column does
        """
        meets, failed = split_conditions(expectations, self._flow.shape)
        return self.where(meets), self.where(f"NOT ({meets})").with_column(FAILED, failed)

    def group_by(self, *columns: str) -> GroupedStream:
        """Group by columns. Without names, group by the columns of the record key.

        Raises: DescriptionError for a column that does not exist, or without names when there is no one record key
        """
        from headrace.description.grouped import GroupedStream  # a grouped stream holds a stream

        return GroupedStream(self._flow, columns or key_of(self._flow))

    def lookup(
        self,
        table: Relation,
        on: On,
        how: str = "left",
        as_of: str = "log",
        history: Duration | None = None,
        *,
        complete_first: bool | None = None,
    ) -> Lookup:
        """Give each record the row of a table that it refers to.

        In:     table    of any kind; of joins, aggregates and tables after steps a record finds the row that the log commits
                         before its own leave
                on       the column, or columns, that hold the key of `table`, in its order, or `{"buyer": "id"}`, each with
                         the column of the key that it holds; null refers to nothing
                how      "left": every record; "inner": those that find a row
                as_of    "log": the row that the table had at the record's place in the log; "event": the one that was valid
                         at the record's timestamp, given when the lowest stream time of both inputs is beyond it
                history  of "event": how far a record may be behind its partition's stream time. One further behind is late,
                         and older versions of the table's rows are not kept. None: none is late, and all are kept
                complete_first  True: until the table's topics are read to where they ended when their logs were first begun,
                         records wait; so the first of them find what the table held before. None: True for a table of
                         topics that the stream does not read, itself or by way of nodes
        Raises: DescriptionError naming what does not fit.
        """
        from headrace.description.complete_first import is_complete_first
        from headrace.description.lookup import Lookup  # a lookup holds a stream
        from headrace.description.table_changes import as_table

        table = as_table(table)
        columns = columns_for_key(on, getattr(table, "key", ()), "lookup")
        history_ms = optional_ms(history, "history")
        first = is_complete_first(self._flow, table) if complete_first is None else complete_first
        return Lookup(self._flow, table, columns, how, as_of, history_ms, None, first)

    def join(
        self,
        other: Stream | Topic | Emitting,
        on: On,
        *,
        within: Duration | None = None,
        before: Duration | None = None,
        after: Duration | None = None,
        grace: Duration | None = None,
        how: str = "inner",
    ) -> StreamJoin:
        """Pair each record with the records of another stream that have its key and lie close to it in event time.

        In:     on      the column, or columns, that both streams have, or `{"id": "order_id"}`, each with that of the other
                        stream; a record with a null in them has no partner
                within  the largest difference of the two event times
                before  in place of `within`: how much earlier the record of the other stream may be
                after   in place of `within`: how much later it may be
                grace   how long, in stream time, a record waits beyond that for records that come late
                how     "inner": pairs; "left": also left records without a partner; "outer": also right ones
        Raises: DescriptionError naming what does not fit.
        """
        from headrace.description.stream_join import StreamJoin, interval  # a join holds streams

        if not isinstance(other, RowOperators):
            raise DescriptionError(
                f"join: {what_is(other)} is neither a topic nor a stream.",
                hint="For the row of a table write .lookup(table, on='…').",
            )
        columns, right = named_as_left(other._flow, on, "join")
        if grace is None:
            raise DescriptionError(
                "join: grace is missing.", hint="Say how long to wait for late records: grace='2 minutes'."
            )
        times = (*interval(within, before, after), duration_ms(grace, "grace"))
        return StreamJoin(self._flow, right, columns, *times, how)

    def join_prior(
        self,
        other: Stream | Topic | Emitting,
        on: On,
        *,
        grace: Duration,
        within: Duration | None = None,
        how: str = "left",
    ) -> Lookup:
        """Give each record the latest record of another stream that has its key and is not later in event time.

        A record leaves once, when stream time of both streams is beyond its event time plus `grace`.

        In:     on      the column, or columns, that both streams have, or `{"id": "order_id"}`, each with that of the other
                        stream; a record with a null in them finds nothing
                grace   how long, in stream time, a record waits for others that come late; one further behind is late
                within  how much earlier the one that it finds may be; None: any time, and of each key one is kept for good
                how     "left": every record; "inner": those that find one
        Raises: DescriptionError naming what does not fit.
        """
        from headrace.description.lookup import EVENT, Lookup, Prior  # a lookup holds a stream

        if not isinstance(other, RowOperators):
            raise DescriptionError(
                f"join_prior: {what_is(other)} is neither a topic nor a stream.",
                hint="For the row of a table write .lookup(table, on='…', as_of='event').",
            )
        columns, right = named_as_left(other._flow, on, "join_prior")
        grace_ms = duration_ms(grace, "grace")
        within_ms = optional_ms(within, "within")
        rows = Table(right, columns, TIMESTAMP)
        return Lookup(self._flow, rows, columns, how, EVENT, grace_ms, Prior(grace_ms, within_ms))

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
    ) -> Processed:
        """Run a processor of your own over the records of each partition: see `GroupedStream.process`."""
        rest = stream_wait, wall_wait, on_error, attempts, None, 0
        return process_groups(self._flow, (), processor, output, stores, rest)

    def table(self, order_by: str = POSITION, forget_deletes_after: Duration | None = None) -> Table:
        """Keep the latest value of every record key; a tombstone deletes its key.

        In:     order_by              "position": the record further on in the log; "timestamp": the one with the higher
                                      event time
                forget_deletes_after  by timestamp, how long after its event time a delete is remembered, in stream time; a
                                      record that is as far behind is late. None: for ever, and no record is late
        Raises: DescriptionError when the records have no key, or a transform left the columns unknown.
        """
        forget_ms = optional_ms(forget_deletes_after, "forget_deletes_after")
        return Table(self._flow, key_of(self._flow, "table"), order_by, (), forget_ms)


class StreamOperators(RowOperators):
    """The operators of streams that are no node; a name makes them one."""

    def named(
        self,
        name: str,
        description: str = "",
        owners: tuple[str, ...] = (),
        *,
        on_change: str = "refuse",
        renamed_from: str | None = None,
        expectations: Sequence[Any] = (),
    ) -> NamedStream:
        """Make a node of the stream: its rows are appended to a table of this name, each once.

        In:     on_change, renamed_from, expectations  see `Node`
        Raises: DescriptionError when a transform left the columns unknown
        """
        from headrace.description.named_stream import NamedStream  # a named stream holds a stream

        return NamedStream(self._flow).named(
            name,
            description,
            owners,
            on_change=on_change,
            renamed_from=renamed_from,
            expectations=expectations,
        )

    def to(self, sink: Sink) -> NamedStream:
        """Deliver the stream's rows to a sink; `named` gives the node its name."""
        from headrace.description.named_stream import NamedStream

        return NamedStream(self._flow, sinks=(sink,))


def _first_true(predicates: tuple[str, ...], index: int) -> str:
    """The predicate at `index` where none before it is true; a line end closes a comment at its end."""
    ended = [f"({condition}\n)" if "--" in condition else f"({condition})" for condition in predicates]
    return " AND ".join([f"NOT coalesce({earlier}, false)" for earlier in ended[:index]] + [ended[index]])

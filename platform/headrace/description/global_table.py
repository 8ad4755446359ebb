"""Tables that all groups of a processor read, and none writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.description.complete_first import check_complete_first, is_complete_first
from headrace.description.processor_function import ProcessorFunction
from headrace.description.relation import Relation
from headrace.description.schema import is_floating
from headrace.description.stores import check_store_name
from headrace.description.table import Table, is_latest
from headrace.description.wording import a_value
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.processed import Processed
    from headrace.description.stream import Stream
    from headrace.description.topic import Topic


@dataclass(frozen=True)
class GlobalTable:
    """A table that every group of a processor reads as a store.

    A record finds the table that the records before it in the logs leave, as in a lookup as of the log. A timer by the wall
    clock finds the table before its log commit, a timer by the stream clock and `close` the table after it.

    complete_first  whether records wait until the table's topics are read to where they ended when their logs were first
                    begun; None: if the table is of topics from which no row of the processor's stream comes

    Source: Kafka Streams, GlobalKTable and Topology.addGlobalStore (KIP-99), which load the table before any record.
    """

    name: str
    table: Table
    complete_first: bool | None = None

    def __post_init__(self) -> None:
        check_store_name(self.name)
        if not is_latest(self.table):
            raise DescriptionError(
                f"{self._what}: {a_value(self.table)} is no table.",
                hint=f"Write hr.global_table('{self.name}', topic.table()).",
            )
        if self.table.forget_deletes_ms is not None:
            raise DescriptionError(
                f"{self._what}: a table with forget_deletes_after takes no late records, and a processor reads all rows.",
                hint="Leave it out.",
            )
        first = False if self.complete_first is None else self.complete_first
        check_complete_first(self._what, first, self.topics, "Let it be topic.table()")
        for name in self.table.key:
            known = self.table.shape.type_of(name)
            if known is not None and (is_floating(known.type) or "<" in known.type):
                raise DescriptionError(
                    f"{self._what}: key column '{name}' is {known.type}, which has no plain order.",
                    hint="Let the key be a text, a whole number, a decimal, a date or a time.",
                )

    @property
    def topics(self) -> tuple[Topic, ...]:
        """The topics of the table."""
        return self.table.topics

    @property
    def revised_at_commit_end(self) -> tuple[str, ...]:
        """Those whose rows follow from a whole log commit: they stand after all records of that commit."""
        return tuple(topic.name for topic in self.topics if topic.tells_changes)

    def is_complete_first(self, stream: Stream) -> bool:
        """Whether the records of a stream wait for it."""
        if self.complete_first is None:
            return is_complete_first(stream, self.table)
        return self.complete_first

    def rules(self) -> dict[str, Any]:
        """Name and table."""
        return {"global_table": self.name, "table": self.table.rules()}

    @property
    def _what(self) -> str:
        return f"global table '{self.name}'"


def global_table(name: str, table: Relation, *, complete_first: bool | None = None) -> GlobalTable:
    """Describe a table that all groups of a processor read, by `context.global_table(name)`.

    In:     table  of any kind; of joins, aggregates and tables after steps the rows that the log commits before leave. Every
                   micro-batch reads it whole, and each bucket holds it in memory: it is for tables of some megabytes
            complete_first  True: until the table's topics are read to where they ended when their logs were first begun,
                            the processor's records wait; then they find the table as it is. By default so for tables of
                            topics that the stream does not read
    Raises: DescriptionError for what is no name or no table, and for a key without an order
    """
    from headrace.description.table_changes import as_table  # its table may read a processor's rows

    return GlobalTable(name, as_table(table), complete_first)


def check_tables_of(node: Processed) -> None:
    """Raises: DescriptionError when the global tables of a processor do not go together with the rest of it."""
    from headrace.description.processed import SET_APART  # it has these tables
    from headrace.description.processor_order import TIME

    names = [*(store.name for store in node.stores), *(table.name for table in node.tables)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DescriptionError(f"process: there are two stores '{twice}'.")
    before = "Look its rows up before: stream.lookup(table, on='…'"
    for table in node.tables:
        shared = not {*table.topics}.isdisjoint(node.stream.topics)
        apart = node.on_error == SET_APART and shared
        for which, words, hint in (
            (
                isinstance(node.processor, ProcessorFunction),
                f"the function {node.processor_name} cannot read it",
                f"{before}).",
            ),
            (
                node.is_vectorised,
                f"{node.processor_name} takes tables of records, and cannot read it",
                f"{before}).",
            ),
            (
                node.order == TIME,
                "it is read as of the log, and order is 'time'",
                f"{before}, as_of='event').",
            ),
            (
                apart,
                "it reads a topic of the stream, too, so it would keep records that on_error='dead_letter' refuses",
                "Write on_error='stop'.",
            ),
        ):
            if which:
                raise DescriptionError(f"process: global table '{table.name}': {words}.", hint=hint)

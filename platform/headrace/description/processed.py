"""A processor over a stream: a stream of the rows that it forwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from headrace.description.batch_processor import BatchProcessor
from headrace.description.code_identity import code_of_workers
from headrace.description.durations import format_duration
from headrace.description.emitting import Emitting
from headrace.description.feeds import RESULT, table_feed
from headrace.description.fingerprint import rules_of
from headrace.description.global_table import GlobalTable, check_tables_of
from headrace.description.grouping import grouping_columns, require_known_columns
from headrace.description.importable import within_partials
from headrace.description.outputs import OUTPUT, Outputs, columns_of, named_outputs, selection, table_of
from headrace.description.processor import Frozen, Processor
from headrace.description.processor_function import FunctionProcessor, ProcessorFunction
from headrace.description.processor_order import TIME, checked_order
from headrace.description.schema import Column, ResultColumn, parse_ddl, to_ddl
from headrace.description.stores import Store, checked_stores
from headrace.description.timers_of_init import longest_intervals_ms
from headrace.description.wording import a_value, listed, require_choice
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.feeds import Feed
    from headrace.description.node import Node
    from headrace.description.stream import Stream
    from headrace.description.topic import Topic

Makes = Callable[[], Processor] | Callable[[], BatchProcessor]
STOP, SET_APART = "stop", "dead_letter"


@dataclass(frozen=True)
class Processed(Emitting):
    """The rows that a processor forwards.

    In:  stream          its records
         by              the columns of a group; none: a group is a partition of a topic
         processor       a class of `hr.Processor` or `hr.BatchProcessor`, a `functools.partial` of one, or `hr.processor(…)`
         output          columns of the rows, as DDL; of several outputs by name
         stores          of each group
         stream_wait_ms  the longest interval of a timer by the stream clock: how long a silent log ticks; None: there are no
                         such timers. Those of `init` count by themselves
         wall_wait_ms    the same by the wall clock
         on_error        "stop": an exception of `process` stops the node; "dead_letter": what the record has done is undone,
                         and it is a dead letter. One of a timer or of `close` always stops the node
         attempts        how often a record is tried before
         order           "log": records come in the log's order; "time": by time, see the law. None: "log", which a node with
                         timers, or with entries that end, must say if its groups come from several partitions
         tables          that all groups read, as of the log: a record finds what the records before it leave
         grace_ms        in the order of time, how long a record may come after records of a later time
    Out: the columns of `output`; of several the column `output` and those of all. A row is never revised.
         Its event time is that of the record that it was forwarded for, the time at which the timer was due, or the commit
         time of the drain
    Law: a function of the logs alone. A record has a clock, its stream time, which is not below the group's stream clock
         before its commit. Before a record, while the group's first timer by the stream clock is due at or before the
         record's clock, that timer is called; then the record. At the end of a commit the same up to the group's stream
         clock: the lowest stream time of the partitions of all the stream's topics; without `by`, that of its partition.
         Timers go by when they are due, then by name. In a timer's method the clock is the time at which it was due. So the
         calls between two records of a group do not depend on commits. Timers by the wall clock are called before the
         group's records, once in a commit; `close` after all, if the commit has a drain.
         In the order of time a record has the moment max(event time, clock - grace). Records and timers go by moments, then
         by position, once the stream clock is beyond them by the grace. A record is late if its event time is before its
         moment. A log commit of a global table's topic is one, too, and moves no stream clock.
         The log commits up to the one that completes the tables of `waits_for` count as one: the last of them.
    Source: Kafka Streams, Processor API (KIP-28, KIP-138).
    """

    stream: Stream
    by: tuple[str, ...]
    processor: Makes
    output: str | Mapping[str, str] | Outputs
    stores: Sequence[Store] = ()
    stream_wait_ms: int | None = None
    wall_wait_ms: int | None = None
    on_error: str = STOP
    attempts: int = 1
    order: str | None = None
    tables: tuple[GlobalTable, ...] = ()
    grace_ms: int = 0

    def __post_init__(self) -> None:
        _check_processor(self.processor)
        require_known_columns(self.stream, "process")
        if self.by:
            object.__setattr__(self, "by", grouping_columns(self.stream, self.by))
        stores = _stores_of(self.processor, self.stores)
        object.__setattr__(self, "stores", checked_stores(stores, self.group_names))
        self._check_form()
        check_tables_of(self)
        if (outputs := named_outputs(self.output)) is not None:
            object.__setattr__(self, "output", outputs)
        assert self.output_columns
        assert self.code
        for name, wait in self._waits_ms.items():
            if wait == 0:
                raise DescriptionError(
                    f"process: {name} 0 is no interval.", hint=f"Leave it out, or write {name}='1 second'."
                )
        self._check_errors()
        self._wait_for_timers_of_init()
        object.__setattr__(self, "order", checked_order(self))
        super().__post_init__()

    @property
    def feeds(self) -> Mapping[str, Feed]:
        """The records, and those of each global table."""
        return {RESULT: self.feed} | {table_feed(each.name): each.table.feed for each in self.tables}

    @property
    def inputs(self) -> tuple[Stream | Node, ...]:
        """The stream, then the tables."""
        return (self.stream, *(each.table for each in self.tables))

    @property
    def row_topics(self) -> tuple[Topic, ...]:
        """The topics of the stream."""
        return self.stream.topics

    @property
    def shares_topics(self) -> bool:
        """Whether a global table reads a topic of the stream, or of another one."""
        return len(self.topics) < len(self.stream.topics) + sum(len(each.topics) for each in self.tables)

    @property
    def waits_for(self) -> tuple[str, ...]:
        """The topics of global tables that have to be complete before any record is processed."""
        first = (each for each in self.tables if each.is_complete_first(self.stream))
        return tuple(dict.fromkeys(topic.name for each in first for topic in each.topics))

    @property
    def group_names(self) -> tuple[str, ...]:
        """How the columns of a group are called."""
        return self.by or ("topic", "partition")

    @property
    def closes(self) -> bool:
        """Whether the processor does something when its log is drained."""
        return class_of(self.processor).closes

    @cached_property
    def output_columns(self) -> tuple[Column, ...]:
        """The columns of its rows."""
        if isinstance(self.output, str):
            return parse_ddl(self.output, "process: output")
        return table_of(self.outputs)

    @cached_property
    def outputs(self) -> Mapping[str, tuple[Column, ...]]:
        """The columns of each of several outputs; empty: there is one alone."""
        named = named_outputs(self.output)
        return {} if named is None else columns_of(named)

    def output_stream(self, name: str) -> Stream:
        """One of several outputs.

        Raises: DescriptionError when there is no such output
        """
        condition, columns = selection(self.outputs, name)
        return self.where(condition).select(*columns)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of a group, if each output has them all, and the name of the output."""
        if not self.by:
            return ()
        outputs = [*self.outputs.values()] or [self.output_columns]
        told = all({*self.by} <= {column.name for column in columns} for columns in outputs)
        return (*self.by, *([OUTPUT] if self.outputs else [])) if told else ()

    @property
    def comparable_columns(self) -> tuple[str, ...]:
        """The columns that hold no MAP."""
        return tuple(column.name for column in self.output_columns if "MAP<" not in column.type)

    day_column = "__released_at"  # a row belongs to the day of the commit for which it was forwarded

    @property
    def longest_wait_ms(self) -> int:
        """The longest interval of a timer by the stream clock; in the order of time records wait for the grace, too."""
        return self.grace_ms + max(self.stream_wait_ms or 0, int(self.order == TIME))

    goes_by_clocks = True

    @property
    def longest_wall_wait_ms(self) -> int:
        """The longest interval of a timer by the wall clock."""
        return self.wall_wait_ms or 0

    @property
    def result_columns(self) -> tuple[ResultColumn, ...]:
        """The columns of the output."""
        return tuple(ResultColumn(each.name, each.type, "Forwarded.") for each in self.output_columns)

    @property
    def is_vectorised(self) -> bool:
        """Whether it takes tables of records."""
        return issubclass(class_of(self.processor), BatchProcessor)

    @property
    def processor_name(self) -> str:
        """The name of its class, or of its function."""
        of = self.processor
        return of.name if isinstance(of, ProcessorFunction) else class_of(of).__name__

    @cached_property
    def code(self) -> Mapping[str, Any]:
        """The processor's code, as of its description."""
        of = self.processor
        return code_of_workers(of.function if isinstance(of, ProcessorFunction) else of, "process")

    @property
    def in_words(self) -> str:
        """One sentence for people."""
        if (own := class_of(self.processor)._in_words_of(self)) is not None:
            return own
        scope = f"by {listed(self.by)}" if self.by else "by partition"
        reads = f", with the global tables {listed(each.name for each in self.tables)}" if self.tables else ""
        return f"One row for each that {self.processor_name} forwards, {scope}{reads}."

    @property
    def work(self) -> Sequence[tuple[str, bool]]:
        """Its sentence; its stores, the tables for which it waits, and how long its timers may wait."""
        own_words = class_of(self.processor)._in_words_of(self) is not None  # it says itself what matters
        words = [self.in_words.removesuffix(".")]
        if self.stores and not own_words:
            words.append(f"stores {listed([store.name for store in self.stores])}")
        clocks = (("stream", self.stream_wait_ms), ("wall", self.wall_wait_ms))
        words += [f"timers of the {clock} clock up to {format_duration(ms)}" for clock, ms in clocks if ms]
        words += [f"{listed(self.waits_for)} complete first"] if self.waits_for else []
        return ((", ".join(words), False),)

    def rules(self) -> dict[str, Any]:
        """The stream, the groups, the processor's code, the output, the stores and global tables, and the waits."""
        in_time: dict[str, Any] = {"order": TIME, "grace_ms": self.grace_ms} if self.order == TIME else {}
        read: dict[str, Any] = {"tables": [each.rules() for each in self.tables]} if self.tables else {}
        read |= {"complete_first": self.waits_for} if self.waits_for else {}
        return (
            in_time
            | read
            | {
                "process": rules_of(self.stream, self.stream.columns or ()),
                "columns": self.stream.columns,
                "by": self.by,
                "processor": self.code,
                "output": to_ddl(self.output_columns) if isinstance(self.output, str) else self.output,
                "stores": [store.rules() for store in self.stores],
                "stream_wait_ms": self.stream_wait_ms,
                "wall_wait_ms": self.wall_wait_ms,
                "on_error": self.on_error,
            }
        )

    def _check_form(self) -> None:
        """A function and a vectorised processor have no timers, and no entries that end by themselves."""
        if not isinstance(self.processor, ProcessorFunction) and not self.is_vectorised:
            return
        for store in self.stores:
            if store.lives_ms is not None:
                raise DescriptionError(
                    f"process: entries of store '{store.name}' end by stream time, and {self.processor_name} takes tables.",
                    hint="Write a class of hr.Processor, or delete the entries yourself.",
                )
        for name, wait in self._waits_ms.items():
            if wait is not None:
                raise DescriptionError(
                    f"process: {name} is given, but {self.processor_name} can have no timers.",
                    hint="Leave it out, or write a class of hr.Processor.",
                )

    @property
    def _waits_ms(self) -> Mapping[str, int | None]:
        """By the names that people give."""
        return {"stream_wait": self.stream_wait_ms, "wall_wait": self.wall_wait_ms}

    def _wait_for_timers_of_init(self) -> None:
        """Wait at least as long as the timers that `init` schedules."""
        if isinstance(self.processor, ProcessorFunction) or self.is_vectorised:
            return
        for clock, interval_ms in longest_intervals_ms(self.processor).items():  # type: ignore[arg-type]
            name = f"{clock}_wait"
            wait_ms = self._waits_ms.get(name) or 0
            if name in self._waits_ms and interval_ms:
                object.__setattr__(self, f"{name}_ms", max(wait_ms, interval_ms))

    def _check_errors(self) -> None:
        require_choice("process: on_error", self.on_error, (STOP, SET_APART))
        if type(self.attempts) is not int or self.attempts < 1:
            raise DescriptionError(
                f"process: attempts {a_value(self.attempts)} is no number of attempts.",
                hint="Write attempts=3.",
            )


def class_of(processor: Makes) -> type[Frozen]:
    """The class of the objects that it makes."""
    if isinstance(processor, ProcessorFunction):
        return FunctionProcessor
    made = within_partials(processor)
    assert isinstance(made, type)
    assert issubclass(made, Frozen)
    return made


def _check_processor(processor: object) -> None:
    if isinstance(processor, ProcessorFunction):
        return
    made = within_partials(processor)
    hint = "Write a class: class Count(hr.Processor): def process(self, record): …"
    if not (isinstance(made, type) and issubclass(made, Processor | BatchProcessor)):
        raise DescriptionError(f"process: {a_value(processor)} is no class of hr.Processor.", hint=hint)
    if made.__abstractmethods__:
        raise DescriptionError(
            f"process: {made.__name__} has no method {listed(sorted(made.__abstractmethods__))}.", hint=hint
        )


def _stores_of(processor: Makes, stores: Sequence[Store]) -> Sequence[Store]:
    """The stores that are given; of a function that of its state."""
    if not isinstance(processor, ProcessorFunction):
        return stores
    own = (processor.store,)
    if stores not in ((), [], own):
        raise DescriptionError(
            f"process: the function {processor.name} has its state, and no other stores.",
            hint="Write a class of hr.Processor for several stores.",
        )
    return own

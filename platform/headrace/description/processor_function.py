"""A processor that is a plain function of a group's key, its records and its state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headrace.description.processor import Context, KeyValueStore, Processor, ProcessorError, Record
from headrace.description.stores import Store, value_store
from headrace.description.wording import a_value
from headrace.errors import DescriptionError

STATE = "state"  # the name of its store
Function = Callable[[Mapping[str, Any], Iterator[Record], KeyValueStore], Iterable[Mapping[str, Any]]]


class RunDependentError(ProcessorError):
    """A function does what depends on where a run of records ends."""


@dataclass(frozen=True)
class ProcessorFunction:
    """A function as `process` takes it: it makes a processor."""

    function: Function
    state: str

    def __post_init__(self) -> None:
        if not callable(self.function) or isinstance(self.function, type):
            raise DescriptionError(
                f"processor: {a_value(self.function)} is no function.",
                hint="Write def count(key, records, state): …, and hr.processor(count, state='n BIGINT').",
            )
        assert self.store.name == STATE

    @cached_property
    def store(self) -> Store:
        """Where its state is kept."""
        return value_store(STATE, self.state)

    @property
    def name(self) -> str:
        """The name of the function."""
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def __call__(self) -> FunctionProcessor:
        """See `Makes`."""
        return FunctionProcessor(self.function)


class FunctionProcessor(Processor):
    """Calls the function for runs of a group's records."""

    def __init__(self, function: Function) -> None:
        self.function = function

    def init(self, context: Context) -> None:
        """See the base class."""
        self.context, self.state = context, context.store(STATE)

    def process(self, record: Record) -> None:
        """A run of one record."""
        self.process_run(iter([record]))

    def process_run(self, records: Iterator[Record]) -> None:
        """Some records of the current group, one after the other; each row is forwarded for the last one that was taken.

        Raises: RunDependentError for a row that belongs to no record, and for records that are left
        """
        run = _Run(records)
        for row in self.function(self.context.key, run, self.state) or ():
            if not run.stands_at_one:
                raise RunDependentError(
                    "A row comes before the first record or after the last one, and which these are depends on the cuts.",
                    hint="Give it in the loop over the records: for record in records: …; yield {…}.",
                )
            self.context.forward(**row)
        if next(run, None) is not None:
            raise RunDependentError(
                "The function has ended, and there are records that it has not taken.",
                hint="Take all of them: for record in records: …",
            )


class _Run(Iterator[Record]):
    """Records one by one; `stands_at_one`: the last one was not followed by another, or by their end."""

    def __init__(self, records: Iterator[Record]) -> None:
        self._records, self.stands_at_one = records, False

    def __next__(self) -> Record:
        self.stands_at_one = False
        record = next(self._records)
        self.stands_at_one = True
        return record


def processor(function: Function, *, state: str) -> ProcessorFunction:
    """A processor that is a plain function.

    In:     function  of the group's key (its columns by name), records (an iterator) and state (a store of one entry: `get`,
                      `put`, `delete`). It takes all the records, and yields rows (mappings by column) between them; each
                      belongs to the record that was taken last
            state     the columns of the state as DDL
    Law:    one call gets some records of one group that follow one another. How many depends on the cuts, so the function
            keeps what it has to know in `state`, and nothing else.
    Raises: DescriptionError when it is no function, or for columns that cannot be
    """
    return ProcessorFunction(function, state)

"""Call a processor for one group after another: its records in the log's order, and its timers between them."""

from __future__ import annotations

import sys
import traceback
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.description import Processor, ProcessorError, Record
from headrace.description.epoch_time import moment
from headrace.description.processor import WALL, freeze
from headrace.description.processor_function import FunctionProcessor, RunDependentError
from headrace.fold.segments import LOWEST
from headrace.operators.processors.fold.context import Group, RunContext, Scheduled
from headrace.operators.processors.fold.forwarded import (
    DRAINED,
    END,
    RECORDS,
    WALL_TIMERS,
    Cause,
    Forwarded,
)
from headrace.operators.processors.fold.global_tables.tables_as_of import TablesAsOf
from headrace.operators.processors.fold.shape import Shape
from headrace.operators.processors.fold.state_tables import BEGIN

CALLS_MAX = 1_000_000  # of a group's timers without a record between them, within one log commit


def place_in_code(of: object, error: BaseException) -> str:
    """The last line of a processor's own file that an error passed, as ` (cards.py, line 47)`; empty: none is known.

    Dead letters do not have it: a comment further up would change their reasons.
    """
    file = getattr(sys.modules.get(type(of).__module__), "__file__", None)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f" ({file.rpartition('/')[2]}, line {lines[-1]})" if file and lines else ""


@dataclass(frozen=True)
class Commits:
    """The log commits of an increment.

    at_ms   commit times, rising
    drains  the numbers of those that have a drain
    """

    at_ms: Sequence[int]
    drains: Sequence[int]


@dataclass(frozen=True)
class Moved:
    """The stream clock of a group: before the increment, and after each commit; LOWEST: it has not begun."""

    before_ms: int
    after_ms: Sequence[int]


@dataclass(frozen=True)
class Records:
    """The records of an increment, as lists.

    values     of columns
    position   topic, partition and offset
    times_ms   commit time, event time, stream time
    moment_ms  the clock of each one's call; LOWEST: it has not begun
    commit     the number of the log commit that each is given in
    late       whether it came after its moment
    """

    columns: Sequence[str]
    values: Sequence[Sequence[Any]]
    position: Sequence[Sequence[Any]]
    times_ms: Sequence[Sequence[int | None]]
    moment_ms: Sequence[int]
    commit: Sequence[int]
    late: Sequence[bool]

    def record(self, number: int) -> Record:
        """One of them."""
        values = dict(zip(self.columns, [column[number] for column in self.values], strict=True))
        topic, partition, offset = (column[number] for column in self.position)
        ingested_ms, event_ms, stream_ms = (column[number] for column in self.times_ms)
        assert ingested_ms is not None
        times_ms = ingested_ms, event_ms, stream_ms
        return Record(values, (topic, partition, offset), times_ms, late=self.late[number])


class Runner:
    """One object of a processor, and the rows that it forwards."""

    def __init__(
        self, shape: Shape, commits: Commits, records: Records, tables: TablesAsOf | None = None
    ) -> None:
        """Make the object, and call its `init`. In: tables  that all groups read."""
        self._shape, self._commits, self._records, self._tables = shape, commits, records, tables
        self.forwarded = Forwarded(shape)
        self.refused: dict[int, str] = {}  # the records that were set apart by number, and why
        self._context = RunContext(shape, self.forwarded, tables.stores if tables else {})
        self._processor = _made(shape, self._context)

    @property
    def initial(self) -> Mapping[str, Scheduled]:
        """The timers that each group has from its first record on."""
        return self._context.initial

    def run(self, group: Group, numbers: Sequence[int], clock: Moved) -> None:
        """All commits that concern a group.

        In:     numbers  the numbers of its records, in their order
        Raises: ProcessorError when the processor raises
        """
        self._context.enter(group)
        if isinstance(self._processor, FunctionProcessor):
            self._run_function(self._processor, group, numbers)
            return
        at, end = 0, len(self._commits.at_ms)
        done = 0
        while True:
            follows = self._records.commit[numbers[done]] if done < len(numbers) else end
            at = min(follows, self._next_due(group, clock, at), self._next_drain(at))
            if at >= end:
                return
            upto = done
            while upto < len(numbers) and self._records.commit[numbers[upto]] == at:
                upto += 1
            self._commit(group, at, numbers[done:upto], clock)
            at, done = at + 1, upto

    def _run_function(self, function: FunctionProcessor, group: Group, numbers: Sequence[int]) -> None:
        """All records of a group at once, for a function has no timers; one by one if it raises, to find the record."""
        group.begin()
        rows = len(self.forwarded.causes)
        try:
            function.process_run(self._one_after_another(group, numbers))
        except RunDependentError as error:
            raise ProcessorError(
                f"Node '{self._shape.node}': {self._name}, key {dict(group.key)!r}: {error.message}",
                hint=error.hint,
            ) from error
        except Exception:
            group.undo()
            self.forwarded.cut(rows)
            for number in numbers:
                self._process(group, number, self._commits.at_ms[self._records.commit[number]])

    def _one_after_another(self, group: Group, numbers: Sequence[int]) -> Iterator[Record]:
        """Records; the context stands at the one that was taken last."""
        for number in numbers:
            record = self._records.record(number)
            self._stand_at(group, number, self._commits.at_ms[self._records.commit[number]])
            yield record

    def _commit(self, group: Group, at: int, numbers: Sequence[int], clock: Moved) -> None:
        """One log commit: timers by the wall clock, records with the timers before them, timers at its end, and a drain."""
        context, at_ms = self._context, self._commits.at_ms[at]
        context.wall_ms = at_ms
        context.clock_ms = clock.after_ms[at - 1] if at else clock.before_ms
        if self._tables:
            self._tables.before_commit(at_ms)
        self._call_wall_timers(group, at_ms)
        for number in numbers:
            self._process(group, number, at_ms)
        after_ms = clock.after_ms[at]
        if self._tables:
            self._tables.after_commit(at_ms)
        self._call_stream_timers(group, after_ms, (END, -1))
        context.clock_ms = after_ms
        context.expire(after_ms)
        if self._shape.closes and at in self._commits.drains and group.holds:
            context.cause = Cause(at_ms, DRAINED, at_ms, after_ms, -1, group.number)
            self._call("close", group, f"the drain of {moment(at_ms)}", self._processor.close)

    def _process(self, group: Group, number: int, at_ms: int) -> None:
        """One record, after the timers that its clock has reached. Only its reason is left of one that is set apart."""
        if group.timers:
            if self._tables:
                self._tables.at_record(number)
            self._call_stream_timers(group, self._records.moment_ms[number], (RECORDS, number))
        for attempt in range(self._shape.attempts):
            group.begin()
            rows = len(self.forwarded.causes)
            try:
                self._try(group, number, at_ms)
            except ProcessorError as error:
                group.undo()
                self.forwarded.cut(rows)
                if attempt + 1 < self._shape.attempts:
                    continue
                if not self._shape.sets_apart:
                    raise
                said = error.__cause__
                self.refused[number] = f"{self._name}.process raises {type(said).__name__}: {said}"
            return

    def _try(self, group: Group, number: int, at_ms: int) -> None:
        record = self._records.record(number)
        self._stand_at(group, number, at_ms)
        for timer in self.initial.values():
            if timer.name not in group.timers:
                self._context.start(timer)
        where = f"{record.topic}, partition {record.partition}, offset {record.offset}"
        self._call("process", group, where, self._processor.process, record)

    def _stand_at(self, group: Group, number: int, at_ms: int) -> None:
        """Let the context stand at a record."""
        context = self._context
        if self._tables:
            self._tables.at_record(number)
        event_ms, clock_ms = self._records.times_ms[1][number], self._records.moment_ms[number]
        context.wall_ms, context.clock_ms = at_ms, clock_ms
        context.cause = Cause(at_ms, RECORDS, event_ms, clock_ms, number, group.number)

    @property
    def _name(self) -> str:
        return self._shape.called

    def _call_wall_timers(self, group: Group, at_ms: int) -> None:
        """The timers that the commit time has reached, each once; an earlier one may take them back, or set them anew."""
        due = [
            (timer.due_ms, timer.name)
            for timer in group.timers.values()
            if timer.clock == WALL and timer.due_ms is not None and timer.due_ms <= at_ms
        ]
        for due_ms, name in sorted(due):
            timer = group.timers[name]
            if (timer.due_ms, timer.clock) == (due_ms, WALL):
                self._context.cause = self._cause_of(group, due_ms, (WALL_TIMERS, -1))
                self._call_timer(group, timer, timer.after(at_ms), due_ms)

    def _call_stream_timers(self, group: Group, upto_ms: int, place: tuple[int, int]) -> None:
        """The timers that the stream clock has reached, each at each of its times.

        In:     place  the phase; and the number of the record before which they are called, or -1
        Raises: ProcessorError beyond CALLS_MAX
        """
        if upto_ms == LOWEST:
            return
        calls = 0
        while (timer := group.due(upto_ms)) is not None:
            assert timer.due_ms is not None
            due_ms = upto_ms if timer.due_ms == BEGIN else timer.due_ms
            calls += 1
            if calls > CALLS_MAX:
                raise self._too_many(group, timer.name, upto_ms)
            self._context.clock_ms = due_ms
            self._context.cause = self._cause_of(group, due_ms, place)
            self._call_timer(group, timer, timer.after(due_ms), due_ms)

    def _cause_of(self, group: Group, due_ms: int, place: tuple[int, int]) -> Cause:
        """The cause of a timer's rows; those of timers that are due at one time are numbered together."""
        context, (phase, record) = self._context, place
        last = context.cause
        cause = Cause(context.wall_ms, phase, due_ms, context.clock_ms, record, group.number, due_ms)
        if last is not None and replace(last, number=0, clock_ms=cause.clock_ms) == cause:
            cause.number = last.number
        return cause

    def _call_timer(self, group: Group, timer: Scheduled, after: Scheduled, due_ms: int) -> None:
        group.set_timer(after)
        method = getattr(self._processor, timer.method, None)
        if method is None:
            raise ProcessorError(
                f"Node '{self._shape.node}': timer '{timer.name}' calls a method {timer.method}, which does not exist."
            )
        where = f"the timer '{timer.name}' of {moment(due_ms)}"
        self._call(timer.method, group, where, method, moment(due_ms))

    def _too_many(self, group: Group, name: str, upto_ms: int) -> ProcessorError:
        return ProcessorError(
            f"Node '{self._shape.node}': timers of the group {dict(group.key)!r} were called {CALLS_MAX:,} times without "
            f"a record between them, and more are due, such as '{name}', by {moment(upto_ms)}.",
            hint="Schedule a longer interval, or cancel the timer while nothing happens; then run `headrace apply`.",
        )

    def _call(self, what: str, group: Group, where: str, call: Callable[..., None], *args: Any) -> None:
        try:
            call(*args)
        except Exception as error:
            raise ProcessorError(
                f"Node '{self._shape.node}': {self._name}.{what} raises for {where}, "
                f"key {dict(group.key)!r}: {type(error).__name__}: {error}{place_in_code(self._processor, error)}",
                hint="Mend the processor and run `headrace apply`; or filter such records before it.",
            ) from error

    def _next_due(self, group: Group, clock: Moved, at: int) -> int:
        """The number of the first commit from `at` on at which a timer is due; as many as there are, if none is."""
        found = len(self._commits.at_ms)
        for timer in group.timers.values():
            if timer.due_ms is not None:
                times = self._commits.at_ms if timer.clock == WALL else clock.after_ms
                found = min(found, bisect_left(times, timer.due_ms, at))
        return found

    def _next_drain(self, at: int) -> int:
        drains, end = self._commits.drains, len(self._commits.at_ms)
        if not self._shape.closes:
            return end
        place = bisect_left(drains, at)
        return drains[place] if place < len(drains) else end


def _made(shape: Shape, context: RunContext) -> Processor:
    """An object of the user's class, after its `init`."""
    try:
        made = shape.make()
        assert isinstance(made, Processor)
        context.processor = made
        made.init(context)
    except Exception as error:
        raise ProcessorError(
            f"Node '{shape.node}': its processor cannot be made: {type(error).__name__}: {error}",
            hint="Its class takes no arguments but those that functools.partial gives it, and init reads no store.",
        ) from error
    freeze(made)
    return made

"""Processors, commit by commit and group by group: the user's class with plain dicts for stores.

Law (L34): in each log commit a group gets the timers that the commit time has reached, each once; its records, and before
each of them the timers by the stream clock that the record's clock has reached; the timers that the group's stream clock
after the commit has reached; and `close` if there is a drain. A timer by the stream clock is called at each of its times,
which is its clock. In the order of time a record's clock is max(event time, clock - grace), records go by it and then by
place, and a commit gives those below its lowest stream time less the grace. Where global tables have to be complete first,
nothing is called before the commit that completes them; with it come all records so far, by topic, partition and offset.
"""

from __future__ import annotations

import copy
import datetime as dt
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.description.batch_processor import BatchProcessor
from headrace.description.durations import duration_ms
from headrace.description.epoch_time import moment
from headrace.description.feeds import RESULT
from headrace.description.outputs import OUTPUT, TO
from headrace.description.processor import Context, KeyValueStore, Processor, Record, Timer, freeze
from headrace.description.processor_order import LOG
from headrace.description.time_stores import SessionStore, WindowStore
from headrace.operators.processors.oracle_one_by_one import OneByOne
from headrace.operators.processors.oracle_stores import (
    NOT_BEGUN,
    Alarm,
    Group,
    as_column,
    first_beyond,
    key_value_store,
    session_store,
    window_store,
)
from headrace.operators.processors.oracle_tables import (
    Before,
    before_record,
    complete_at,
    global_rows,
    note_fates_of_tables,
)
from headrace.oracle.fates import DEAD_LETTER, DRAIN, OPEN, USED
from headrace.oracle.log import Log, Place, Results, Row, Values
from headrace.oracle.reader_time import StreamTimes
from headrace.oracle.values import Identity, identity, plain

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.description import Duration, Processed, Topic
    from headrace.description.stores import Store

WALL_TIMERS, RECORDS, END, DRAINED = range(4)


class _Context(Context):
    """User code is given this."""

    def __init__(self, node: Processed, log: Log) -> None:
        self.node, self.initial = node, dict[str, Alarm]()
        self.before: Before | None = None
        self.tables = global_rows(self, node, log)
        self.group: Group | None = None
        self.stream_ms, self.wall_ms = NOT_BEGUN, 0
        self.forwarded: list[Values] = []

    @property
    def key(self) -> Mapping[str, Any]:
        assert self.group is not None
        return self.group.key

    @property
    def stream_time(self) -> dt.datetime | None:
        return None if self.stream_ms == NOT_BEGUN else moment(int(self.stream_ms))

    @property
    def wall_time(self) -> dt.datetime:
        return moment(self.wall_ms)

    def store(self, name: str) -> KeyValueStore:
        return self.tables[name] if name in self.tables else key_value_store(self, self._described(name))

    def global_table(self, name: str) -> KeyValueStore:
        return self.tables[name]

    def window_store(self, name: str) -> WindowStore:
        return window_store(self, self._described(name))

    def session_store(self, name: str) -> SessionStore:
        return session_store(self, self._described(name))

    def _described(self, name: str) -> Store:
        return next(each for each in self.node.stores if each.name == name)

    def forward(self, /, **columns: Any) -> None:
        if self.node.outputs:
            columns[OUTPUT] = columns.pop(TO)
            assert {*columns} == {OUTPUT, *(each.name for each in self.node.outputs[columns[OUTPUT]])}
        row = {each.name: as_column(each, columns.get(each.name)) for each in self.node.output_columns}
        assert {*columns} <= {*row}
        self.forwarded.append(row)

    def schedule(
        self,
        interval: Duration,
        callback: Callable[[dt.datetime], None],
        *,
        clock: str = "stream",
        name: str | None = None,
        once: bool = False,
    ) -> Timer:
        alarm = Alarm(callback.__name__, clock, duration_ms(interval, "schedule"), once)
        name = name or alarm.method
        if self.group is None:
            self.initial[name] = alarm
        else:
            self.begin(name, alarm)
        return Timer(self, name)

    def begin(self, name: str, alarm: Alarm) -> None:
        assert self.group is not None
        now = self.wall_ms if alarm.clock == "wall" else self.stream_ms
        self.group.alarms[name] = Alarm(
            alarm.method, alarm.clock, alarm.interval_ms, alarm.once, now + alarm.interval_ms
        )

    def cancel(self, name: str) -> None:
        if self.group is None:
            self.initial.pop(name, None)
        elif name in self.group.alarms:
            self.group.alarms[name].due = None


class _Run:
    """The groups of a node, and what was forwarded for them."""

    def __init__(self, node: Processed, columns: pa.Schema | None, log: Log) -> None:
        self.node, self.columns = node, columns
        self.context, self.outcome = _Context(node, log), Results()
        self.processor = self._made()
        freeze(self.processor)
        self.groups: dict[Identity, Group] = {}
        self.waiting: list[Row] = []
        self.moments: dict[Place, float] = {}  # of records in the order of time
        self.before = StreamTimes()  # the stream times of partitions before the current log commit
        self.numbers: dict[Any, int] = {}  # of the rows of each call
        # The commit that completes global tables; None: there is none yet.
        self.complete_ms = complete_at(node, log)

    def _made(self) -> Processor:
        made = self.node.processor()
        if isinstance(made, BatchProcessor):
            made = OneByOne(made, self.node, self.columns)
        made.init(self.context)
        return made

    def commit(
        self,
        at_ms: int,
        rows: list[Row],
        before: StreamTimes,
        after: StreamTimes,
        *,
        is_drained: bool,
    ) -> None:
        """One log commit. In: the stream times of partitions before and after it."""
        context = self.context
        context.wall_ms, self.before = at_ms, before
        context.before = lambda row: row.at_ms < at_ms
        for group in self.groups.values():
            self.call_wall(group, self.stream_clock(group, before))
        for row in rows:
            self.outcome.met(row, row.fate or self.come(row))
        for row in self.released(after):
            self.take(row, self.moments[row.place])
        context.before = lambda row: row.at_ms <= at_ms
        for group in self.groups.values():
            now = self.stream_clock(group, after)
            self.call_stream(group, now, END)
            if self.node.closes and is_drained and group.holds(now):
                self.enter(group, now)
                self.processor.close()
                self.gather(DRAINED, at_ms)

    def come(self, row: Row) -> str:
        """A record has come: its fate. In the order of time it waits for its moment."""
        own = NOT_BEGUN if row.stream_ms is None else row.stream_ms
        clock = max(own, self.lowest(self.before)) if self.node.by else own
        if self.node.order == LOG:
            return self.take_or_refuse(row, clock)
        event = NOT_BEGUN if row.event_ms is None else row.event_ms
        self.moments[row.place] = max(event, clock - self.node.grace_ms)
        self.waiting.append(row)
        return USED

    def released(self, after: StreamTimes) -> list[Row]:
        """The records whose moment has passed, in the order of time."""
        now = self.lowest(after) - self.node.grace_ms
        passed = [row for row in self.waiting if self.moments[row.place] < now]
        self.waiting = [row for row in self.waiting if self.moments[row.place] >= now]
        return sorted(passed, key=lambda row: (self.moments[row.place], row.topic, row.cause, *row.place[2:]))

    def group_of(self, row: Row) -> Group:
        """The group of a record."""
        own = [row.values[name] for name in self.node.by] or [row.topic, row.partition]
        key = {name: plain(value) for name, value in zip(self.node.group_names, own, strict=True)}
        return self.groups.setdefault(identity(own), Group(key))

    def take(self, row: Row, clock: float) -> None:
        """One record, after the timers that its clock has reached."""
        self.context.before = before_record(self.node, row, self.complete_ms or 0)
        self.call_stream(self.group_of(row), clock, RECORDS, row)
        self.process(row, clock)

    def process(self, row: Row, clock: float) -> None:
        """One record."""
        group = self.group_of(row)
        self.enter(group, clock)
        for name, alarm in self.context.initial.items():
            if name not in group.alarms:
                self.context.begin(name, alarm)
        assert row.offset is not None
        position = row.topic, row.partition, row.offset
        times_ms = row.at_ms, row.event_ms, row.stream_ms
        late = self.node.order != LOG and row.event_ms is not None and row.event_ms < clock
        self.processor.process(Record(row.values, position, times_ms, late=late))
        self.gather(RECORDS, row.event_ms, row)

    def take_or_refuse(self, row: Row, clock: float) -> str:
        """One record, and its fate; one that raises leaves all as it was after the timers before it."""
        self.context.before = before_record(self.node, row, self.complete_ms or 0)
        group = self.group_of(row)
        self.call_stream(group, clock, RECORDS, row)
        before = copy.deepcopy(vars(group))
        try:
            self.process(row, clock)
        except Exception:
            if self.node.on_error == "stop":
                raise
            vars(group).update(before)
            self.context.forwarded = []
            return DEAD_LETTER
        return USED

    def call_wall(self, group: Group, stream: float) -> None:
        """The timers that the commit time has reached, each once."""
        at_ms = self.context.wall_ms
        due = [(a.due, name) for name, a in group.alarms.items() if a.clock == "wall" and a.due is not None]
        for due_at, name in sorted(each for each in due if each[0] <= at_ms):
            alarm = group.alarms[name]
            if (alarm.due, alarm.clock) == (due_at, "wall"):
                alarm.due = None if alarm.once else first_beyond(at_ms, due_at, alarm.interval_ms)
                self.call(group, alarm.method, stream, (WALL_TIMERS, int(due_at)))

    def call_stream(self, group: Group, upto: float, phase: int, row: Row | None = None) -> None:
        """One after another the timer that is due first, until none is that the stream clock has reached."""
        while upto != NOT_BEGUN:
            due = [
                (a.due, name) for name, a in group.alarms.items() if a.clock == "stream" and a.due is not None
            ]
            if not due or min(due)[0] > upto:
                return
            due_at, name = min(due)
            now, alarm = (upto if due_at == NOT_BEGUN else due_at), group.alarms[name]
            alarm.due = None if alarm.once else now + alarm.interval_ms
            self.call(group, alarm.method, now, (phase, int(now)), row)

    def call(
        self, group: Group, method: str, stream: float, place: tuple[int, int], row: Row | None = None
    ) -> None:
        """One timer. In: place  the phase, and when it was due; row: the record before which it is called."""
        phase, due_ms = place
        self.enter(group, stream)
        getattr(self.processor, method)(moment(due_ms))
        self.gather(phase, due_ms, row, due_ms)

    def enter(self, group: Group, stream: float) -> None:
        """Stand for a group, at a time of the stream clock."""
        self.context.group, self.context.stream_ms = group, stream

    def stream_clock(self, group: Group, times: StreamTimes) -> float:
        """The stream clock of a group after a log commit; in the order of time it is the grace behind."""
        if not self.node.by:
            return times.get((group.key["topic"], group.key["partition"]), NOT_BEGUN)
        return self.lowest(times) - self.node.grace_ms

    def lowest(self, times: StreamTimes) -> float:
        """The lowest stream time of the node, once there is one."""
        return NOT_BEGUN if times.lowest_ms is None else times.lowest_ms

    def gather(
        self, phase: int, event_ms: int | None, row: Row | None = None, due_ms: int | None = None
    ) -> None:
        """Take what was forwarded as rows."""
        context = self.context
        assert context.group is not None
        call = context.wall_ms, phase, row and row.place, due_ms, identity([*context.group.key.values()])
        for values in context.forwarded:
            number = self.numbers[call] = self.numbers.get(call, -1) + 1
            self.outcome.rows.append(
                {
                    **values,
                    "__topic": row and row.topic,
                    "__partition": row and row.partition,
                    "__offset": row and row.offset,
                    "__phase": phase,
                    "__due": due_ms,
                    "__number": number,
                    "__released_at": moment(context.wall_ms),
                    "__timestamp": event_ms,
                    "__clock_ms": None if context.stream_ms == NOT_BEGUN else int(context.stream_ms),
                    "__sequence": context.wall_ms,
                }
            )
        context.forwarded = []


def driving(node: Processed) -> Sequence[Topic]:
    """Global tables move no time, except if the stream reads their topic, too."""
    return node.stream.topics


def results(node: Processed, log: Log) -> Results:
    """The rows that a processor forwards."""
    columns = None if log.schemas is None else log.schemas[RESULT]
    run, before, first = _Run(node, columns, log), StreamTimes(), 0
    drains = {row.at_ms for rows in log.feeds.values() for row in rows if row.fate == DRAIN}
    complete_ms = run.complete_ms
    for at_ms, after in log.commits:
        if complete_ms is None or at_ms < complete_ms:
            continue
        last = bisect_right(log.rows, at_ms, first, key=lambda row: row.at_ms)
        rows = log.rows[first:last]
        if at_ms == complete_ms:  # all commits so far count as this one
            rows.sort(key=lambda row: row.place[1:])
        run.commit(at_ms, rows, before, after, is_drained=at_ms in drains)
        before, first = after, last
    for row in log.rows[first:]:
        run.outcome.met(row, row.fate or OPEN)
    note_fates_of_tables(node, log, run.outcome)
    return run.outcome

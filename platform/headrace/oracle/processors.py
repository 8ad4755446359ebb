"""Processors, commit by commit and group by group: the user's class with plain dicts for stores.

Law: each log commit calls the processor for a group in this order: timers that the commit time has reached; records; timers
that the stream clock after the commit has reached; `close` if there is a drain. A timer is called once in a commit.
"""

from __future__ import annotations

import copy
import datetime as dt
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from headrace.description.batch_processor import BatchProcessor
from headrace.description.durations import duration_ms
from headrace.description.feeds import RESULT
from headrace.description.outputs import OUTPUT, TO
from headrace.description.processed import LOG
from headrace.description.processor import Context, KeyValueStore, Processor, Record, Timer, freeze
from headrace.description.time_stores import SessionStore, WindowStore
from headrace.oracle.fates import DEAD_LETTER, DRAIN, USED, refused
from headrace.oracle.global_tables import Before, before_record, global_rows, note_fates_of_tables
from headrace.oracle.log import Log, Place, Results, Row, Values
from headrace.oracle.one_by_one import OneByOne
from headrace.oracle.processor_stores import (
    NOT_BEGUN,
    Alarm,
    Group,
    as_column,
    expire,
    key_value_store,
    session_store,
    window_store,
)
from headrace.oracle.reader_time import StreamTimes
from headrace.oracle.values import Identity, identity, moment, plain

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.description import Duration, Processed
    from headrace.description.stores import Store

WALL_TIMERS, RECORDS, STREAM_TIMERS, DRAINED = range(4)


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

    def forward(self, **columns: Any) -> None:
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
        self.context, self.found = _Context(node, log), Results()
        self.processor = self._made()
        freeze(self.processor)
        self.groups: dict[Identity, Group] = {}
        self.waiting: list[Row] = []
        self.late: set[Place] = set()
        self.before = StreamTimes()  # the stream times of partitions before the current log commit

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
            expire(self.node.stores, group, self.stream_clock(group, before))
        for group in [*self.groups.values()]:
            self.call_due(group, "wall", at_ms, WALL_TIMERS, at_ms, self.stream_clock(group, before))
        for row in rows:
            fate = row.fate if not self.node.by else refused(row, self.node.by)
            self.found.met(row, fate or self.come(row))
        for row in self.released(after):
            self.take(row)
        context.before = lambda row: row.at_ms <= at_ms
        for group in self.groups.values():
            now = self.stream_clock(group, after)
            self.call_due(group, "stream", now, STREAM_TIMERS, at_ms, now)
        if self.node.closes and is_drained:
            for group in self.groups.values():
                if any(group.stores.values()) or any(
                    alarm.due is not None for alarm in group.alarms.values()
                ):
                    self.enter(group, self.stream_clock(group, after))
                    self.processor.close()
                    self.gather(DRAINED, at_ms, at_ms)

    def come(self, row: Row) -> str:
        """A record has come: its fate. In the order of time it waits for its moment."""
        if self.node.order == LOG:
            return self.take_or_refuse(row)
        self.waiting.append(row)
        if row.time_ms <= self.lowest(self.before):
            self.late.add(row.place)
        return USED

    def released(self, after: StreamTimes) -> list[Row]:
        """The records whose moment has come, in the order of time."""
        now = self.lowest(after)
        mine = [row for row in self.waiting if row.time_ms <= now]
        self.waiting = [row for row in self.waiting if row.time_ms > now]
        return sorted(mine, key=lambda row: (row.time_ms, row.topic, row.partition, row.offset or 0))

    def take(self, row: Row) -> None:
        """One record."""
        own = [row.values[name] for name in self.node.by] or [row.topic, row.partition]
        key = {name: plain(value) for name, value in zip(self.node.group_names, own, strict=True)}
        group = self.groups.setdefault(identity(own), Group(key))
        group.over_ms = self.stream_clock(group, self.before)
        stream_ms = NOT_BEGUN if row.stream_ms is None else row.stream_ms
        self.context.before = before_record(self.node, row)
        self.enter(group, stream_ms if self.node.order == LOG else max(row.time_ms, self.lowest(self.before)))
        for name, alarm in self.context.initial.items():
            if name not in group.alarms:
                self.context.begin(name, alarm)
        assert row.offset is not None
        position = row.topic, row.partition, row.offset
        times_ms = row.at_ms, row.event_ms, row.stream_ms
        self.processor.process(Record(row.values, position, times_ms, late=row.place in self.late))
        self.gather(RECORDS, self.context.wall_ms, row.event_ms, row)

    def take_or_refuse(self, row: Row) -> str:
        """One record, and its fate; one that raises leaves all as it was."""
        before = copy.deepcopy(self.groups)
        try:
            self.take(row)
        except Exception:
            if self.node.on_error == "stop":
                raise
            self.groups, self.context.forwarded = before, []
            return DEAD_LETTER
        return USED

    def call_due(self, group: Group, clock: str, now: float, phase: int, at_ms: int, stream: float) -> None:
        """The timers of a group that are due by a clock."""
        due = [(a.due, name) for name, a in group.alarms.items() if a.clock == clock and a.due is not None]
        self.enter(group, stream)
        for due_at, name in sorted(each for each in due if each[0] <= now and now != NOT_BEGUN):
            alarm = group.alarms[name]
            if (alarm.due, alarm.clock) != (due_at, clock):
                continue
            alarm.due = None if alarm.once else _next(due_at, alarm.interval_ms, int(now))
            getattr(self.processor, alarm.method)(moment(int(now)))
        self.gather(phase, at_ms, None if now == NOT_BEGUN else int(now))

    def enter(self, group: Group, stream: float) -> None:
        """Stand for a group, at a time of the stream clock."""
        self.context.group, self.context.stream_ms = group, stream

    def stream_clock(self, group: Group, times: StreamTimes) -> float:
        """The stream clock of a group after a log commit."""
        if not self.node.by:
            return times.get((group.key["topic"], group.key["partition"]), NOT_BEGUN)
        return self.lowest(times)

    def lowest(self, times: StreamTimes) -> float:
        """The lowest stream time of the node, once there is one."""
        return NOT_BEGUN if times.lowest_ms is None else times.lowest_ms

    def gather(self, phase: int, at_ms: int, event_ms: int | None, row: Row | None = None) -> None:
        """Take what was forwarded as rows."""
        for number, values in enumerate(self.context.forwarded):
            self.found.rows.append(
                {
                    **values,
                    "__topic": row and row.topic,
                    "__partition": row and row.partition,
                    "__offset": row and row.offset,
                    "__phase": phase,
                    "__number": number,
                    "__released_at": moment(at_ms),
                    "__timestamp": event_ms,
                    "__sequence": at_ms,
                }
            )
        self.context.forwarded = []


def processed(node: Processed, log: Log) -> Results:
    """The rows that a processor forwards."""
    columns = None if log.schemas is None else log.schemas[RESULT]
    run, before, first = _Run(node, columns, log), StreamTimes(), 0
    drains = {row.at_ms for rows in log.feeds.values() for row in rows if row.fate == DRAIN}
    for at_ms, after in log.commits:
        last = bisect_right(log.rows, at_ms, first, key=lambda row: row.at_ms)
        run.commit(at_ms, log.rows[first:last], before, after, is_drained=at_ms in drains)
        before, first = after, last
    note_fates_of_tables(node, log, run.found)
    return run.found


def _next(due: float, interval_ms: int, now_ms: int) -> int:
    """The first of a timer's times that lies after now."""
    if due == NOT_BEGUN:
        return now_ms + interval_ms
    following = int(due)
    while following <= now_ms:
        following += interval_ms
    return following

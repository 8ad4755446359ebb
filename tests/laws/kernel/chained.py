"""Nodes that read nodes, in the laws: what a node gave becomes a log that others read, by the rule of L32.

It is told once more here, row by row: the engine writes such logs from a lake's tables (`headrace.writing.node_logs.node_log`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description import (
    Batches,
    FlatMap,
    Node,
    NodeOutput,
    Select,
    TableChanges,
    Topic,
    WithColumn,
    is_of_kafka,
    parse_expression,
)
from headrace.description.table_changes import KEY_DELETED
from headrace.engine.folding.operators import NodeOperator, operator_of
from headrace.engine.folding.output_tables import output_schemas
from headrace.fold.contract import CAUSE, INGESTED, ROW_COLUMNS, TOPIC, Clock, Times
from headrace.operators.contract import SEQUENCE, TIMESTAMP
from headrace.operators.registry import operator_for
from headrace.oracle.reader_time import commits_of, times_of_reader
from headrace.writing.node_logs.causes import places_of
from tests.laws.kernel.harness import Outcome
from tests.laws.kernel.logs import World
from tests.laws.kernel.reading import Reading

Stream = dict[tuple[str, int], int]
Moved = Sequence[
    tuple[int, int | None, bool]
]  # of each commit its time, the log's time after it, whether it is idle
EVENT_AND_CLOCK = ("__event_ms", "__stream_ms")  # of a log for readers that go by clocks


@dataclass(frozen=True)
class TopicLog:
    """The log of a topic, or of a node.

    rows    all of it: the user's columns and those of `ROW_COLUMNS`
    clocks  each commit time, and the stream times after it
    drains  commit times
    complete_ms  the commit with which the topic became complete; None: none is
    clocked  of a node, rows and clocks with the rows' clocks in place of stream times
    """

    rows: pa.Table
    clocks: Sequence[tuple[int, Stream]]
    drains: Sequence[int] = ()
    complete_ms: int | None = None
    clocked: tuple[pa.Table, Sequence[tuple[int, Stream]]] | None = None

    @property
    def by_clock(self) -> pa.Table:
        """The rows with their clocks for stream times."""
        return self.rows if self.clocked is None else self.clocked[0]

    def going_by_clock(self) -> TopicLog:
        """The same log for a reader that goes by clocks."""
        return self if self.clocked is None else replace(self, rows=self.by_clock, clocks=self.clocked[1])


@dataclass
class Logs:
    """The logs that a node reads; what `World` tells of random ones."""

    by_topic: Mapping[str, TopicLog]

    @property
    def topics(self) -> list[str]:
        """Their names."""
        return [*self.by_topic]

    def of(self, *topics: str) -> Logs:
        """Those of some topics alone."""
        return Logs({name: self.by_topic[name] for name in topics})

    def commits(self, topic: str | None = None) -> list[int]:
        """The commit times, rising; each once."""
        return sorted(
            {at for name, log in self.by_topic.items() if topic in (None, name) for at, _ in log.clocks}
        )

    def clock(self, upto: Mapping[str, int]) -> Clock:
        """The clock once each topic has been read through a commit time."""
        known, stream = {}, Stream()
        for name, log in self.by_topic.items():
            read = [(at, times) for at, times in log.clocks if at <= upto.get(name, -1)]
            if read:
                known[name], times = read[-1]
                stream |= times
        complete = (
            name
            for name, log in self.by_topic.items()
            if log.complete_ms is not None and log.complete_ms <= upto.get(name, -1)
        )
        return Clock(known, stream, frozenset(complete))

    def between(self, rows: pa.Table, after: Mapping[str, int], upto: Mapping[str, int]) -> pa.Table:
        """Of rows of these logs those committed after some commit times and through others."""
        at, topics = rows[INGESTED].to_numpy(), rows[TOPIC].to_pylist()
        first = np.array([after.get(name, -1) for name in topics], np.int64)
        last = np.array([upto.get(name, -1) for name in topics], np.int64)
        return rows.filter(pa.array((first < at) & (at <= last)))

    def times(self, after: Mapping[str, int], upto: Mapping[str, int]) -> Times:
        """The clocks around and in an increment, and what people decided in it."""

        def is_new(name: str, at: int) -> bool:
            return after.get(name, -1) < at <= upto.get(name, -1)

        clocks, reached = [], dict(after)
        for at in self.commits():
            there = {n for n, log in self.by_topic.items() for time, _ in log.clocks if time == at}
            new = [name for name in there if is_new(name, at)]
            if new:
                reached |= dict.fromkeys(new, at)
                clocks.append((at, self.clock(reached)))
        drains = {at for name, log in self.by_topic.items() for at in log.drains if is_new(name, at)}
        return Times(self.clock(after), self.clock(upto), clocks, sorted(drains))

    def limits(self, after: Mapping[str, int], upto: Mapping[str, int]) -> list[tuple[int, str]]:
        """Nobody sets limits here."""
        return []


class ChainedReading(Reading):
    """What one node of a chain reads."""

    def __init__(self, node: Node, logs: Mapping[str, TopicLog]) -> None:
        if node.goes_by_clocks:
            logs = {name: log.going_by_clock() for name, log in logs.items()}
        self._logs = logs
        super().__init__(node, Logs(logs))  # type: ignore[arg-type]

    def _operator(self, changes: bool) -> Any:
        own = (*ROW_COLUMNS.names, CAUSE)
        columns = {
            name: pa.schema([column for column in rows.schema if column.name not in own])
            for name, rows in self.feeds.items()
        }
        return operator_of(self.node, columns, changes=changes)

    def _branch(self, topic: Any, steps: Sequence[Any]) -> pa.Table:
        rows = self._logs[topic.name].rows
        columns = {each.name: rows[each.name] for each in (*topic.key_columns, *topic.value_columns)}
        for step in steps:
            if isinstance(step, FlatMap):  # an array that is there
                columns[step.name] = columns[parse_expression(step.expression, "flat_map").repeats[0]]
                continue
            if isinstance(step, WithColumn):
                assert step.expression == "'all'"  # of a whole stream as one group
                columns[step.name] = pa.array(["all"] * rows.num_rows, pa.string())
                continue
            assert isinstance(step, Select)
            read = [parse_expression(sql, "select") for sql in step.expressions]
            columns = {each.name: columns[each.repeats[0]] for each in read}
        columns |= {name: rows[name] for name in ROW_COLUMNS.names}
        if self.node.passes_causes and not all(map(is_of_kafka, self.node.topics)):
            columns[CAUSE] = (
                rows[CAUSE] if CAUSE in rows.column_names else pa.nulls(rows.num_rows, pa.binary())
            )
        return pa.table(columns)


def logs_of(world: World) -> dict[str, TopicLog]:
    """The logs of a random world, each by itself."""
    found = {}
    for each in world.logs:
        alone = world.of(each.topic)
        clocks = [(at, dict(alone.clock({each.topic: at}).stream_ms)) for at in alone.commits()]
        drains = [control.at for control in each.controls if control.action == "drain"]
        complete = [control.at for control in each.controls if control.action == "complete"]
        rows = alone.everything.combine_chunks()
        found[each.topic] = TopicLog(rows, clocks, drains, min(complete, default=None))
    return found


def log_of(operator: NodeOperator, found: Outcome, read: Mapping[str, TopicLog]) -> TopicLog:
    """What a node gave, as a log. In: read  the logs of its topics"""
    node = operator.node
    output = NodeOutput.of(node)
    clock = _clocks(
        node, {name: log.going_by_clock() if node.goes_by_clocks else log for name, log in read.items()}
    )
    moved = [(at, None if ms is None else ms - node.behind_clock_ms, idle) for at, ms, idle in clock]
    rows = _in_order(operator, found)
    causes = places_of(rows, operator_for(node).cause)
    own_clocks = _row_clocks(operator, rows, clock)
    stream = _row_times(operator, rows, own_clocks, moved)
    event = rows["closed_at"] if isinstance(node, Batches) else rows[TIMESTAMP]
    if pa.types.is_timestamp(event.type):
        event = pc.floor_temporal(event, unit="millisecond").cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    number = rows.num_rows
    gone = rows[KEY_DELETED].to_pylist() if isinstance(node, TableChanges) else [False] * number
    columns = {
        **{each.name: rows[each.name] for each in (*output.key_columns, *output.value_columns)},
        INGESTED: rows[SEQUENCE],
        TOPIC: pa.array([output.name] * number, pa.string()),
        "__partition": pa.array([0] * number, pa.int32()),
        "__offset": pa.array(range(number), pa.int64()),
        "__event_ms": event,
        "__stream_ms": pa.array(stream, pa.int64()),
        "__size_bytes": pa.array([8] * number, pa.int64()),
        "__fate": pa.array(["tombstone" if each else None for each in gone], pa.string()),
        "__reason": pa.nulls(number, pa.string()),
        CAUSE: causes,
    }
    log = _log(output, pa.table(columns), moved)
    own = {**columns, "__stream_ms": pa.array(own_clocks, pa.int64())}
    by_clock = _log(output, pa.table(own), clock)
    return replace(log, clocked=(by_clock.rows, by_clock.clocks))


def _log(output: Topic, records: pa.Table, moved: Moved) -> TopicLog:
    """The log with these records, and with a tick after each commit."""
    times = [(at, ms) for at, ms, _ in moved]
    place = (output.name, 0)
    # A row that left between two commits is a commit of its own to those that read it, at which no time moves.
    between = {at: _before(times, at) for at in records[INGESTED].to_pylist()}
    clocks = [(at, {} if ms is None else {place: ms}) for at, ms in sorted((between | dict(times)).items())]
    return TopicLog(
        pa.concat_tables([records, _ticks(output, moved, records.schema)]).combine_chunks(), clocks
    )


def _row_clocks(operator: NodeOperator, rows: pa.Table, moved: Moved) -> list[int | None]:
    """The clock of each row: of what caused it, or that of the log before its commit."""
    of, times = operator_for(operator.node).clock, [(at, ms) for at, ms, _ in moved]
    before = [_before(times, at) for at in rows[SEQUENCE].to_pylist()]
    if of is None:
        return before
    own = rows[of.column]
    if pa.types.is_timestamp(own.type):
        own = pc.floor_temporal(own, unit="millisecond").cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    own_ms = own.to_pylist()
    return [other if ms is None else ms + of.later_ms for ms, other in zip(own_ms, before, strict=True)]


def _row_times(
    operator: NodeOperator, rows: pa.Table, clocks: Sequence[int | None], moved: Moved
) -> list[int | None]:
    """The stream time of each row: its clock less how long the node waits, and not below that of the log before its commit."""
    times = [(at, ms) for at, ms, _ in moved]
    own = [None if ms is None else ms - operator.node.behind_clock_ms for ms in clocks]
    before = (_before(times, at) for at in rows[SEQUENCE].to_pylist())
    both = ([ms for ms in pair if ms is not None] for pair in zip(own, before, strict=True))
    return [max(known, default=None) for known in both]


def _clocks(node: Node, read: Mapping[str, TopicLog]) -> Moved:
    """After each commit of the node's topics the clock of its log, and whether that is idle."""
    topics = [topic.name for topic in node.topics]
    of, driving = operator_for(node), frozenset(operator_for(node).driving)
    history = commits_of([read[name].rows.to_pylist() for name in topics])
    highest = {
        topic.name: _highest_events(
            read[topic.name].rows,
            ["__stream_ms"] if is_of_kafka(topic) else EVENT_AND_CLOCK[: 1 + node.goes_by_clocks],
        )
        for topic in node.topics
        if topic.name in driving
    }
    stream: int | None = None
    found: list[tuple[int, int | None, bool]] = []
    for commit, (at, times) in zip(history, times_of_reader(history, driving), strict=True):
        complete = {name for name in topics if (ms := read[name].complete_ms) is not None and ms <= at}
        closing = times.lowest_ms if complete.issuperset(of.waits.complete) else None
        if closing is not None:
            behind = closing - of.waits.lag_ms
            stream = behind if stream is None else max(stream, behind)
        last = [ms for name in driving for time, ms in highest[name] if time <= at]
        nothing_waits = not last or (closing is not None and closing >= max(last) + of.waits.stream_ms)
        found.append((at, stream, driving <= commit.idle and nothing_waits))
    return found


def _highest_events(rows: pa.Table, columns: Sequence[str]) -> list[tuple[int, int]]:
    """Commit time and event time of each record that counts; of Kafka's records the highest so far."""
    found = []
    for row in rows.to_pylist():
        known = [ms for name in columns if (ms := row[name]) is not None]
        if row["__offset"] is not None and known:
            found.append((row[INGESTED], max(known)))
    return found


def _before(stream: Sequence[tuple[int, int | None]], at: int) -> int | None:
    earlier = [ms for time, ms in stream if time < at]
    return earlier[-1] if earlier else None


def _in_order(operator: NodeOperator, found: Outcome) -> pa.Table:
    nothing = output_schemas(operator)["results"].empty_table()
    rows = pa.concat_tables([nothing, *found.outputs["results"]], promote_options="default")
    order = [name for name in operator_for(operator.node).order if name in rows.column_names]
    return rows.sort_by([(name, "ascending") for name in (SEQUENCE, *order)]).combine_chunks()


def _ticks(output: Topic, moved: Moved, schema: pa.Schema) -> pa.Table:
    """One after the records of each commit, and a control row where the log becomes idle, or is so no more."""
    plain, was_idle = [], False
    for at, ms, idle in moved:
        fates = ["tick", *([] if idle == was_idle else ["idle" if idle else "busy"])]
        was_idle = idle
        for fate in fates:
            place = {INGESTED: at, TOPIC: output.name, "__partition": 0}
            plain.append({**place, "__stream_ms": ms, "__size_bytes": 0, "__fate": fate})
    return pa.Table.from_pylist(plain, schema)

"""Logs for the laws of the kernel: random arrivals become the rows and clocks that an engine would hand over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

from headrace.fold.contract import FATE, INGESTED, OFFSET, ROW_COLUMNS, STREAM, TOPIC, Clock, Times
from headrace.fold.fates import with_column
from tests.oracle.log_oracle import UNDATED, Arrival, Commit, Log, sequence

SECOND = 1_000
KEYS = ("a", "b", "ü", None)
CONTROLS = ("drain", "set_limits", "control", "idle")
ROWS_MIN = 12  # of each log
WALL_AHEAD = 1_000_000  # of event time
THE_END = 1 << 62  # a commit time beyond all


@dataclass(frozen=True)
class Control:
    """A control row: when it was committed, its action (`drain`, `set_limits`, `complete`, `idle`, `busy` or another), and its reason."""

    at: int
    action: str = "control"
    reason: str | None = None


@dataclass(frozen=True)
class Sequenced:
    """The log of one topic as the sequencer wrote it, and its control rows, each in a log commit of its own."""

    topic: str
    log: Log
    controls: Sequence[Control] = ()


@dataclass
class World:
    """What a node reads. `value`: the type of the column `value`, beside `key` STRING.

    `lag_ms`: so far stream time is behind; in the logs of nodes it is behind the event times of their rows.
    """

    logs: list[Sequenced]
    value: pa.DataType
    key: pa.DataType = field(default_factory=pa.string)
    lag_ms: int = 0

    @property
    def topics(self) -> list[str]:
        return [each.topic for each in self.logs]

    @cached_property
    def schema(self) -> pa.Schema:
        """Of the rows: the user's columns and those of `contract.ROW_COLUMNS`."""
        return pa.schema([("key", self.key), ("value", self.value), *ROW_COLUMNS])

    def of(self, *topics: str) -> World:
        """The same with some topics alone."""
        return replace(self, logs=[each for each in self.logs if each.topic in topics])

    def commits(self, topic: str | None = None) -> list[int]:
        """The commit times, rising; each once."""
        times = {at for each in self.logs if topic in (None, each.topic) for at in self._times[each.topic]}
        return sorted(times)

    @cached_property
    def _times(self) -> dict[str, list[int]]:
        """The commit times of each topic."""
        return {
            each.topic: sorted({*(at for at, _ in each.log.clocks), *(c.at for c in each.controls)})
            for each in self.logs
        }

    def clock(self, upto: Mapping[str, int]) -> Clock:
        """The clock once each topic has been read through a commit time; all topics drive, and none is idle."""
        known, stream = {}, {}
        for each in self.logs:
            end = upto.get(each.topic, -1)
            read = [at for at in self._times[each.topic] if at <= end]
            if read:
                known[each.topic] = read[-1]
            after = [times for at, times in each.log.clocks if at <= end]
            stream.update(
                {(each.topic, p): ms - self.lag_ms for p, ms in (after[-1] if after else {}).items()}
            )
        complete = (
            each.topic
            for each in self.logs
            if any(c.action == "complete" and c.at <= upto.get(each.topic, -1) for c in each.controls)
        )
        dated = {topic for topic, _ in stream} == {*self.topics}
        return Clock(known, stream, frozenset(complete), lowest_ms=min(stream.values()) if dated else None)

    @cached_property
    def everything(self) -> pa.Table:
        """All rows of the logs."""
        rows = [row for each in self.logs for row in _rows(each)]
        columns = [*zip(*rows, strict=True)] or [()] * len(self.schema)
        arrays = [pa.array(c, f.type, from_pandas=False) for c, f in zip(columns, self.schema, strict=True)]
        rows = pa.Table.from_arrays(arrays, schema=self.schema)
        return with_column(rows, STREAM, pc.subtract(rows[STREAM], self.lag_ms))

    def between(self, rows: pa.Table, after: Mapping[str, int], upto: Mapping[str, int]) -> pa.Table:
        """Of rows of these logs those that were committed after some commit times and through others."""
        at, topic = rows[INGESTED].to_numpy(), rows[TOPIC].combine_chunks().dictionary_encode()
        names = topic.dictionary.to_pylist()
        first, last = (
            np.array([limits.get(n, -1) for n in names] or [-1], np.int64) for limits in (after, upto)
        )
        which = topic.indices.to_numpy()
        return rows.filter(pa.array((first[which] < at) & (at <= last[which])))

    def rows(self, after: Mapping[str, int], upto: Mapping[str, int]) -> pa.Table:
        """The rows committed after some commit times and through others."""
        return self.between(self.everything, after, upto)

    def times(self, after: Mapping[str, int], upto: Mapping[str, int]) -> Times:
        """The clocks around and in an increment, and what people decided in it."""

        def is_new(topic: str, at: int) -> bool:
            return after.get(topic, -1) < at <= upto.get(topic, -1)

        clocks, reached = [], dict(after)
        for at in sorted({at for topic, times in self._times.items() for at in times if is_new(topic, at)}):
            for topic in self.topics:
                if is_new(topic, at):
                    reached[topic] = at
            clocks.append((at, self.clock(reached)))
        controls = [(each.topic, control) for each in self.logs for control in each.controls]
        drains = {c.at for topic, c in controls if c.action == "drain" and is_new(topic, c.at)}
        return Times(self.clock(after), self.clock(upto), clocks, sorted(drains))

    def limits(self, after: Mapping[str, int], upto: Mapping[str, int]) -> list[tuple[int, str]]:
        """The control rows that set limits: commit time and JSON."""
        return sorted(
            (control.at, control.reason)
            for each in self.logs
            for control in each.controls
            if control.action == "set_limits"
            and control.reason is not None
            and after.get(each.topic, -1) < control.at <= upto.get(each.topic, -1)
        )

    def increment(self, after: Mapping[str, int], upto: Mapping[str, int]) -> tuple[pa.Table, Times]:
        """Rows between two frontiers, and the clocks around and in them."""
        return self.rows(after, upto), self.times(after, upto)


def size_of(arrival: Arrival) -> int:
    """What `__size_bytes` says of an arrival."""
    return len(repr(arrival.key)) + len(repr(arrival.value))


def _rows(each: Sequenced) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for at, (arrival, offset, stream) in zip(each.log.ingested, each.log.rows, strict=True):
        plain, dead, undated = (
            arrival.kind == "record",
            arrival.kind == "dead_letter",
            arrival.kind in UNDATED,
        )
        fate = None if plain else "tombstone" if undated else arrival.kind
        reason = "malformed" if dead else "bare tombstone" if arrival.kind == "bare" else None
        key, value = (None, None) if dead else (arrival.key, arrival.value if plain else None)
        ts = None if dead else stream if undated else arrival.ts
        place = (at, each.topic, arrival.partition, offset)
        found.append((key, value, *place, ts, stream, size_of(arrival), fate, reason))
    for at, partition, stream in each.log.ticks:
        found.append((None, None, at, each.topic, partition, None, None, stream, 0, "tick", None))
    for control in each.controls:
        for partition, stream in _where(each.log, control):
            where = (control.at, each.topic, partition)
            found.append((None, None, *where, None, None, stream, 0, control.action, control.reason))
    return found


def _where(log: Log, control: Control) -> list[tuple[int, int | None]]:
    """In which partitions a control row stands, and their stream times then: new limits in every one that is known."""
    rows = zip(log.ingested, log.rows, strict=True)
    known = {arrival.partition for at, (arrival, _, _) in rows if at < control.at} or {0}
    times = next((after for at, after in reversed(log.clocks) if at < control.at), {})
    partitions = sorted(known) if control.action == "set_limits" else [min(known)]
    return [(partition, times.get(partition)) for partition in partitions]


# One number is one arrival: Hypothesis draws few numbers fast, and a lower one is a simpler arrival. It likes low ones: the
# kind is the lowest digit, so that these are of all kinds.
PARTITIONS = (0, 0, 0, 1, 1, 2)
KINDS = (*["record"] * 9, "tombstone", "dead_letter", "replay", "filtered", "erased", *UNDATED)
GRID = sorted(
    range(-40, 25), key=abs
)  # half seconds around the event time of a commit: ties and exact ends are common
APART = (0, 0, 0, -1, 1)
VARIETY = 80  # numbers that are told apart where values are chosen
KEYS_MAX = 7
ARRIVALS = len(KINDS) * len(PARTITIONS) * len(GRID) * len(APART) * KEYS_MAX * VARIETY
Choose = Callable[[int], Any]  # a value, from a number below VARIETY


def one_of(*values: Any) -> Choose:
    """Any of these."""
    return lambda number: values[number % len(values)]


def arrival_of(number: int, center: int, values: Choose, keys: Sequence[Any] = KEYS) -> Arrival:
    """The arrival that a number below ARRIVALS stands for. In: center  event time of the commit"""
    digits = []
    for base in (len(KINDS), len(PARTITIONS), KEYS_MAX, len(GRID), len(APART), VARIETY):
        number, digit = divmod(number, base)
        digits.append(digit)
    kind, partition, key, half_seconds, apart, value = digits
    return Arrival(
        partition=PARTITIONS[partition],
        key=keys[key % len(keys)],
        ts=max(0, center + GRID[half_seconds] * 500 + APART[apart]),
        value=values(value),
        kind=KINDS[kind],
    )


NUMBERS = st.lists(st.integers(0, ARRIVALS - 1), min_size=1, max_size=8)
# Of a log commit: how long after the one before, and whether nothing arrives, so that partitions are idle.
WHEN = [(gap, False) for gap in (1, 1, 1, 2 * SECOND, 6 * SECOND, 61 * SECOND) for _ in range(4)]
WHEN += [(2 * SECOND, True), (6 * SECOND, True), (61 * SECOND, True), (61 * SECOND, True)]
COMMITS = st.tuples(st.sampled_from(WHEN), NUMBERS)


@st.composite
def worlds(
    draw: st.DrawFn,
    values: Choose,
    of: pa.DataType,
    topics: Sequence[str] = ("t",),
    keys: Sequence[Any] = KEYS,
    longest_wait: int = 60 * SECOND,
    controls: Sequence[str] = CONTROLS,
    limits: Sequence[str] = (),
    log_commits: tuple[int, int] = (3, 5),
) -> World:
    """Worlds of some topics; their commits interleave, and may fall on the same millisecond. Together they have ROWS_MIN rows.

    The wall clock is some minutes ahead of event time. Rows by the wall clock, such as batches, have it for event time: if it
    stood in 1970 while the records were of 2023, a repeated timer of their readers would ring for decades.

    In: limits  JSON of control rows that set limits, one of which each has
    """
    base = draw(st.sampled_from([0, 1_700_000_000_000]))
    logs = []
    for topic in topics:
        now, commits = base + WALL_AHEAD + draw(st.integers(0, 2)), []
        drawn = draw(st.lists(COMMITS, min_size=log_commits[0], max_size=log_commits[1]))
        for number, ((gap, silent), numbers) in enumerate(drawn):
            now += gap
            center = base + number * 9 * SECOND
            some = [] if silent else [arrival_of(each, center, values, keys) for each in numbers]
            commits.append(Commit(now, some))
        missing = -(-ROWS_MIN // len(topics)) - sum(len(commit.arrivals) for commit in commits)
        if missing > 0:
            center = base + len(commits) * 9 * SECOND
            some = [arrival_of(each * 7919, center, values, keys) for each in range(missing)]
            commits.append(Commit(now + 1, some))
        log = sequence(commits, draw(st.sampled_from([None, 5 * SECOND, 60 * SECOND])), longest_wait)
        logs.append(
            Sequenced(topic, log, _decided(draw, log, (base + WALL_AHEAD - SECOND, now), controls, limits))
        )
    return World(logs, of, lag_ms=draw(st.sampled_from([0, 0, 4 * SECOND, 20 * SECOND])))


def _decided(
    draw: st.DrawFn, log: Log, between: tuple[int, int], controls: Sequence[str], limits: Sequence[str]
) -> list[Control]:
    """What people decide, in log commits of their own."""
    if not controls:
        return []
    taken, (begin, now) = {at for at, _ in log.clocks}, between
    found = []
    for at in draw(st.lists(st.integers(1, now - begin), max_size=2 + bool(limits), unique=True)):
        action = draw(st.sampled_from([*controls]))
        reason = draw(st.sampled_from([*limits])) if limits and action == "set_limits" else None
        if begin + at not in taken:
            found.append(Control(begin + at, action, reason))
    return found


def features(world: World) -> set[str]:
    """What a log has of what matters to the laws."""
    rows = world.everything.to_pylist()
    records = [row for row in rows if row[OFFSET] is not None]
    found = {str(row[FATE]) for row in rows if row[FATE] is not None}
    times = [(row["__event_ms"], row["__stream_ms"]) for row in records]
    if any(event < stream for event, stream in times if None not in (event, stream)):
        found.add("behind stream time")
    if len({row["__event_ms"] for row in records}) < len(records):
        found.add("equal times")
    if len({(row[TOPIC], row["__partition"]) for row in records}) > 1:
        found.add("several partitions")
    if len({str(row["key"]) for row in records}) > 1:
        found.add("several keys")
    return found | ({f"{ROWS_MIN} rows"} if len(rows) >= ROWS_MIN else set())

"""Logs for the laws of the kernel: random arrivals become the rows and clocks that an engine would hand over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from headrace.fold.contract import ROW_COLUMNS, Clock, Times
from tests.oracle.log_oracle import Arrival, Commit, Log, sequence

SECOND = 1_000
KEYS = ("a", "b", "a", "b", "a", "ü", None)
CONTROLS = ("drain", "set_limits", "control")


@dataclass(frozen=True)
class Control:
    """A control row: when it was committed, its action (`drain`, `set_limits` or another), and its reason."""

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
    """What a node reads. `value`: the type of the column `value`, beside `key` STRING."""

    logs: list[Sequenced]
    value: pa.DataType
    key: pa.DataType = field(default_factory=pa.string)

    @property
    def topics(self) -> list[str]:
        return [each.topic for each in self.logs]

    @property
    def schema(self) -> pa.Schema:
        """Of the rows: the user's columns and those of `contract.ROW_COLUMNS`."""
        return pa.schema([("key", self.key), ("value", self.value), *ROW_COLUMNS])

    def commits(self, topic: str | None = None) -> list[int]:
        """The commit times, rising; each once."""
        times = {
            at
            for each in self.logs
            if topic in (None, each.topic)
            for at in (*(at for at, _ in each.log.clocks), *(control.at for control in each.controls))
        }
        return sorted(times)

    def clock(self, upto: dict[str, int]) -> Clock:
        """The clock once each topic has been read through a commit time."""
        known, stream = {}, {}
        for each in self.logs:
            end = upto.get(each.topic, -1)
            read = [at for at in self.commits(each.topic) if at <= end]
            if read:
                known[each.topic] = read[-1]
            after = [times for at, times in each.log.clocks if at <= end]
            stream.update({(each.topic, p): ms for p, ms in (after[-1] if after else {}).items()})
        return Clock(known, stream)

    def rows(self, after: dict[str, int], upto: dict[str, int]) -> pa.Table:
        """The rows committed after some commit times and through others."""
        tables = [
            _rows(each, after.get(each.topic, -1), upto.get(each.topic, -1), self.schema)
            for each in self.logs
        ]
        return pa.concat_tables(tables)

    def increment(self, after: dict[str, int], upto: dict[str, int]) -> tuple[pa.Table, Times]:
        """Rows between two frontiers, and the clocks around and in them."""
        between = sorted(
            {
                at
                for each in self.logs
                for at in self.commits(each.topic)
                if after.get(each.topic, -1) < at <= upto.get(each.topic, -1)
            }
        )
        clocks, reached = [], dict(after)
        for at in between:
            for each in self.logs:
                if after.get(each.topic, -1) < at <= upto.get(each.topic, -1):
                    reached[each.topic] = at
            clocks.append((at, self.clock(reached)))
        drains = sorted(
            {
                control.at
                for each in self.logs
                for control in each.controls
                if control.action == "drain"
                and after.get(each.topic, -1) < control.at <= upto.get(each.topic, -1)
            }
        )
        times = Times(before=self.clock(after), after=self.clock(upto), commits=clocks, drains=drains)
        return self.rows(after, upto), times


def size_of(arrival: Arrival) -> int:
    """What `__size_bytes` says of an arrival."""
    return len(repr(arrival.key)) + len(repr(arrival.value))


def _rows(each: Sequenced, after: int, upto: int, schema: pa.Schema) -> pa.Table:
    found: list[tuple[Any, ...]] = []
    for at, (arrival, offset, stream) in zip(each.log.ingested, each.log.rows, strict=True):
        if not after < at <= upto:
            continue
        plain = arrival.kind == "record"
        fate = None if plain else arrival.kind
        reason = "malformed" if arrival.kind == "dead_letter" else None
        key, value = (None, None) if reason else (arrival.key, arrival.value if plain else None)
        ts = None if reason else arrival.ts
        found.append(
            (
                key,
                value,
                at,
                each.topic,
                arrival.partition,
                offset,
                ts,
                stream,
                size_of(arrival),
                fate,
                reason,
            )
        )
    for at, partition, stream in each.log.ticks:
        if after < at <= upto:
            found.append((None, None, at, each.topic, partition, None, None, stream, 0, "tick", None))
    for control in each.controls:
        if after < control.at <= upto:
            at, action = control.at, control.action
            found.append((None, None, at, each.topic, None, None, None, None, 0, action, control.reason))
    columns = [*zip(*found, strict=True)] or [()] * len(schema)
    arrays = [pa.array(c, f.type, from_pandas=False) for c, f in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def arrivals(
    center: int, values: st.SearchStrategy[Any], keys: Sequence[str | None] = KEYS
) -> st.SearchStrategy[Any]:
    """Arrivals around an event time on a grid of half seconds, so that ties and exact ends are common."""
    grid = st.integers(-40, 24).map(lambda half_seconds: max(0, center + half_seconds * 500))
    ts = st.one_of(grid, grid, grid, st.tuples(grid, st.sampled_from([-1, 1])).map(lambda t: max(0, sum(t))))
    arrival = st.builds(
        Arrival,
        partition=st.sampled_from([0, 0, 0, 1, 1, 2]),
        key=st.sampled_from(keys),
        ts=ts,
        value=values,
        kind=st.sampled_from(["record"] * 9 + ["tombstone", "dead_letter", "replay", "filtered", "erased"]),
    )
    return st.lists(arrival, min_size=1, max_size=9)


@st.composite
def worlds(
    draw: st.DrawFn,
    values: st.SearchStrategy[Any],
    of: pa.DataType,
    topics: Sequence[str] = ("t",),
    keys: Sequence[str | None] = KEYS,
    longest_wait: int = 60 * SECOND,
    controls: Sequence[str] = CONTROLS,
    log_commits: tuple[int, int] = (2, 6),
) -> World:
    """Worlds of some topics; their commits interleave, and may fall on the same millisecond."""
    base = draw(st.sampled_from([0, 1_700_000_000_000]))
    logs = []
    for topic in topics:
        now, commits = 1_000_000 + draw(st.integers(0, 2)), []
        for number in range(draw(st.integers(*log_commits))):
            now += draw(st.sampled_from([1, 1, 2 * SECOND, 6 * SECOND, 61 * SECOND]))
            center = base + number * 9 * SECOND
            some = draw(st.one_of([st.just([])] + [arrivals(center, values, keys)] * 5))
            commits.append(Commit(now, some))
        idle = draw(st.sampled_from([None, 5 * SECOND, 60 * SECOND]))
        log = sequence(commits, idle, longest_wait)
        taken = {at for at, _ in log.clocks}
        chosen = draw(st.lists(st.integers(1, now - 999_000), max_size=2, unique=True)) if controls else []
        logs.append(
            Sequenced(
                topic,
                log,
                [
                    Control(999_000 + at, draw(st.sampled_from([*controls])))
                    for at in chosen
                    if 999_000 + at not in taken
                ],
            )
        )
    return World(logs, of)

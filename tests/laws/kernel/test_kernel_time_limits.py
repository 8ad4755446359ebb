"""The law of time limits in the kernel: in any cuts and buckets what leaves is what a plain Python oracle lets go.

Limits change on the way, to values that a node cannot have too. The oracle goes through a partition row by row.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.description import Suppressed
from headrace.fold.contract import Clock, Times
from headrace.fold.time_limits import TimeLimit
from tests.laws.kernel.harness import Outcome, Plan, plans, run
from tests.laws.kernel.logs import SECOND, World, size_of, worlds
from tests.oracle.log_oracle import Arrival
from tests.oracle.suppression_oracle import Emission, Suppressor, Update

pytestmark = pytest.mark.fast

FEW = settings(max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "6")), deadline=None)
TOPIC = hr.Topic("t", key="key STRING", value="value BIGINT")
VALUES = st.one_of(st.none(), st.integers(-5, 9))
TOTALS: dict[str, Any] = {
    "n": hr.count(),
    "total": hr.sum("value"),
    "first": hr.first("value"),
    "some": hr.collect("value", max_items=3),
}
LIMITS: dict[str, list[int | None]] = {
    "limit_ms": [-SECOND, 0, 2 * SECOND, 5 * SECOND, 20 * SECOND, 90 * SECOND],
    "max_records": [0, None, 1, 2, 4, 50],
    "max_bytes": [0, None, 15, 60, 500],
}


@dataclass(frozen=True)
class Subject:
    """A node under test, with what the oracle has to know of it. Times in ms; size 0: no windows."""

    name: str
    limit: int
    table: bool = False
    size: int = 0
    advance: int = 0
    grace: int = 0
    max_records: int | None = None
    max_bytes: int | None = None

    @property
    def node(self) -> Suppressed:
        bounded = self.max_records or self.max_bytes
        policy = hr.until_time_limit(
            self.limit,
            max_records=self.max_records,
            max_bytes=self.max_bytes,
            when_full="emit_early" if bounded else "spill",
        )
        if self.table:
            return TOPIC.table().suppress(policy).named(self.name)
        if self.size:
            windowed = TOPIC.group_by().window(hr.hopping(self.size, self.advance), grace=self.grace)
            return windowed.aggregate(**TOTALS).suppress(policy).named(self.name)
        return TOPIC.group_by().aggregate(**TOTALS).suppress(policy).named(self.name)

    def suppressor(self) -> Suppressor:
        return Suppressor(self.limit, self.max_records, self.max_bytes)


SUBJECTS = [
    Subject("rows", 3 * SECOND, table=True),
    Subject("totals", 4 * SECOND),
    Subject("at_once", 0),
    Subject("overlapping", 5 * SECOND, size=8 * SECOND, advance=3 * SECOND, grace=2 * SECOND),
    Subject("few_rows", 60 * SECOND, table=True, max_records=3),
    Subject("few_windows", 6 * SECOND, size=6 * SECOND, advance=4 * SECOND, grace=SECOND, max_records=2),
    Subject("small", 8 * SECOND, max_bytes=40),
]


@dataclass
class Limited(World):
    """A world in which people set limits: by commit time and JSON. Each is a row in every partition known then."""

    limits: list[tuple[int, str]] = field(default_factory=list)
    operator: TimeLimit | None = None

    def commits(self, topic: str | None = None) -> list[int]:
        return sorted({*super().commits(topic), *(at for at, _ in self.limits)})

    def known_at(self, at: int) -> list[int]:
        log = self.logs[0].log
        rows = zip(log.ingested, log.rows, strict=True)
        return sorted({arrival.partition for ingested, (arrival, _, _) in rows if ingested < at})

    def rows(self, after: dict[str, int], upto: dict[str, int]) -> pa.Table:
        found = super().rows(after, upto)
        added = []
        for at, said in self.limits:
            if after.get("t", -1) < at <= upto.get("t", -1):
                for p in self.known_at(at):
                    row = {"__ingested_ms": at, "__topic": "t", "__partition": p, "__size_bytes": 0}
                    added.append({**row, "__fate": "set_limits", "__reason": said})
        return pa.concat_tables([found, pa.Table.from_pylist(added, schema=self.schema)])

    def increment(self, after: dict[str, int], upto: dict[str, int]) -> tuple[pa.Table, Times]:
        rows, times = super().increment(after, upto)
        assert self.operator is not None
        before = [(at, said) for at, said in self.limits if at <= after.get("t", -1)]
        own = [(at, said) for at, said in self.limits if after.get("t", -1) < at <= upto.get("t", -1)]
        return rows, replace(times, limits=[*self.operator.standing_limits(before), *own])


@st.composite
def limited(draw: st.DrawFn, names: list[str]) -> Limited:
    world = draw(worlds(VALUES, pa.int64(), controls=()))
    taken = set(world.commits())
    limits = []
    for number in range(draw(st.integers(0, 3)) if names else 0):
        at = draw(st.sampled_from(sorted(taken | {10**6}))) + 1 + number * 10
        chosen = draw(st.lists(st.sampled_from([*LIMITS]), min_size=1, max_size=2, unique=True))
        said = {
            "node": draw(st.sampled_from(names)),
            "limits": {n: draw(st.sampled_from(LIMITS[n])) for n in chosen},
        }
        if at not in taken:
            limits.append((at, json.dumps({"action": "set_limits", **said})))
            taken.add(at)
    return Limited(world.logs, world.value, limits=sorted(limits))


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
@FEW
@given(data=st.data(), plan=plans())
def test_what_leaves_is_what_the_oracle_lets_go(subject: Subject, data: st.DataObject, plan: Plan) -> None:
    world = data.draw(limited([subject.name, subject.name, "other"]))
    world.operator = mine = TimeLimit.of(subject.node, world.schema)
    found = run(mine.steps, world, plan)
    expected = Expected(world, subject)
    assert shown(found, subject) == expected.left
    (state,) = (tables["entries"] for tables in found.state if "entries" in tables)
    waiting = Counter[int]()
    for row in mine.open_records(state).to_pylist():
        waiting[row["__partition"]] += row["__records"]
    assert +waiting == expected.waiting
    assert fates(found) == expected.fates
    assert sizes(found, expected.sizes) == expected.sizes


@FEW
@given(world=limited([]), plan=plans(), most=st.integers(1, 4))
def test_a_stream_is_stopped_by_the_first_commit_after_which_too_much_waits(
    world: Limited, plan: Plan, most: int
) -> None:
    policy = hr.until_time_limit("20 seconds", max_records=most, when_full="shut_down")
    node = TOPIC.group_by().aggregate(**TOTALS).suppress(policy).named("stops")
    world.operator = mine = TimeLimit.of(node, world.schema)
    waiting = Expected(world, Subject("stops", 20 * SECOND)).sizes
    over = sorted((at, p, records) for (p, at), (records, _) in waiting.items() if records > most)
    refusals = [
        mine.refusal(table, Times(Clock(), Clock()))
        for table in run(mine.steps, world, plan).outputs["waiting"]
    ]
    found = next((str(each) for each in refusals if each), None)
    assert (found is None) == (not over)
    if over:
        assert f"{over[0][2]} records of suppressed updates would wait in partition {over[0][1]}; " in str(
            found
        )


class Expected:
    """What a world leads to, partition by partition."""

    def __init__(self, world: Limited, subject: Subject) -> None:
        self.left: list[tuple[Any, ...]] = []
        self.waiting, self.fates = Counter[int](), Counter[tuple[int, str]]()
        self.sizes: dict[tuple[int, int], tuple[int, int]] = {}
        for p in (0, 1, 2):
            suppressor = subject.suppressor()
            for place, updates in decided(world, subject, p, self.fates):
                for update in updates:
                    for emission in suppressor.put(update):
                        self.left.append((*place, update.at[1], *emitted(subject, emission)))
                held = suppressor.latest.values()
                self.sizes[p, place[0]] = len(held), sum(update.size for update in held)
            self.waiting[p] = suppressor.waiting
        self.left.sort(key=lambda row: row[:2])  # stable: in a partition and commit as they left
        self.waiting = +self.waiting


Place = tuple[int, int, int | None]  # commit time, partition, offset


def decided(
    world: Limited, subject: Subject, p: int, counted: Counter[tuple[int, str]]
) -> Iterator[tuple[Place, list[Update]]]:
    """The rows of a partition in order, each with the updates that it makes."""
    log = world.logs[0].log
    rows: list[tuple[int, bool, int | None, Any]] = [
        (at, False, offset, (arrival, stream))
        for at, (arrival, offset, stream) in zip(log.ingested, log.rows, strict=True)
        if arrival.partition == p
    ]
    rows += [(at, True, None, stream) for at, tick, stream in log.ticks if tick == p]
    rows += [(at, True, None, said) for at, said in world.limits]  # in force in partitions to come, too
    worth: dict[Any, list[tuple[int, Any]]] = defaultdict(list)
    for number, (at, _, offset, what) in enumerate(sorted(rows, key=lambda row: (*row[:2], row[2] or 0))):
        place = (at, p, offset)
        if isinstance(what, int):
            yield place, [Update((number, 0), what)]
        elif isinstance(what, str):
            said = json.loads(what)
            limits: Mapping[str, int | None] | None = said["limits"] if said["node"] == subject.name else None
            yield place, [] if limits is None else [Update((number, 0), None, limits=limits)]
        else:
            arrival, stream = what
            starts = entered(arrival, stream, subject, counted)
            yield place, [*map(partial(update_of, subject, arrival, number, worth), starts)]


def entered(arrival: Arrival, stream: int, subject: Subject, counted: Counter[tuple[int, str]]) -> list[int]:
    """The starts of the windows that a record updates; 0 alone without windows. Its fate is counted."""
    usable = ("record", "tombstone") if subject.table else ("record",)
    fate = "kept" if arrival.kind in usable else arrival.kind
    if fate == "kept" and arrival.key is None:
        fate = "dead_letter"
    starts = [0]
    if fate == "kept" and subject.size:
        first = max(0, (arrival.ts - subject.size) // subject.advance + 1) * subject.advance
        wait = subject.size + subject.grace
        starts = [start for start in range(first, arrival.ts + 1, subject.advance) if start + wait > stream]
        fate = fate if starts else "late"
    counted[arrival.partition, fate] += 1
    return starts if fate == "kept" else []


def update_of(
    subject: Subject, arrival: Arrival, number: int, worth: dict[Any, list[tuple[int, Any]]], start: int
) -> Update:
    entry = (str(arrival.key).encode(), start)
    if subject.table:
        gone = arrival.kind == "tombstone"
        return Update((number, start), arrival.ts, entry, (gone, arrival.value), size_of(arrival))
    worth[entry].append((arrival.ts, arrival.value))
    highest = max(each for each, _ in worth[entry])
    return Update((number, start), highest, entry, tuple(each for _, each in worth[entry]), size_of(arrival))


def emitted(subject: Subject, emission: Emission) -> tuple[Any, ...]:
    (key, start), value = emission.entry, emission.value
    if subject.table:
        values: tuple[Any, ...] = (value[0], None if value[0] else value[1])
    else:
        known = [each for each in value if each is not None]
        values = (len(value), sum(known) if known else None, value[0], tuple(known[:3]))
    return (emission.early, emission.ts, key.decode(), start, *values)


def shown(found: Outcome, subject: Subject) -> list[tuple[Any, ...]]:
    """Rows in the order in which they left: by the row that let them, then oldest first, then by key."""

    def place(row: dict[str, Any]) -> tuple[Any, ...]:
        at = (
            row["__sequence"],
            row["__partition"],
            row["__offset"] is None,
            row["__offset"] or 0,
            row["__sub"],
        )
        return (*at, row["__opened_ms"], row["__key"], start(row))

    def start(row: dict[str, Any]) -> int:
        return round(row["window_start"].timestamp() * 1000) if subject.size else 0

    left = []
    for row in sorted(found.rows(), key=place):
        values = (
            (row["__deleted"], row["value"])
            if subject.table
            else (row["n"], row["total"], row["first"], tuple(row["some"]))
        )
        at = (row["__sequence"], row["__partition"], row["__offset"], row["__sub"])
        left.append((*at, row["__early"], row["__timestamp"], row["key"], start(row), *values))
    return left


def fates(found: Outcome) -> Counter[tuple[int, str]]:
    return +Counter({(partition, fate): records for (_, partition, fate), records in found.fates.items()})


def sizes(found: Outcome, commits: Iterable[tuple[int, int]]) -> dict[tuple[int, int], tuple[int, int]]:
    """What waits after each commit with rows of a partition; what changes nothing is not told."""
    told = {(row["__partition"], row["__ingested_ms"]): row for row in found.rows("waiting")}
    levels: dict[tuple[int, int], tuple[int, int]] = {}
    last = defaultdict[int, tuple[int, int]](lambda: (0, 0))
    for p, at in sorted({*commits, *told}):
        if (p, at) in told:
            last[p] = told[p, at]["records"], told[p, at]["bytes"]
        levels[p, at] = last[p]
    return levels

"""The laws of lookups in the kernel: in any cuts and buckets a record finds what a plain Python oracle finds for it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.description import Lookup
from headrace.fold.contract import FATE, TOPIC, Times
from headrace.fold.lookups import LookupInLog, LookupInTime
from headrace.fold.tables.decide_records import PASSES
from tests.laws.kernel.harness import ONE_GO, Outcome, Plan, plans, run
from tests.laws.kernel.logs import SECOND, Sequenced, World
from tests.laws.kernel.relation_worlds import VALUE, as_log, flat, relation_worlds, schema_of
from tests.oracle.log_oracle import Arrival, Commit, sequence
from tests.oracle.tables_oracle import Change, Moved, Value, lookup, lookup_by_time

pytestmark = pytest.mark.fast

FEW = settings(max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "30")), deadline=None)
NAMES = {
    "orders": ("id", "item", "previous", "n"),
    "items": ("item", "kind", "maker", "price"),
    "more": ("item", "kind", "maker", "price"),
}
ORDERS = hr.Topic("orders", key="id STRING", value="item STRING, previous STRING, n INT")
ITEMS, MORE = (
    hr.Topic(name, key="item STRING", value="kind STRING, maker STRING, price INT")
    for name in ("items", "more")
)
EARLIER = ORDERS.select("id", "item AS earlier", "n AS earlier_n").table()
HISTORY_MS = 8 * SECOND
Keeps = Callable[[Value], bool]


@dataclass(frozen=True)
class Subject:
    """A lookup, and what the oracle has to know of it: which columns the versions have, and which rows the table keeps."""

    node: Lookup
    told: tuple[str, ...] = NAMES["items"]
    keeps: Keeps | None = None

    @property
    def topics(self) -> list[str]:
        return sorted(topic.name for topic in self.node.topics)


def in_log(**kind: Any) -> list[Subject]:
    return [
        Subject(ORDERS.lookup(ITEMS.table(), on="item", **kind)),
        Subject(ORDERS.lookup(ITEMS.table("timestamp"), on="item", how="inner", **kind)),
        Subject(ORDERS.lookup(EARLIER, on="previous", **kind), ("id", "earlier", "__unread", "earlier_n")),
        Subject(
            ORDERS.lookup(ITEMS.merge(MORE).table("timestamp").where("price > 0"), on="item", **kind),
            keeps=lambda row: (row["price"] or 0) > 0,
        ),
    ]


IN_LOG = in_log()
IN_TIME = [
    *in_log(as_of="event"),
    Subject(ORDERS.lookup(ITEMS.table(), on="item", as_of="event", history=HISTORY_MS)),
    Subject(ORDERS.lookup(ITEMS.table(), on="item", as_of="event", history=0)),
]


@dataclass
class Sided:
    """A world whose rows are those that the first step of a lookup takes."""

    world: World
    subject: Subject
    mine: LookupInLog | LookupInTime

    @property
    def topics(self) -> list[str]:
        return self.world.topics

    def commits(self, topic: str | None = None) -> list[int]:
        return self.world.commits(topic)

    def increment(self, after: dict[str, int], upto: dict[str, int]) -> tuple[pa.Table, Times]:
        rows, times = self.world.increment(after, upto)
        node = self.subject.node
        records = self._of(rows, {topic.name for topic in node.stream.topics}, NAMES["orders"])
        versions = self._of(rows, {topic.name for topic in node.table.topics}, self.subject.told)
        if self.subject.keeps:
            passes = pa.array(
                [None if price is None else price > 0 for price in versions["price"].to_pylist()], pa.bool_()
            )
            versions = versions.append_column(PASSES, passes)
        return self.mine.decide(records, versions), times

    def _of(self, rows: pa.Table, topics: set[str], names: tuple[str, ...]) -> pa.Table:
        return flat(rows.filter(pa.array([t in topics for t in rows[TOPIC].to_pylist()], pa.bool_())), names)


def sided(subject: Subject, world: World) -> Sided:
    mine: LookupInLog | LookupInTime
    schemas = schema_of(NAMES["orders"]), schema_of(subject.told)
    kind = LookupInTime if subject.node.as_of == "event" else LookupInLog
    mine = kind.of(subject.node, *schemas)
    logs = [log for log in world.logs if log.topic in subject.topics]
    return Sided(World(logs, world.value), subject, mine)


@st.composite
def narrow_worlds(draw: st.DrawFn) -> World:
    """Worlds of one partition per topic and few keys, where most records are released, and some versions come after it."""
    value = st.fixed_dictionaries(
        {"ref": st.just("a"), "also": st.sampled_from(["a", "b"]), "amount": st.integers(-9, 99)}
    )
    logs = []
    for topic in ("items", "more", "orders"):
        now, commits = 1_000_000, []
        for number in range(draw(st.integers(4, 8))):
            now += draw(st.sampled_from([1, 2 * SECOND, 3 * SECOND]))
            arrival = st.builds(
                Arrival,
                partition=st.just(0),
                key=st.sampled_from(["a", "a", "b"]),
                ts=st.integers(-6, 4).map(lambda n, at=number: max(0, at * 2 * SECOND + n * SECOND)),  # type: ignore[misc]
                value=value,
                kind=st.sampled_from(["record"] * 5 + ["tombstone"]),
            )
            commits.append(Commit(now, draw(st.lists(arrival, min_size=1, max_size=4))))
        logs.append(
            Sequenced(topic, sequence(commits, draw(st.sampled_from([None, 5 * SECOND])), 60 * SECOND))
        )
    return World(logs, VALUE)


WORLDS = st.one_of(relation_worlds("items", "more", "orders"), narrow_worlds(), narrow_worlds())


@FEW
@given(subject=st.sampled_from(IN_LOG), world=WORLDS, plan=plans())
def test_a_record_finds_the_row_that_the_table_had_at_its_place_in_the_log(
    subject: Subject, world: World, plan: Plan
) -> None:
    read = sided(subject, world)
    found = run(read.mine.steps, read, plan)  # type: ignore[arg-type]
    orders, told = changes_of(read)
    order_by = subject.node.table.order_by
    wanted = [
        (record.at[0], record, shown(subject, record, row))
        for record in orders
        for _, row in lookup([record], told, subject.node.on[0], order_by)
    ]
    check(subject, found, wanted)
    assert found.fates == fates(read, set())
    again = run(read.mine.steps, read, ONE_GO)  # type: ignore[arg-type]
    assert sorted(map(repr, again.rows())) == sorted(map(repr, found.rows()))


@FEW
@given(subject=st.sampled_from(IN_TIME), world=WORLDS, plan=plans())
def test_a_record_finds_the_row_that_was_valid_at_its_event_time(
    subject: Subject, world: World, plan: Plan
) -> None:
    read = sided(subject, world)
    assert isinstance(read.mine, LookupInTime)
    found = run(read.mine.steps, read, plan)  # type: ignore[arg-type]
    orders, told = changes_of(read)
    late = {record.at for record in orders if is_late(subject, record, read.world)}
    asked = [record for record in orders if record.at not in late]
    answers = lookup_by_time(asked, told, subject.node.on[0], moves(read.world), len(read.topics))
    wanted = [(at, record, shown(subject, record, row)) for at, record, row in answers if at is not None]
    check(subject, found, wanted)
    waiting = Counter((record.at[1], record.at[2]) for at, record, _ in answers if at is None)
    (state,) = (tables["waiting"] for tables in found.state if "waiting" in tables)
    opened = read.mine.open_records(state, found.clock).to_pylist()
    assert {(row["__topic"], row["__partition"]): row["records"] for row in opened} == waiting
    assert found.fates == fates(read, late)
    everything = read.increment({}, dict.fromkeys(read.topics, 1 << 62))[0]
    shown_late = read.mine.late(everything).to_pylist()
    assert {(row["topic"], row["partition"], row["offset"]) for row in shown_late} == {at[1:] for at in late}
    assert all(row["late_by_ms"] > 0 for row in shown_late)


def check(subject: Subject, found: Outcome, wanted: list[tuple[int, Change, dict[str, Any]]]) -> None:
    """Compare results, in the order of sinks."""
    rows = found.rows()
    rows.sort(key=lambda r: (r["__sequence"], *place(subject, r["__timestamp"], position(r))))
    got = [(r["__sequence"], position(r), {n: r[n] for n in subject.node.columns}) for r in rows]
    inner = subject.node.how == "inner"
    left = [one for one in wanted if not (inner and one[2]["__missed"])]
    left.sort(key=lambda one: (one[0], *place(subject, one[1].ts, one[1].at)))
    assert got == [(at, record.at, {n: row.get(n) for n in subject.node.columns}) for at, record, row in left]


def place(subject: Subject, ts: int, at: tuple[Any, ...]) -> tuple[Any, ...]:
    return (ts, *at) if subject.node.as_of == "event" else at


def position(row: dict[str, Any]) -> tuple[int, str, int, int]:
    at = round(row["__ingested_at"].timestamp() * 1000)
    return at, row["__topic"], row["__partition"], row["__offset"]


def shown(subject: Subject, record: Change, row: Value | None) -> dict[str, Any]:
    """The result row; `__missed`: it found nothing."""
    if row is not None and subject.keeps is not None and not subject.keeps(row):
        row = None
    return {"id": record.key, **(record.value or {}), **(row or {}), "__missed": row is None}


def changes_of(read: Sided) -> tuple[list[Change], list[Change]]:
    """The records of the stream that have a value, and those of the table."""
    node = read.subject.node
    orders = as_log(read.world, {"orders": NAMES["orders"]} | {t: NAMES[t] for t in read.topics})["orders"]
    told = as_log(read.world, {topic: NAMES[topic] for topic in read.topics} | _told(read.subject))
    tables = [change for topic in node.table.topics for change in told[topic.name]]
    return [record for record in orders if record.value is not None], tables


def _told(subject: Subject) -> dict[str, tuple[str, ...]]:
    return {topic.name: subject.told for topic in subject.node.table.topics}


def moves(world: World) -> list[Moved]:
    return [
        (at, each.topic, partition, ms)
        for each in world.logs
        for at, stream in each.log.clocks
        for partition, ms in stream.items()
    ]


def is_late(subject: Subject, record: Change, world: World) -> bool:
    if subject.node.history_ms is None:
        return False
    (log,) = (each.log for each in world.logs if each.topic == record.at[1])
    (stream,) = (s for a, offset, s in log.rows if (a.partition, offset) == record.at[2:])
    return stream is not None and record.ts + subject.node.history_ms < stream


def fates(read: Sided, late: set[tuple[int, str, int, int]]) -> Counter[tuple[str, int, str]]:
    """Each record once: kept if the stream or the table uses it."""
    node = read.subject.node
    counted: Counter[tuple[str, int, str]] = Counter()
    rows, _ = read.world.increment({}, dict.fromkeys(read.topics, 1 << 62))
    for row in rows.to_pylist():
        if row["__offset"] is None:
            continue
        topic, fate = row[TOPIC], row[FATE]
        at = (row["__ingested_ms"], topic, row["__partition"], row["__offset"])
        met = set()
        if topic in {each.name for each in node.stream.topics}:
            met.add("late" if at in late else fate or "kept")
        if topic in {each.name for each in node.table.topics}:
            usable = fate in (None, "tombstone")
            met.add("dead_letter" if usable and row["key"] is None else "kept" if usable else fate)
        counted[topic, row["__partition"], "kept" if "kept" in met else min(met)] += 1
    return counted

"""The law of aggregates as sides: totals and windows of a stream are joined and grouped as tables are, in whatever cuts."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.description import Relation
from headrace.description.feeds import leaves_of
from headrace.fold.relations import Relations
from tests.laws.kernel.harness import Outcome, Plan, plans, run
from tests.laws.kernel.logs import World
from tests.laws.kernel.relation_worlds import RelationWorld, as_log, relation_worlds, schema_of
from tests.oracle.relations_oracle import Rows, changes, grouped, join, table
from tests.oracle.tables_oracle import Change, Value

pytestmark = pytest.mark.fast

FEW = settings(max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "6")), deadline=None)
NAMES = {"sales": ("id", "shop", "clerk", "amount"), "shops": ("shop", "city", "street", "opened")}
SALES = hr.Topic("sales", key="id STRING", value="shop STRING, clerk STRING, amount INT")
SHOPS = hr.Topic("shops", key="shop STRING", value="city STRING, street STRING, opened INT")
SIZE_MS, ADVANCE_MS, GRACE_MS = 20_000, 8_000, 10_000
AGGREGATES = {
    "n": hr.count(),
    "total": hr.sum("amount"),
    "highest": hr.max("amount"),
    "newest": hr.last("amount"),
}
BY_SHOP = SALES.group_by("shop").aggregate(**AGGREGATES)
BY_WINDOW = (
    SALES.group_by("shop").window(hr.hopping(SIZE_MS, ADVANCE_MS), grace=GRACE_MS).aggregate(**AGGREGATES)
)
FINAL = (
    SALES.group_by("shop")
    .window(hr.tumbling(SIZE_MS), grace=GRACE_MS)
    .aggregate(**AGGREGATES)
    .suppress(hr.until_window_closes())
)
KNOWN = SHOPS.table()
Log = Mapping[str, list[Change]]
Clocks = Mapping[int, int]  # for each commit time the lowest stream time of the sales after it


@dataclass(frozen=True)
class Records:
    """The log for the oracle, with the stream time at each record and the lowest one after each commit."""

    streams: Mapping[tuple[Any, ...], int]
    lowest: Clocks


def add(row: dict[str, Any], record: Change) -> None:
    amount = (record.value or {})["amount"]
    row["n"] = row.get("n", 0) + 1
    row.setdefault("total", None)
    row.setdefault("highest", None)
    if amount is not None:
        row["total"] = (row["total"] or 0) + amount
        row["highest"] = amount if row["highest"] is None else max(row["highest"], amount)
    row["newest"] = amount


def totals(log: Log, keys: Callable[[Change], list[Any]]) -> Rows:
    """By group the totals of its records; a record may be in several groups."""
    rows: dict[Any, tuple[list[Any], dict[str, Any]]] = {}
    for record in sorted(log["sales"], key=lambda change: change.at):
        if record.value is not None and record.value["shop"] is not None:
            for key in keys(record):
                made_of, row = rows.setdefault(key, ([], {}))
                made_of.append(record.at)
                add(row, record)
    return {key: (tuple(made_of), row) for key, (made_of, row) in rows.items()}


def windows(log: Log, known: Records, advance_ms: int) -> Rows:
    """By shop and start the windows that records enter."""

    def starts(record: Change) -> list[Any]:
        last = record.ts // advance_ms * advance_ms
        return [
            ((record.value or {})["shop"], start)
            for start in range(last, max(-1, record.ts - SIZE_MS), -advance_ms)
            if start >= 0 and start + SIZE_MS + GRACE_MS > known.streams[record.at]
        ]

    return totals(log, starts)


def final(log: Log, known: Records, upto: int) -> Rows:
    reached = max((ms for at, ms in known.lowest.items() if at <= upto), default=-1)
    rows = windows(log, known, SIZE_MS)
    return {key: ("closed", row) for key, (_, row) in rows.items() if key[1] + SIZE_MS + GRACE_MS <= reached}


def with_city(rows: Rows, shops: Rows, how: str) -> Rows:
    joined = join(rows, shops, lambda key, value: (key[0],), how)
    return {
        key: (m, {n: v for n, v in value.items() if n != "right"} | columns(value["right"]))
        for key, (m, value) in joined.items()
    }


def columns(shop: Value | None) -> Value:
    return {name: shop and shop[name] for name in ("city", "street", "opened")}


def of_cities(values: list[Value]) -> Value:
    found = [value["total"] for value in values if value["total"] is not None]
    return {"shops": len(values), "total": sum(found) if found else None}


def of_shops(log: Log) -> Rows:
    joined = join(table(log["shops"]), totals(log, of_shop), lambda key, value: key, "left")
    nothing = dict.fromkeys(("n", "total", "highest", "newest"))
    return {
        key: (m, {n: v for n, v in value.items() if n != "right"} | (value["right"] or nothing))
        for key, (m, value) in joined.items()
    }


def of_shop(record: Change) -> list[Any]:
    return [((record.value or {})["shop"],)]


@dataclass(frozen=True)
class Subject:
    """A relation, and what the oracle makes of the log through a commit."""

    name: str
    node: Relation
    wanted: Callable[[Log, Records, int], Rows]

    def __repr__(self) -> str:
        return self.name


SUBJECTS = [
    Subject("totals", BY_SHOP, lambda log, known, upto: totals(log, of_shop)),
    Subject("closed", FINAL, lambda log, known, upto: final(log, known, upto)),
    Subject(
        "totals_left",
        BY_SHOP.join(KNOWN, on="shop", how="left"),
        lambda log, known, upto: with_city(totals(log, of_shop), table(log["shops"]), "left"),
    ),
    Subject(
        "totals_right", KNOWN.join(BY_SHOP, on="shop", how="left"), lambda log, known, upto: of_shops(log)
    ),
    Subject(
        "cities",
        BY_SHOP.join(KNOWN, on="shop").group_by("city").aggregate(shops=hr.count(), total=hr.sum("total")),
        lambda log, known, upto: grouped(
            with_city(totals(log, of_shop), table(log["shops"]), "inner"),
            lambda key, value: value["city"],
            of_cities,
        ),
    ),
    Subject(
        "windows",
        BY_WINDOW.join(KNOWN, on="shop", how="left"),
        lambda log, known, upto: with_city(windows(log, known, ADVANCE_MS), table(log["shops"]), "left"),
    ),
    Subject(
        "final_windows",
        FINAL.join(KNOWN, on="shop"),
        lambda log, known, upto: with_city(final(log, known, upto), table(log["shops"]), "inner"),
    ),
    Subject(
        "numbers_of_windows",
        FINAL.group_by("shop").aggregate(shops=hr.count(), total=hr.sum("total")),
        lambda log, known, upto: grouped(final(log, known, upto), lambda key, value: key[0], of_cities),
    ),
]


@FEW
@given(relation_worlds(*NAMES), plans(), st.sampled_from(SUBJECTS))
def test_whatever_the_cuts_aggregates_are_sides_like_tables(
    world: World, plan: Plan, subject: Subject
) -> None:
    names = [topic.name for topic in subject.node.topics]
    world = World([log for log in world.logs if log.topic in names], world.value)
    log = as_log(world, {topic: NAMES[topic] for topic in world.topics})
    known = Records(streams_of(world), lowest_of(world))
    outcome = folded(subject.node, world, plan)
    wanted = subject.wanted(log, known, 1 << 62)
    assert values(subject.node, outcome) == {key: value for key, (_, value) in wanted.items()}
    told = changes(log, lambda some, upto: subject.wanted(some, known, upto), world.commits())
    assert changed(subject.node, outcome) == told


def streams_of(world: World) -> dict[tuple[Any, ...], int]:
    rows, _ = world.increment({}, dict.fromkeys(world.topics, 1 << 62))
    place = ("__ingested_ms", "__topic", "__partition", "__offset")
    return {tuple(row[n] for n in place): row["__stream_ms"] for row in rows.to_pylist()}


def lowest_of(world: World) -> Clocks:
    found = {}
    for at in world.commits():
        ms = world.clock(dict.fromkeys(world.topics, at)).closing_ms(["sales"])
        if ms is not None:
            found[at] = ms
    return found


def folded(node: Relation, world: World, plan: Plan) -> Outcome:
    reads = {}
    for part, leaf in leaves_of(node).items():
        topics = tuple(topic.name for topic in leaf.topics)
        reads[part] = (topics, NAMES[topics[0]])
    operator = Relations.of(node, {part: schema_of(names) for part, (_, names) in reads.items()})
    return run(operator.steps, RelationWorld(world, operator, reads), plan)  # type: ignore[arg-type]


def values(node: Relation, outcome: Outcome) -> dict[Any, Any]:
    shown = shown_columns(node)
    return {plain(key): {n: row[n] for n in shown} for key, row in outcome.current(node.identity).items()}


def changed(node: Relation, outcome: Outcome) -> dict[Any, Any]:
    shown, found = shown_columns(node), {}
    for row in outcome.rows("changes"):
        key = plain(tuple(row[name] for name in node.identity)), row["__sequence"]
        assert key not in found, "a key changes twice in a commit"
        before = {n: row[f"__before_{n}"] for n in shown} if row["__was_there"] else None
        found[key] = (before, None if row["__deleted"] else {n: row[n] for n in shown})
    return found


def shown_columns(node: Relation) -> list[str]:
    return [name for name in node.columns if name not in (*node.identity, "window_end")]


def plain(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Times as ms since 1970."""
    return tuple(round(part.timestamp() * 1000) if hasattr(part, "timestamp") else part for part in key)

"""The law of joins and groups: in any cuts and buckets they hold what the latest rows make, and change when these do."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.description import Relation, Table
from headrace.description.feeds import leaves_of
from headrace.fold.contract import Folded, Needs, Step, Times
from headrace.fold.joins import orphans
from headrace.fold.relations import Relations
from headrace.fold.relations.station_step import StationStep
from headrace.fold.tables.decide_records import PASSES
from tests.laws.kernel.harness import ONE_GO, Outcome, Plan, plans, run
from tests.laws.kernel.logs import World
from tests.laws.kernel.relation_worlds import RelationWorld, as_log, relation_worlds, schema_of
from tests.oracle.relations_oracle import Rows, changes, grouped, join, table
from tests.oracle.tables_oracle import Change, Value

pytestmark = pytest.mark.fast

FEW = settings(max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "6")), deadline=None)

NAMES = {
    "positions": ("id", "ticker", "parent", "amount"),
    "tickers": ("symbol", "exchange", "owner", "founded"),
    "exchanges": ("market", "city", "street", "opened"),
}
TOPICS = {
    topic: hr.Topic(topic, key=f"{key} STRING", value=f"{ref} STRING, {also} STRING, {number} INT")
    for topic, (key, ref, also, number) in NAMES.items()
}
HELD, KNOWN, PLACES = (topic.table() for topic in TOPICS.values())
BY_TIME = {topic: of.table("timestamp") for topic, of in TOPICS.items()}
TOTALS = {"n": hr.count(), "total": hr.sum("amount"), "mean": hr.avg("amount")}
Log = Mapping[str, list[Change]]


def latest(log: Log, topic: str, order_by: str = "position") -> Rows:
    return table(log[topic], order_by)


def of(column: str) -> Callable[[Any, Value], Any]:
    """A foreign key."""
    return lambda key, value: (value[column],)


def flattened(rows: Rows, **columns: str) -> Rows:
    """The columns of the right row, under their names; null where there is none. In: name=column of the right row."""
    return {
        key: (
            made_of,
            {n: v for n, v in value.items() if n != "right"}
            | {name: value["right"] and value["right"][column] for name, column in columns.items()},
        )
        for key, (made_of, value) in rows.items()
    }


def positive(log: Log) -> Log:
    """Records of which the last value is not above 0 delete their key."""
    return {
        topic: [
            replace(c, value=c.value if c.value and (c.value[NAMES[topic][-1]] or 0) > 0 else None)
            for c in some
        ]
        for topic, some in log.items()
    }


TICKER = {"exchange": "exchange", "owner": "owner", "founded": "founded"}
EXCHANGE = {"city": "city", "street": "street", "opened": "opened"}


def of_ticker(log: Log, how: str, order_by: str = "position") -> Rows:
    rows = join(latest(log, "positions", order_by), latest(log, "tickers", order_by), of("ticker"), how)
    return flattened(rows, **TICKER)


def of_chain(log: Log) -> Rows:
    rows = join(of_ticker(log, "inner"), latest(log, "exchanges"), of("exchange"), "left")
    return flattened(rows, **EXCHANGE)


def of_nested(log: Log) -> Rows:
    right = flattened(
        join(latest(log, "tickers"), latest(log, "exchanges"), of("exchange"), "inner"), **EXCHANGE
    )
    return flattened(join(latest(log, "positions"), right, of("ticker"), "left"), **TICKER, **EXCHANGE)


def of_parent(log: Log) -> Rows:
    rows = join(latest(log, "positions"), latest(log, "positions"), of("parent"), "left")
    shown = flattened(rows, parent_amount="amount")
    return {k: (m, {n: v[n] for n in ("amount", "parent_amount")}) for k, (m, v) in shown.items()}


def totals(values: list[Value]) -> Value:
    amounts = [value["amount"] for value in values if value["amount"] is not None]
    total = sum(amounts) if amounts else None
    return {"n": len(values), "total": total, "mean": None if total is None else total / len(amounts)}


def of_groups(log: Log) -> Rows:
    return grouped(latest(log, "positions"), lambda key, value: value["ticker"], totals)


def of_exchanges(log: Log) -> Rows:
    groups = grouped(of_ticker(log, "left"), lambda key, value: value["exchange"], totals)
    return flattened(join(groups, latest(log, "exchanges"), lambda key, value: key, "left"), **EXCHANGE)


@dataclass(frozen=True)
class Subject:
    """A relation under test, and what the oracle makes of the logs."""

    name: str
    node: Relation
    wanted: Callable[[Log], Rows]

    def __repr__(self) -> str:
        return self.name


SUBJECTS = [
    Subject("inner", HELD.join(KNOWN, on="ticker"), lambda log: of_ticker(log, "inner")),
    Subject("left", HELD.join(KNOWN, on="ticker", how="left"), lambda log: of_ticker(log, "left")),
    Subject(
        "by_time",
        BY_TIME["positions"].join(BY_TIME["tickers"], on="ticker", how="left"),
        lambda log: of_ticker(log, "left", "timestamp"),
    ),
    Subject(
        "of_positive",
        HELD.where("amount > 0").join(KNOWN.where("founded > 0"), on="ticker", how="left"),
        lambda log: of_ticker(positive(log), "left"),
    ),
    Subject(
        "self_join",
        HELD.join(
            HELD, on="parent", how="left", select=("left.amount AS amount", "right.amount AS parent_amount")
        ),
        of_parent,
    ),
    Subject("chain", HELD.join(KNOWN, on="ticker").join(PLACES, on="exchange", how="left"), of_chain),
    Subject("nested", HELD.join(KNOWN.join(PLACES, on="exchange"), on="ticker", how="left"), of_nested),
    Subject("table", KNOWN, lambda log: latest(log, "tickers")),
    Subject("groups", HELD.group_by("ticker").aggregate(**TOTALS), of_groups),
    Subject(
        "groups_of_a_join",
        HELD.join(KNOWN, on="ticker", how="left")
        .group_by("exchange")
        .aggregate(**TOTALS)
        .join(PLACES, on="exchange", how="left"),
        of_exchanges,
    ),
]
WORLDS = relation_worlds(*NAMES)


@FEW
@given(WORLDS, plans(apart=True), st.sampled_from(SUBJECTS), st.booleans())
def test_whatever_the_cuts_a_relation_holds_what_the_latest_rows_make(
    world: World, plan: Plan, subject: Subject, with_changes: bool
) -> None:
    mine = of_topics(world, subject.node)
    log = as_log(mine, {topic: NAMES[topic] for topic in mine.topics})
    wanted = {key: value for key, (_, value) in subject.wanted(log).items()}
    outcome = folded(subject.node, mine, plan, changes=with_changes)
    assert values(subject.node, outcome) == wanted
    assert outcome.fates == fates(mine)


@FEW
@given(WORLDS, plans(), st.sampled_from(SUBJECTS))
def test_each_commit_that_changes_a_row_is_one_change_whatever_the_cuts(
    world: World, plan: Plan, subject: Subject
) -> None:
    mine = of_topics(world, subject.node)
    log = as_log(mine, {topic: NAMES[topic] for topic in mine.topics})
    outcome = folded(subject.node, mine, plan)
    wanted = changes(log, lambda some, upto: subject.wanted(some))
    assert changed(subject.node, outcome) == wanted
    # Event times and places do not depend on cuts and buckets either.
    assert in_no_order(outcome) == in_no_order(folded(subject.node, mine, ONE_GO))


def in_no_order(outcome: Outcome) -> list[str]:
    return sorted(map(repr, outcome.rows("changes")))


@FEW
@given(WORLDS, plans())
def test_orphans_are_the_rows_that_refer_to_no_row(world: World, plan: Plan) -> None:
    node = SUBJECTS[0].node
    mine = of_topics(world, node)
    log = as_log(mine, {topic: NAMES[topic] for topic in mine.topics})
    _, _, state, _ = folded(node, mine, plan).state
    found = orphans(state["left_by_reference"], state["right_by_key"], ["id"], ["ticker"]).to_pylist()
    known = latest(log, "tickers")
    assert {row["id"]: row["__orphan"] for row in found} == {
        key: (value["ticker"],) not in known
        for (key,), (_, value) in latest(log, "positions").items()
        if value["ticker"] is not None
    }


MARKET = "coalesce(exchange, 'none') AS market"
OPENED = "amount + founded AS both"
COMPUTED = (
    HELD.join(KNOWN, on="ticker", how="left", select=(MARKET, OPENED, "parent"))
    .group_by("market")
    .aggregate(n=hr.count(), total=hr.sum("both"))
)


class Evaluated(Step):
    """A step whose caller computes what a select asks for."""

    def __init__(self, step: StationStep) -> None:
        self.step = step
        self.scope, self.keys, self.state = step.scope, step.keys, step.state

    def needs(self, rows: pa.Table, times: Times) -> Mapping[str, Needs]:
        return self.step.needs(self._computed(rows), times)

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        return self.step.fold(self._computed(rows), state, times)

    def _computed(self, rows: pa.Table) -> pa.Table:
        for part, selection in self.step.selections.items():
            shown = rows.to_pylist()
            left, right = selection.left, selection.right
            found = {
                "market": [row[right["exchange"]] or "none" for row in shown],
                "both": [
                    None
                    if None in (row[left["amount"]], row[right["founded"]]) or not row[selection.matched]
                    else row[left["amount"]] + row[right["founded"]]
                    for row in shown
                ],
                "parent": [row[left["parent"]] for row in shown],
            }
            assert found.keys() == selection.values.keys()
            types = {"market": pa.string(), "both": pa.int64(), "parent": pa.string()}
            for name, column in found.items():
                rows = rows.append_column(f"{part}:{name}", pa.array(column, types[name]))
        return rows


def of_markets(log: Log) -> Rows:
    rows = {
        key: (
            made_of,
            {
                "market": row["exchange"] or "none",
                "amount": None if None in (row["amount"], row["founded"]) else row["amount"] + row["founded"],
            },
        )
        for key, (made_of, row) in of_ticker(log, "left").items()
    }
    groups = grouped(rows, lambda key, value: value["market"], totals)
    return {key: (m, {n: value[n] for n in ("n", "total")}) for key, (m, value) in groups.items()}


@FEW
@given(WORLDS, plans())
def test_values_that_the_caller_computes_are_grouped_as_those_of_tables(world: World, plan: Plan) -> None:
    mine = of_topics(world, COMPUTED)
    log = as_log(mine, {topic: NAMES[topic] for topic in mine.topics})
    joined = pa.schema(
        [("id", pa.string()), ("market", pa.string()), ("both", pa.int64()), ("parent", pa.string())]
    )
    outcome = folded(COMPUTED, mine, plan, computed={"rows": joined})
    assert changed(COMPUTED, outcome) == changes(log, lambda some, upto: of_markets(some))


def of_topics(world: World, node: Relation) -> World:
    """The world as far as a node reads it."""
    names = [topic.name for topic in node.topics]
    return World([log for log in world.logs if log.topic in names], world.value)


def folded(
    node: Relation,
    world: World,
    plan: Plan,
    *,
    changes: bool = True,
    computed: Mapping[str, pa.Schema] | None = None,
) -> Outcome:
    reads = {}
    for part, leaf in leaves_of(node).items():
        topics = tuple(topic.name for topic in leaf.topics)
        reads[part] = (topics, NAMES[topics[0]])
    conditions = any(leaf.conditions for leaf in leaves_of(node).values() if isinstance(leaf, Table))
    inputs = {part: schema_of(names) for part, (_, names) in reads.items()}
    if conditions:
        inputs = {part: schema.append(pa.field(PASSES, pa.bool_())) for part, schema in inputs.items()}
    operator = Relations.of(node, inputs, changes=changes, computed=computed)
    steps = [
        Evaluated(step) if isinstance(step, StationStep) and step.selections else step
        for step in operator.steps
    ]
    return run(steps, RelationWorld(world, operator, reads, conditions), plan)  # type: ignore[arg-type]


def values(node: Relation, outcome: Outcome) -> dict[Any, Any]:
    shown = [name for name in node.columns if name not in node.identity]
    return {key: {n: row[n] for n in shown} for key, row in outcome.current(node.identity).items()}


def changed(node: Relation, outcome: Outcome) -> dict[Any, Any]:
    shown = [name for name in node.columns if name not in node.identity]
    found = {}
    for row in outcome.rows("changes"):
        key = tuple(row[name] for name in node.identity), row["__sequence"]
        assert key not in found, "a key changes twice in a commit"
        before = {n: row[f"__before_{n}"] for n in shown} if row["__was_there"] else None
        found[key] = (before, None if row["__deleted"] else {n: row[n] for n in shown})
    return found


def fates(world: World) -> Counter[tuple[str, int, str]]:
    """Each record's fate: what has a key is kept, tombstones too."""
    counted: Counter[tuple[str, int, str]] = Counter()
    rows, _ = world.increment({}, dict.fromkeys(world.topics, 1 << 62))
    for row in rows.to_pylist():
        fate = row["__fate"]
        if fate in (None, "tombstone"):
            fate = "dead_letter" if row["key"] is None else "kept"
        if row["__offset"] is not None:
            counted[row["__topic"], row["__partition"], fate] += 1
    return counted

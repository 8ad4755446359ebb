"""The law of tables: in any cuts and buckets, they hold what a plain Python oracle holds, and change when it does."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.description import Table
from headrace.fold.tables import Tables
from headrace.fold.tables.decide_records import PASSES
from tests.laws.kernel.harness import Outcome, Plan, plans, run
from tests.laws.kernel.logs import World
from tests.laws.kernel.relation_worlds import as_log, flat, relation_worlds, schema_of
from tests.oracle.relations_oracle import changes, table
from tests.oracle.tables_oracle import Change

pytestmark = pytest.mark.fast

FEW = settings(max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "12")), deadline=None)

NAMES = ("id", "ref", "also", "amount")
VALUE = "ref STRING, also STRING, amount INT"
ONE, TWO = (hr.Topic(name, key="id STRING", value=VALUE) for name in ("one", "two"))


class Flat:
    """The rows of a world with the columns of a table, and with what the caller computes of its conditions."""

    def __init__(self, world: World, *, passes: bool) -> None:
        self.world, self.passes = world, passes
        self.topics, self.commits = world.topics, world.commits

    def increment(self, after: dict[str, int], upto: dict[str, int]) -> Any:
        rows, times = self.world.increment(after, upto)
        rows = flat(rows, NAMES)
        if self.passes:
            amounts = rows["amount"].to_pylist()
            rows = rows.append_column(
                PASSES, pa.array([None if a is None else a > 0 for a in amounts], pa.bool_())
            )
        return rows, times


def folded(node: Table, world: World, plan: Plan, *, changes: bool = True) -> Outcome:
    passes = bool(node.conditions)
    schema = schema_of(NAMES)
    operator = Tables.of(
        node, schema.append(pa.field(PASSES, pa.bool_())) if passes else schema, changes=changes
    )
    return run(operator.steps, Flat(world, passes=passes), plan)  # type: ignore[arg-type]


NODES = [
    (ONE.table(), "position"),
    (ONE.table("timestamp"), "timestamp"),
    (ONE.merge(TWO).table(), "position"),
    (ONE.merge(TWO).table("timestamp").where("amount > 0"), "timestamp"),
]


def keeps_of(node: Table) -> Any:
    return (lambda value: (value["amount"] or 0) > 0) if node.conditions else (lambda value: True)


def all_of(log: Mapping[str, list[Change]]) -> list[Change]:
    return [change for some in log.values() for change in some]


@FEW
@given(relation_worlds("one", "two"), plans(apart=True), st.sampled_from(NODES), st.booleans())
def test_whatever_the_cuts_a_table_holds_the_latest_rows(
    world: World, plan: Plan, subject: tuple[Table, str], with_changes: bool
) -> None:
    node, order_by = subject
    mine = World(world.logs[: len(node.topics)], world.value)
    log = as_log(mine, dict.fromkeys(mine.topics, NAMES))
    wanted = {k: v for k, (_, v) in table(all_of(log), order_by, keeps_of(node)).items()}
    outcome = folded(node, mine, plan, changes=with_changes)
    assert values(outcome) == wanted
    assert outcome.fates == fates(mine)


@FEW
@given(relation_worlds("one", "two"), plans(), st.sampled_from(NODES))
def test_each_commit_that_changes_a_key_is_one_change_whatever_the_cuts(
    world: World, plan: Plan, subject: tuple[Table, str]
) -> None:
    node, order_by = subject
    mine = World(world.logs[: len(node.topics)], world.value)
    log = as_log(mine, dict.fromkeys(mine.topics, NAMES))
    wanted = changes(log, lambda some, upto: table(all_of(some), order_by, keeps_of(node)))
    assert changed(folded(node, mine, plan)) == wanted


def values(outcome: Outcome) -> dict[Any, Any]:
    return {key: {n: row[n] for n in NAMES[1:]} for key, row in outcome.current(["id"]).items()}


def changed(outcome: Outcome) -> dict[Any, Any]:
    found = {}
    for row in outcome.rows("changes"):
        key = ((row["id"],), row["__sequence"])
        assert key not in found, "a key changes twice in a commit"
        before = {n: row[f"__before_{n}"] for n in NAMES[1:]} if row["__was_there"] else None
        found[key] = (before, None if row["__deleted"] else {n: row[n] for n in NAMES[1:]})
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

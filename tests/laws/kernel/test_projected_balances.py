"""A node that loses, renames or reorders aggregates goes on from the projection of its state as if it had had no others (L40)."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.fold.aggregates.projection import columns_from, project, sources_of
from headrace.fold.contract import BATCH
from headrace.operators.totals.fold import Totals
from tests.laws.kernel.harness import State, as_set, run, run_changed
from tests.laws.kernel.logs import SECOND, World, worlds
from tests.laws.kernel.plans import Plan, frontiers, plans
from tests.laws.kernel.reading import Reading
from tests.laws.kernel.subjects import T, U, whole

if TYPE_CHECKING:
    from headrace.description import Node

pytestmark = pytest.mark.fast

EXAMPLES = settings(max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "40")), deadline=None)
ALL: dict[str, Any] = {
    "n": hr.count(),
    "known": hr.count("value"),
    "total": hr.sum("value"),
    "lowest": hr.min("value"),
    "oldest": hr.first("value"),
    "newest": hr.last("value"),
    "spread": hr.stddev("value"),
    "some": hr.collect("value", max_items=3),
    "kinds": hr.count_distinct("value"),
}


def node(kind: str, aggregates: dict[str, Any]) -> Node:
    grouped: Any = (T.merge(U) if kind == "totals" else T).group_by("key")
    if kind != "totals":
        window: Any = (
            hr.sliding(4 * SECOND) if kind == "sliding" else hr.hopping(8 * SECOND, int(kind) * SECOND)
        )
        grouped = grouped.window(window, grace=2 * SECOND)
    made: Node = grouped.aggregate(**aggregates).named("node")
    return made


@st.composite
def others(draw: st.DrawFn) -> dict[str, Any]:
    """Some of the aggregates in another order, some under other names, which may be those of former ones."""
    kept = draw(st.permutations([*ALL]).map(lambda names: names[: draw(st.integers(1, len(names)))]))
    named = draw(
        st.lists(st.sampled_from([*ALL, *"uvwxyz"]), min_size=len(kept), max_size=len(kept), unique=True)
    )
    return {
        name if draw(st.booleans()) and name not in kept else former: ALL[former]
        for former, name in zip(kept, named, strict=True)
    }


@EXAMPLES
@given(
    worlds(whole, pa.int64(), ("t", "u")),
    plans(),
    st.sampled_from(["totals", "8", "3", "sliding"]),
    others(),
    st.data(),
)
@pytest.mark.slow
def test_some_aggregates_go_on_from_the_state_of_more(
    world: World, plan: Plan, kind: str, wanted: dict[str, Any], data: st.DataObject
) -> None:
    mine = world if kind == "totals" else world.of("t")
    one, other = (Reading(node(kind, of), mine) for of in (ALL, wanted))
    at = data.draw(st.integers(1, max(1, len(frontiers(one, plan)) - 1)))
    sources = sources_of(*([(n, a.rules()) for n, a in of.items()] for of in (ALL, wanted)))
    assert sources is not None
    kernel: Any = other.operator.kernel
    aggregates = kernel.merge.aggregates if isinstance(kernel, Totals) else kernel.shape.aggregates
    columns = columns_from(aggregates, sources)

    def change(state: State) -> State:
        return [
            {
                name: project(state[place][name], table.schema.append(pa.field(BATCH, pa.int32())), columns)
                for name, table in step.state.items()
            }
            for place, step in enumerate(other.operator.steps)
        ]

    first, rest = run_changed(one.operator.steps, other.operator.steps, one, plan, at, change)
    straight = run(other.operator.steps, other, replace(plan, crash=None), revised=True)
    assert first.fates + rest.fates == straight.fates
    given_before = [
        project(table, straight.outputs["results"][0].schema, columns) for table in first.outputs["results"]
    ]
    found, whole_log = [*given_before, *rest.outputs["results"]], straight.outputs["results"]
    assert as_set(found) == as_set(whole_log)


def test_an_aggregate_with_other_rules_has_no_source() -> None:
    before = [("n", {"kind": "count"}), ("low", {"kind": "min", "column": "a"})]
    assert sources_of(before, [("low", {"kind": "max", "column": "a"})]) is None
    assert sources_of(before, [("low", {"kind": "count"}), ("n", {"kind": "count"})]) == {
        "low": "n",
        "n": "n",
    }

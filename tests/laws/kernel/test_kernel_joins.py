"""What the law of every operator leaves out of joins: which left rows refer to no right row."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings

from headrace import oracle
from headrace.fold.joins import orphans
from tests.laws.kernel.harness import run
from tests.laws.kernel.logs import World
from tests.laws.kernel.plans import Plan, plans
from tests.laws.kernel.reading import Reading
from tests.laws.kernel.relation_subjects import HELD, KNOWN, referring

pytestmark = pytest.mark.fast

FEW = settings(max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "6")), deadline=None)


@FEW
@given(referring("positions", "tickers"), plans())
def test_orphans_are_the_rows_that_refer_to_no_row(world: World, plan: Plan) -> None:
    reading = Reading(HELD.join(KNOWN, on="ticker").named("joined"), world, changes=True)
    _, _, state, _ = run(reading.operator.steps, reading, plan, revised=True).state
    found = orphans(state["left_by_reference"], state["right_by_key"], ["id"], ["ticker"]).to_pylist()
    held, known = (
        oracle.results(side.named("side"), oracle.Log({"result": reading.log.plain[name]})).rows
        for name, side in (("left", HELD), ("right", KNOWN))
    )
    symbols = {row["symbol"] for row in known}
    assert {row["id"]: row["__orphan"] for row in found} == {
        row["id"]: row["ticker"] not in symbols for row in held if row["ticker"] is not None
    }

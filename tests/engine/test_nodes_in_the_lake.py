"""Nodes in real Delta tables: any cuts, buckets, pieces, crashes and compactions lead to what plain Python finds."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.engine.fold_increment import Distribution
from tests.engine.node_driver import HOWS, Driver
from tests.laws.kernel.families import FAMILIES, Family
from tests.laws.kernel.plans import plans
from tests.laws.kernel.reading import Reading
from tests.laws.kernel.verdict import Verdict

pytestmark = pytest.mark.fast

FEW = settings(
    max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "6")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
SEEDS = st.integers(0, 2**32 - 1)
KINDS = ("windows", "sessions", "totals", "tables", "batches")


@pytest.mark.parametrize(
    "family", [each for each in FAMILIES if each.name in KINDS], ids=lambda family: family.name
)
@FEW
@given(data=st.data(), how=HOWS, seed=SEEDS)
def test_a_node_in_the_lake_holds_what_the_oracle_finds(
    tmp_path_factory: pytest.TempPathFactory,
    family: Family,
    data: st.DataObject,
    how: Distribution,
    seed: int,
) -> None:
    subject = data.draw(st.sampled_from(family.subjects))
    reading = Reading(subject.node, data.draw(family.worlds), changes=subject.changes)
    plan = data.draw(plans(subject.apart))
    driver = Driver(tmp_path_factory.mktemp("node"), reading.operator, how, seed)
    found = driver.run(reading, plan)
    # It reads on where it finds more of the log than planned, so topics may be cut apart in other ways.
    Verdict(reading).compare(reading.operator, found, apart=plan.apart)

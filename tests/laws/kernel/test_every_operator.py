"""The law of every operator: the same log gives the same tables, in any cuts, buckets and pieces, and after any crash.

Each example is one random log of one random node. It is folded along three cuttings, each with buckets and pieces of its own; in
one of them the process dies between the commits of outputs and state. All three must lead to what the oracle finds record by
record. `python -m tests.laws.kernel.many --logs 10000` tries more.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.laws.kernel.families import FAMILIES, Family, shares
from tests.laws.kernel.logs import World
from tests.laws.kernel.plans import NUMBERS, Plan, plan_of
from tests.laws.kernel.reading import Reading
from tests.laws.kernel.subjects import Subject
from tests.laws.kernel.verdict import Row, Verdict

pytestmark = pytest.mark.fast

LOGS = 100
EXAMPLES = os.environ.get("HEADRACE_EXAMPLES")
SETTINGS = settings(
    deadline=None,
    phases=tuple(Phase),  # a log that fails is shrunk
)
CUTTINGS = (3, 2, 1)  # micro-batches
PLACE = ("__sequence", "__topic", "__partition", "__offset", "__timestamp", "__key")


def cuttings() -> st.SearchStrategy[list[Plan]]:
    """Three plans, one of which crashes."""
    numbers = st.tuples(*(st.integers(0, NUMBERS - 1) for _ in CUTTINGS))
    return st.tuples(numbers, st.integers(0, len(CUTTINGS) - 1)).map(
        lambda drawn: [
            replace(plan, crash=plan.crash if number == drawn[1] else None)
            for number, plan in enumerate(map(plan_of, drawn[0], CUTTINGS))
        ]
    )


def check(subject: Subject, world: World, cut: list[Plan]) -> None:
    reading = Reading(subject.node, world, changes=subject.changes, computed=subject.computed)
    verdict = Verdict(reading)
    verdict.check_late()
    outcomes = [verdict.check(plan) for plan in cut]
    if subject.changes:
        same_places(*(outcome.rows("changes") for outcome in outcomes))


def same_places(first: Sequence[Row], *others: Sequence[Row]) -> None:
    """Each change has one place, event time and content in any cuts, so sinks get the same rows in one order."""
    places = [repr([row[name] for name in PLACE]) for row in first]
    assert len({*places}) == len(places), "two rows at one place"
    for rows in others:
        assert sorted(map(repr, rows)) == sorted(map(repr, first))


@pytest.mark.parametrize(
    ("family", "logs"),
    [*zip(FAMILIES, shares(LOGS), strict=True)],
    ids=[family.name.replace(" ", "_") for family in FAMILIES],
)
def test_in_any_cuts_an_operator_makes_of_a_log_what_its_oracle_makes(family: Family, logs: int) -> None:
    @settings(SETTINGS, max_examples=int(EXAMPLES or logs))
    @given(st.data())
    def law(data: st.DataObject) -> None:
        subject = data.draw(st.sampled_from(family.subjects))
        world = data.draw(family.worlds)
        check(subject, world, data.draw(cuttings()))

    law()

"""The law of changes: each has the same place, event time and content in any cuts, so sinks get the same rows in one order."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws.kernel.families import FAMILIES, Family
from tests.laws.kernel.harness import run
from tests.laws.kernel.plans import ONE_GO
from tests.laws.kernel.reading import Reading
from tests.laws.kernel.test_every_operator import SETTINGS, cuttings

pytestmark = pytest.mark.fast

EXAMPLES = 12
PLACE = ("__sequence", "__topic", "__partition", "__offset", "__timestamp", "__key")
TOLD = [family for family in FAMILIES if any(subject.changes for subject in family.subjects)]


@pytest.mark.parametrize("family", TOLD, ids=[family.name.replace(" ", "_") for family in TOLD])
def test_in_any_cuts_sinks_get_the_same_changes_at_the_same_places(family: Family) -> None:
    subjects = [subject for subject in family.subjects if subject.changes]

    @settings(SETTINGS, max_examples=EXAMPLES)
    @given(st.data())
    def law(data: st.DataObject) -> None:
        subject = data.draw(st.sampled_from(subjects))
        reading = Reading(subject.node, data.draw(family.worlds), changes=True, computed=subject.computed)
        compute = reading.computed.for_kernel if reading.computed else None
        fold = partial(
            run, reading.operator.steps, reading, revised=reading.operator.revises, compute=compute
        )
        whole = fold(ONE_GO).rows("changes")
        places = [repr([row[name] for name in PLACE]) for row in whole]
        assert len({*places}) == len(places), "two rows at one place"
        for plan in data.draw(cuttings()):
            assert sorted(map(repr, fold(plan).rows("changes"))) == sorted(map(repr, whole))

    law()

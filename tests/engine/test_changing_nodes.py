"""A node's description changes again and again under a random log, while its stream and its acts crash.

Law: at the end its tables are what plain Python finds of the last description over the whole log, and sinks were given each
log commit once, by one version or by another.
"""

from __future__ import annotations

import os
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.engine.fold_increment import Distribution
from tests.engine.changing_driver import Life
from tests.engine.node_driver import HOWS
from tests.laws.kernel.logs import World, worlds
from tests.laws.kernel.reading import Reading
from tests.laws.kernel.subjects import T, U, batch_subjects, total_subjects, whole, window_subjects
from tests.laws.kernel.verdict import Verdict

pytestmark = pytest.mark.fast

FEW = settings(
    max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "12")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
# Windows, final or open, of one topic and of two; totals; batches: all of them under one name.
NODES = [
    subject.node.named("node")
    for subject in (
        *window_subjects(T.stream, T.merge(U)),
        *total_subjects(T.stream, T.merge(U))[:6],
        *batch_subjects()[:2],
    )
]


@FEW
@given(
    world=worlds(whole, pa.int64(), ("t", "u"), log_commits=(3, 5)),
    chosen=st.lists(st.integers(0, len(NODES) - 1), min_size=2, max_size=4, unique=True),
    seed=st.integers(0, 2**32 - 1),
    how=HOWS,
)
def test_the_last_description_holds_what_the_oracle_finds_and_sinks_get_each_commit_once(
    tmp_path_factory: pytest.TempPathFactory, world: World, chosen: list[int], seed: int, how: Distribution
) -> None:
    readings = [Reading(NODES[number], world) for number in chosen]
    life = Life(tmp_path_factory.mktemp("life"), readings, seed, how)
    last, found = life.run([*range(1, len(readings)), 0])
    assert life.swaps
    Verdict(last).compare(last.operator, found, apart=True)
    for topic, stretches in life.given.items():
        for (_, through_ms), (after_ms, _) in pairwise(sorted(stretches.items())):
            assert through_ms == after_ms, f"{topic}: given twice, or by nobody"

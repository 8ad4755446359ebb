"""A processor that depends on its batch is caught: by other cuts and buckets, and by the oracle."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, find, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

import headrace as hr
from headrace.description import Node
from tests.laws.kernel.batch_subjects_by_hand import (
    COUNT,
    AcrossGroups,
    CountTables,
    Forgets,
    count_by_function,
    count_runs,
    take_one,
    tell_at_the_end,
)
from tests.laws.kernel.harness import run
from tests.laws.kernel.logs import World, worlds
from tests.laws.kernel.plans import ONE_GO, Plan, plans
from tests.laws.kernel.reading import Reading
from tests.laws.kernel.subjects import T, whole
from tests.laws.kernel.verdict import Verdict

pytestmark = pytest.mark.fast

WORLDS = worlds(whole, pa.int64(), log_commits=(2, 4), controls=())
FIRST = settings(
    deadline=None,
    max_examples=60,
    phases=(Phase.generate,),
    derandomize=True,
)


def node(processor: Any, *stores: Any) -> Node:
    output = "key STRING, n BIGINT, value BIGINT"
    made: Node = T.group_by("key").process(processor, output=output, stores=stores).named("counts")
    return made


def by_function(function: Any) -> Node:
    return node(hr.processor(function, state="n BIGINT"))


def differs_by_cuts(of: Node, drawn: tuple[World, Plan]) -> bool:
    """Whether a log cut in one way leads to other rows than in one go: as `verify` compares a backfill with a table."""
    reading = Reading(of, drawn[0])
    one, other = (run(reading.operator.steps, reading, plan).rows() for plan in (ONE_GO, drawn[1]))
    return sorted(map(repr, one)) != sorted(map(repr, other))


def differs_from_oracle(of: Node, world: World) -> bool:
    try:
        Verdict(Reading(of, world)).check(ONE_GO)
    except AssertionError:
        return True
    return False


def stopped_with(of: Node, world: World) -> str:
    """What is said when a processor stops its node; nothing if it does not."""
    reading = Reading(of, world)
    try:
        run(reading.operator.steps, reading, ONE_GO)
    except hr.ProcessorError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "of", [node(AcrossGroups), node(Forgets), by_function(count_runs)], ids=["groups", "forgets", "runs"]
)
def test_what_depends_on_its_batch_is_caught_by_cuts_and_by_the_oracle(of: Node) -> None:
    find(st.tuples(WORLDS, plans()), lambda drawn: differs_by_cuts(of, drawn), settings=FIRST)
    find(WORLDS, lambda world: differs_from_oracle(of, world), settings=FIRST)


@pytest.mark.parametrize(
    "of", [node(CountTables, COUNT), by_function(count_by_function)], ids=["tables", "function"]
)
@pytest.mark.slow
def test_what_does_not_depend_on_it_is_not(of: Node) -> None:
    with pytest.raises(NoSuchExample):
        find(st.tuples(WORLDS, plans()), lambda drawn: differs_by_cuts(of, drawn), settings=FIRST)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (tell_at_the_end, "A row comes before the first record or after the last one"),
        (take_one, "The function has ended, and there are records that it has not taken"),
    ],
)
def test_a_function_that_cannot_keep_the_law_is_stopped_at_once(function: Any, said: str) -> None:
    find(WORLDS, lambda world: said in stopped_with(by_function(function), world), settings=FIRST)


class Rowless(hr.BatchProcessor):
    """Gives one row for all records."""

    def process_batch(self, records: pa.Table) -> pa.Table:
        return pa.table({"key": ["a"], "n": [records.num_rows], "value": [0]})


def test_rows_that_belong_to_no_record_are_refused() -> None:
    said = "Rowless.process_batch gives 1 rows for"
    find(WORLDS, lambda world: said in stopped_with(node(Rowless), world), settings=FIRST)

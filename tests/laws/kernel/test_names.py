"""A column may have any name: under each, every operator makes of a log what its oracle makes of it."""

from __future__ import annotations

import random
from functools import cache

import pyarrow as pa
import pytest

import headrace as hr
from headrace.description.schema import quote
from headrace.errors import DescriptionError
from tests.laws.kernel.logs import ARRIVALS, SECOND, Sequenced, World, arrival_of
from tests.laws.kernel.names import NAMES, nodes
from tests.laws.kernel.plans import Plan
from tests.laws.kernel.reading import Reading
from tests.laws.kernel.verdict import Verdict
from tests.oracle.log_oracle import Commit, sequence

pytestmark = pytest.mark.fast
VALUE = pa.struct([("n", pa.int64()), ("r", pa.string())])
CUT = Plan(sizes=(1,), buckets=(2, 3), seed=1)


def value(number: int) -> dict[str, object]:
    return {"n": number, "r": ("a", "b", None)[number % 3]}


@cache
def world() -> World:
    logs = []
    for place, topic in enumerate("tu"):
        chance, commits = random.Random(place), []
        for number in range(3):
            drawn = (chance.randrange(ARRIVALS) for _ in range(6))
            come = [arrival_of(each, number * 9 * SECOND, value) for each in drawn]
            commits.append(Commit(1_000_000 + number * 2 + place, come))
        logs.append(Sequenced(topic, sequence(commits, None, 0)))
    return World(logs, VALUE)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.long if place % 2 else ()) for place, name in enumerate(NAMES)],
)
@pytest.mark.slow
def test_under_any_name_an_operator_makes_of_a_log_what_its_oracle_makes(name: str) -> None:
    for node in nodes(name).values():
        verdict = Verdict(Reading(node, world()))
        verdict.check_late()
        verdict.check(CUT)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("a\0b", "holds the control character U\\+0000"),
        ("a\nb", "holds the control character U\\+000A"),
        ("a\ud800", "holds half of a surrogate pair"),
        ("__a", "is reserved"),
    ],
)
def test_a_name_that_no_store_takes_is_refused_wherever_it_is_given(name: str, why: str) -> None:
    topic = hr.Topic("t", value="a INT")
    for describe in (
        lambda: hr.Topic("t", key=f"{quote(name)} INT", value="a INT"),
        lambda: topic.select(f"a AS {quote(name)}"),
        lambda: topic.with_column(name, "a"),
        lambda: topic.group_by("a").aggregate(**{name: hr.count()}),
        lambda: topic.transform(lambda frame: frame, columns=f"{quote(name)} INT"),
    ):
        with pytest.raises(DescriptionError, match=why):
            describe()

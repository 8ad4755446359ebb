"""Lives of the second tier: what people do to a lake at any moment, among all that befalls a life of the first.

`make test` lives a few of them, in which each act occurs, and `make test-long` the others. HEADRACE_WHOLE_LIVES says how many
there are. `make lives ARGS="--tier 2"` lives on.
"""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING

import pytest

from headrace.spark.on_demand import laptop_session
from tests.lives.drawing import ACTS, act, lives
from tests.lives.many import try_seed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIVES, A_TEST = int(os.environ.get("HEADRACE_WHOLE_LIVES", "10")), 2
FEW = (3, 5)
SEEDS = [
    pytest.param(seed, marks=() if seed in FEW else pytest.mark.long)
    for seed in range(1, 1 + LIVES // A_TEST)
]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_people_do_the_laws_hold_at_rest(spark: SparkSession, seed: int) -> None:
    done = try_seed(seed, A_TEST, spark=laptop_session(spark, "lives"))
    assert not done.failure, f"{done.reason}\n{done.failure}"


@pytest.mark.fast
def test_each_act_is_drawn_and_occurs_in_the_few() -> None:
    drawn = {type(act(number)) for number in range(len(ACTS))}
    assert len(drawn) == len({*ACTS})
    few = [life for seed in FEW for life in islice(lives(seed, acts=True), A_TEST)]
    assert drawn <= {type(step) for life in few for step in life.steps}

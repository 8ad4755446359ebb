"""Lives of the second tier: what people do to a lake at any moment, among all that befalls a life of the first.

HEADRACE_WHOLE_LIVES says how many there are here. `make lives ARGS="--tier 2"` lives on.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from headrace.spark.on_demand import laptop_session
from tests.lives.drawing import act
from tests.lives.many import try_seed
from tests.lives.themes import ACTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIVES, A_TEST = int(os.environ.get("HEADRACE_WHOLE_LIVES", "10")), 2


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 1 + LIVES // A_TEST))
def test_whatever_people_do_the_laws_hold_at_rest(spark: SparkSession, seed: int) -> None:
    done = try_seed(seed, A_TEST, spark=laptop_session(spark, "lives"), swarm=False)
    assert not done.failure, f"{done.reason}\n{done.failure}"


@pytest.mark.fast
def test_each_act_is_drawn() -> None:
    assert len({type(act(number)) for number in range(len(ACTS))}) == len({*ACTS})

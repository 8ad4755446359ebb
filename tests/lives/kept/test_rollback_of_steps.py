"""A rollback brings back the steps without names that a node reads, so their logs count, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lives.one import live
from tests.lives.story import Change, Cut, GoBack, Life, Made, Retain, Send, Sent, Wait

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_nobody_goes_back_to_a_step_whose_log_was_cut_while_no_description_had_it(
    spark: SparkSession,
) -> None:
    """The step had no opening balance, so no backfill led to its rows, and it would have read on behind the cut."""
    life = Life(
        nodes=(
            Made(kind="time limit of the wall clock", number=9703),
            Made(kind="calm table", number=9604),
        ),
        begins=2,
        steps=(
            Send(
                records=(
                    Sent(topic="u", partition=1, key="a", at=-30000),
                    Sent(topic="t", partition=1, key="a", at=-30000),
                    Sent(topic="t", partition=1, key="a", at=-46500, value=-1, kind="tombstone"),
                    Sent(topic="u", partition=1, key="a", at=-30500, value=2),
                )
            ),
            Cut(commits=2),
            Change(node=1, number=26),
            Wait(ms=6000),
            Retain(topic="t"),
            GoBack(),
        ),
    )
    live(life, spark)

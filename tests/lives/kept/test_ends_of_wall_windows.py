"""The windows of a node of the wall clock end before their whole size has passed since the last record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.spark.on_demand import laptop_session
from tests.lives.one import live
from tests.lives.story import Cut, Erase, Life, Made, Rest, Send, Sent, Wait

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.fast
def test_a_reader_goes_on_once_the_last_window_has_ended() -> None:
    """The node promised its reader nothing until a whole window had passed since the record, and no tick came so late."""
    life = Life(
        nodes=(
            Made("batches", number=11902, follows=True),
            Made("windows of the wall clock", number=9232, follows=True),
            Made("merged batches", number=11514, follows=True),
        ),
        begins=3,
        steps=(
            Wait(6_000),
            Send((Sent("t", 0, "a", 82_000, 1),)),
            Cut(),
            Send((Sent("u", 0, "a", 103_500, 0),)),
            Wait(1_999),
            Cut(topics=(), commits=3),
        ),
    )
    live(life)


@pytest.mark.spark
def test_an_erasure_folds_readers_of_a_paused_node_as_far_as_they_have_read(spark: SparkSession) -> None:
    """Nothing waits in it, so it promises all before the next commit, although it rests."""
    life = Life(
        nodes=(
            Made("batches", number=6453, follows=True),
            Made("windows of the wall clock", number=341, follows=True),
            Made("merged batches", number=11556, follows=True),
        ),
        begins=3,
        steps=(Cut(topics=("u",)), Rest(1), Cut(commits=3), Erase("t", "a")),
    )
    live(life, laptop_session(spark, "lives"))

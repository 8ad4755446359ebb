"""The windows of a node of the wall clock end before their whole size has passed since the last record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.spark.on_demand import laptop_session
from tests.lives.one import live
from tests.lives.story import Cut, Erase, Life, Made, Rest, Send, Sent, Step, Wait

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


KINDS = "batches", "windows of the wall clock", "merged batches"


def life_of(numbers: tuple[int, int, int], *steps: Step) -> Life:
    """Each node reads the one before it, and the last one a topic beside it. In: numbers  their choices"""
    nodes = tuple(Made(kind, number=each, follows=True) for kind, each in zip(KINDS, numbers, strict=True))
    return Life(nodes=nodes, begins=3, steps=steps)


@pytest.mark.fast
def test_a_reader_goes_on_once_the_last_window_has_ended() -> None:
    """The node promised its reader nothing until a whole window had passed since the record, and no tick came so late."""
    life = life_of(
        (11902, 9232, 11514),
        Wait(6_000),
        Send((Sent("t", 0, "erase-me-7f3a", 82_000, 1),)),
        Cut(),
        Send((Sent("u", 0, "erase-me-7f3a", 103_500, 0),)),
        Wait(1_999),
        Cut(topics=(), commits=3),
    )
    live(life)


@pytest.mark.spark
def test_an_erasure_folds_readers_of_a_paused_node_as_far_as_they_have_read(spark: SparkSession) -> None:
    """Nothing waits in it, so it promises all before the next commit, although it rests."""
    steps = Cut(topics=("u",)), Rest(1), Cut(commits=3), Erase("t", "a")
    life = life_of((6453, 341, 11556), *steps)
    live(life, laptop_session(spark, "lives"))

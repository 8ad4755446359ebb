"""A log says when it holds what Kafka had at its first start."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from headrace.log.decisions.control import control_rows
from headrace.sequence.log_columns import COMPLETE
from tests.broker.harness import produce, running, transactional
from tests.broker.pipeline import minutes, reading

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.lake.paths import Lake
    from headrace.local.servers.broker import Broker

pytestmark = pytest.mark.broker


def test_markers_of_transactions_are_among_the_first_records_and_later_ones_are_not(
    spark: SparkSession, lake: Lake, kafka: Broker, new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(2)
    transactional(
        kafka, topic, ([*minutes(0, 0, 4)], True), ([reading(0, 9)], False)
    )  # offsets 5 to 7: no records
    with running(spark, lake, kafka, topic) as run:
        run.catch_up()
        run.poll_until(lambda _: bool(control_rows(run.log(), COMPLETE)))  # while it runs
        said = control_rows(run.log(), COMPLETE)
        produce(kafka, topic, minutes(1, 5, 9))
        run.poll_until(lambda _: len(run.offsets().get(1, ())) == 5)
    with running(spark, lake, kafka, topic) as run:
        run.catch_up()
    ((_, ends),) = control_rows(run.log(), "first_ends")
    assert json.loads(ends)["ends"] == {"0": 8, "1": 0}
    assert control_rows(run.log(), COMPLETE) == said
    assert len(said) == 1
    assert run.offsets() == {0: [0, 1, 2, 3, 4], 1: [0, 1, 2, 3, 4]}
    assert run.results() == run.recomputed()

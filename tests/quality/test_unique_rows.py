"""An appended row that stands twice in the lake is named by its place; rows of one key are told apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.operators.contract import OF_PLACE
from headrace.operators.registry import operator_for
from headrace.quality import node_checks
from headrace.quality.judgements.uniqueness import rows_are_unique
from headrace.quality.suites import judge
from headrace.spark.frames import local_frame
from tests.sinks.every_kind import KINDS

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

READINGS = hr.Topic("readings", key="sensor STRING", value="sensor STRING, value INT")
SCHEMA = "sensor STRING, value INT, __sequence BIGINT, __topic STRING, __partition INT, __offset BIGINT"
ROW = ("a", 1, 1_000, "readings", 0)


@pytest.mark.fast
def test_appended_rows_of_every_kind_of_node_are_claimed_to_be_unique() -> None:
    for kind, described in KINDS.items():
        node = described.named("it")
        if operator_for(node).identity == OF_PLACE:
            assert "rows_are_unique" in node_checks(node), kind


@pytest.mark.spark
def test_an_appended_row_that_stands_twice_is_named_by_its_place(spark: SparkSession, tmp_path: Path) -> None:
    """Before, nothing was claimed of these rows: a backfill alone showed that one was there twice."""
    node = READINGS.select("sensor", "value").named("large")
    sound = local_frame(spark, [(*ROW, offset) for offset in (1, 2)], SCHEMA)
    checks = {"sound": sound, "spoilt": sound.unionByName(sound.where("__offset = 2"))}
    claims, sentences = {}, {}
    for name, rows in checks.items():
        check = rows_are_unique(rows, node)
        assert check.claim is not None
        claims[name] = (check.claim, "", "")
        sentences[name] = check.explain(name == "sound").sentence
    assert {name: found.passed for name, found in judge(claims, tmp_path).items()} == {
        "sound": True,
        "spoilt": False,
    }
    assert sentences == {
        "sound": "Each of the 2 rows in large is the only one of its __sequence, __topic, __partition and __offset.",
        "spoilt": "1 row of large stands more than once, 1 row too many, first __sequence=1000, __topic=readings, "
        "__partition=0, __offset=2 (2 rows); backfill the table to leave one row of each.",
    }

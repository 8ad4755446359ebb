"""Two pipelines change their nodes in one lake: each goes on with its own act, and goes back over that one alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.changing.apply_changes import ApplyChanges
from headrace.changing.plan import UNCHANGED
from headrace.changing.plan_changes import plan_changes
from headrace.changing.roll_back import roll_back
from headrace.log.site import Site
from tests.changing.living import Living

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headrace.description import Node

pytestmark = pytest.mark.spark

READINGS = hr.Topic("readings", key="sensor STRING", value="value DOUBLE", idle_timeout=None)


class DiedError(Exception):
    """The process is gone."""


def pipeline(name: str, least: int) -> list[Node]:
    return [READINGS.where(f"value > {least}").group_by("sensor").aggregate(n=hr.count()).named(name)]


def die(reached: str) -> None:
    if reached == "after rules":
        raise DiedError(reached)


def test_an_act_that_was_broken_off_stands_when_another_pipeline_has_applied_its_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Before, it went on with another `emit`, and a rollback put back the tables of the other pipeline."""
    living = Living(spark, tmp_path / "lake", READINGS)
    living.commit((0, "a", 1), (1, "b", 5), (2, "a", 9))
    before, after = pipeline("ours", 0), pipeline("ours", 4)
    living.fold(before)
    living.fold(pipeline("theirs", 0))
    old, site = living.tables(before), Site(spark, living.lake, living.clock)
    with pytest.raises(DiedError):
        ApplyChanges(Site(spark, living.lake, living.clock, die), after, emit="differences").run()
    ApplyChanges(site, pipeline("theirs", 4)).run()
    with pytest.raises(hr.TerminalError, match="was begun with emit='differences'"):
        ApplyChanges(site, after)
    assert roll_back(spark, living.lake, living.clock, nodes=after) == ["ours"]
    assert living.tables(before) == old
    with pytest.raises(hr.TerminalError, match="nothing to go back to"):
        roll_back(spark, living.lake, living.clock, nodes=before)
    theirs = pipeline("theirs", 4)
    assert living.tables(theirs) == living.tables_anew(theirs)
    assert roll_back(spark, living.lake, living.clock, nodes=theirs) == ["theirs"]


def test_a_log_is_written_again_that_only_a_node_reads_which_awaits_another_pipeline(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Before, `headrace apply` ended as by an error of Headrace."""
    living = Living(spark, tmp_path / "lake", READINGS)
    living.commit((0, "a", 1), (1, "b", 5))
    now = replace(READINGS, value="celsius DOUBLE", renamed={"celsius": "value"})
    sites = hr.node("sites", schema="sensor STRING, site STRING", key=["sensor"], kind="table")
    after = [now.lookup(sites, on="sensor").named("placed")]
    done = ApplyChanges(Site(spark, living.lake, living.clock), after).run()
    assert done.rewritten == ("readings",)
    assert [each.outcome for each in plan_changes(living.lake, after).topics] == [UNCHANGED]

"""Resetting a guard from outside a stream: with the topic's lease, and in force from there on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

import headrace as hr
from headrace.cli import commands as cli
from headrace.lifecycle.log_repair import guards
from headrace.log.clock import SystemClock
from headrace.log.sequencer import Sequencer
from headrace.testing.piped import PipedTopic
from headrace.writing.leases.lease import LeaseTakenError, take_lease

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.lake.paths import Lake

SCREWS = hr.Topic("screws", value="n INT", replay_guard=hr.ReplayGuard())


def refused(spark: SparkSession, lake: Lake) -> bool:
    """Whether the record of orders/0 at offset 5 is refused when it comes now."""
    sequencer = Sequencer(spark, SCREWS, lake.log("screws"), SystemClock())
    piped = PipedTopic(SCREWS, {p: s.next_offset for p, s in sequencer.state.partitions.items()})
    offset = piped.add(
        None, b'{"n": 1}', 1_714_564_800_000, 0, {"source-chain": json.dumps([["orders", 0, 5]])}
    )
    raw = piped.take(spark)
    assert raw is not None
    sequencer.append(raw)
    (row,) = spark.read.format("delta").load(lake.log("screws")).where(f"offset = {offset}").collect()
    return bool(row["replay"])


@pytest.mark.spark
def test_a_reset_takes_the_topics_lease_and_gives_it_back(spark: SparkSession, lake: Lake) -> None:
    assert [refused(spark, lake), refused(spark, lake)] == [False, True]
    held = take_lease(spark, lake.lease("log/screws"), "Log 'screws'", SystemClock())
    with pytest.raises(LeaseTakenError):
        guards.reset_guard(spark, lake, SCREWS, "orders")
    held.release()
    assert guards.reset_guard(spark, lake, SCREWS, "orders") == [0]
    assert [refused(spark, lake), refused(spark, lake)] == [False, True]


@pytest.mark.fast
def test_the_command_says_what_was_forgotten_and_which_topics_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def reset(*given: object) -> list[int]:
        asked.append(given[2:])
        return [3]

    monkeypatch.setattr(guards, "reset_guard", reset)
    monkeypatch.setattr("headrace.cli.console.deployment.session", lambda lake: None)
    monkeypatch.setattr("headrace.nodes.descriptions.topics.topics_of", lambda nodes: {"screws": SCREWS})
    done = CliRunner().invoke(cli.app, ["reset-guard", "screws", "orders", "--partition", "3"])
    assert (done.exit_code, asked) == (0, [(SCREWS, "orders", 3)])
    assert "all that was seen of orders partition 3 is forgotten from here on" in done.output
    wrong = CliRunner().invoke(cli.app, ["reset-guard", "nails", "orders"])
    assert wrong.exit_code != 0
    assert "screws" in wrong.output

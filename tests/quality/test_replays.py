"""What the checks say of a guarded log: healthy, tampered with, replayed, and with a root that was created anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

import headrace as hr
from headrace.lake.paths import Lake
from headrace.log.clock import ManualClock
from headrace.log.sequencer import Sequencer
from headrace.quality import CheckResult, Thresholds, check_log, log_checks
from headrace.testing.piped import PipedTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
NOON_MS = 1_714_564_800_000  # 2024-05-01 12:00 UTC
MINUTE_MS = 60_000
HALF = Thresholds(replay_ratio_max=0.5, refused_in_a_row_max=3)


class Screws:
    """A guarded log and the checks upon it."""

    def __init__(self, spark: SparkSession, folder: Path, guard: hr.ReplayGuard) -> None:
        self.topic = hr.Topic("screws", value="n INT", replay_guard=guard)
        self.spark, self.lake, self.docs = (
            spark,
            Lake(f"file:{folder}/lake"),
            folder / "docs",
        )
        self.clock, self.piped = ManualClock(NOON_MS), PipedTopic(self.topic, {})
        self.sequencer = Sequencer(self.spark, self.topic, self.lake.log("screws"), self.clock)

    def send(self, *root_offsets: int, minute: int = 0, value: bytes = b'{"n": 1}') -> None:
        """Commit records of orders/0, a minute apart."""
        for number, offset in enumerate(root_offsets):
            header = json.dumps([["orders", 0, offset]])
            stamp = NOON_MS + (minute + number) * MINUTE_MS
            self.piped.add(None, value, stamp, 0, {"source-chain": header})
        self.clock.set(NOON_MS + minute * MINUTE_MS)
        self.sequencer.append(self.piped.take_here())

    def check(self, thresholds: Thresholds = HALF) -> dict[str, CheckResult]:
        found = check_log(self.spark, self.lake, self.topic, str(self.docs), thresholds=thresholds)
        return {result.name: result for result in found}

    def replays(self) -> list[int]:
        """The offsets of the records refused."""
        log = self.spark.read.format("delta").load(self.lake.log("screws"))
        return [row["offset"] for row in log.where("replay").orderBy("offset").collect()]


@pytest.fixture
def screws(spark: SparkSession, tmp_path: Path) -> Screws:
    return Screws(spark, tmp_path, hr.ReplayGuard())


def test_replays_are_named_with_root_and_stretch_and_the_guard_is_in_order(screws: Screws) -> None:
    screws.send(10, 11, 12)
    screws.send(11, 12, 13, minute=5)
    results = screws.check()
    assert list(results) == list(log_checks(screws.topic))
    assert [result.sentence for result in results.values() if not result.passed] == []
    assert results["no_duplicate_replay"].sentence == (
        "Each of the 4 records that the guard of screws took has a source position of its own, and 2 replays reached no result."
    )
    assert results["guard_is_advancing"].sentence == (
        "All records that the guard of screws refused were replays: no root was created again."
    )
    few = screws.check(Thresholds(replay_ratio_max=0.1))["replays_below"]
    assert (few.passed, few.severity) == (False, "warn")
    assert few.sentence == (
        "2 of 6 records delivered are replays, 33.33% where 10.00% may be, most of them (2) of orders partition 0, offsets 11 "
        "to 12, which came between 2024-05-01 12:05 UTC and 2024-05-01 12:05 UTC; find out what sends them again, or raise "
        "replay_ratio_max."
    )
    page = Path(few.report or "").read_text()
    assert "What was replayed" in page
    assert "<td>orders partition 0</td><td>2</td><td>11</td><td>12</td><td>2024-05-01 12:05 UTC</td>" in page


def test_a_position_that_was_written_twice_is_found_and_named(screws: Screws) -> None:
    screws.send(10, 11)
    screws.send(10, minute=5)
    log = screws.lake.log("screws")
    row = screws.spark.read.format("delta").load(log).where("offset = 2").withColumn("replay", F.lit(False))
    row.withColumn("offset", F.lit(9).cast("long")).write.format("delta").mode("append").save(log)
    duplicate = screws.check()["no_duplicate_replay"]
    assert (duplicate.passed, duplicate.severity) == (False, "error")
    assert duplicate.sentence.startswith(
        "1 source position of the log of screws stands more than once, 1 row too many among the records taken, first "
        "orders/0>screws/0 offset 10; the guard never takes one twice"
    )


def test_a_root_created_anew_fails_until_the_guard_is_reset(screws: Screws) -> None:
    screws.send(0, 1, 2, 3, 4)
    screws.send(0, 1, 2, minute=10)
    assert screws.check()["guard_is_advancing"].passed, "three in a row are not yet many"
    screws.send(3, minute=13)
    anew = screws.check()["guard_is_advancing"]
    assert (anew.passed, anew.severity) == (False, "error")
    assert anew.sentence.startswith(
        "orders partition 0 has probably been created again: the last 4 records of it in the log of screws were refused as "
        "replays (offsets 0 to 3) although they are dated 2024-05-01 12:10 UTC to 2024-05-01 12:13 UTC, beyond all that was "
        "taken; stop the stream, run `headrace reset-guard screws orders --partition 0`, and have them sent again."
    )
    assert screws.sequencer.reset_guard("orders", 0) == [0]
    assert screws.check()["guard_is_advancing"].passed
    screws.send(0, 1, 2, 3, minute=20)
    results = screws.check()
    assert [result.sentence for result in results.values() if not result.passed] == []
    assert screws.replays() == [5, 6, 7, 8]


def test_old_records_sent_again_are_no_root_created_anew(screws: Screws) -> None:
    screws.send(*range(8))
    screws.send(*range(6), minute=1)
    assert screws.check(Thresholds(replay_ratio_max=1.0, refused_in_a_row_max=3))["guard_is_advancing"].passed


def test_a_republisher_that_reorders_is_found_out(screws: Screws) -> None:
    screws.send(0, 1, 3, 2)
    screws.send(5, minute=9)
    unseen = screws.check()["guard_is_advancing"]
    assert not unseen.passed
    assert unseen.sentence.startswith(
        "1 source position of orders partition 0 (offsets 2 to 2) came to screws out of order, or had been dead letters when "
        "first sent: refused without ever being taken; give the guard mode='exact'"
    )


def test_what_the_exact_guard_had_to_forget_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    screws = Screws(spark, tmp_path, hr.ReplayGuard(mode="exact", max_gaps=2))
    screws.send(0, 4, 2, 2, 6)
    screws.send(1, 5, 0, minute=9)
    assert screws.replays() == [3, 5, 7]
    results = screws.check()
    assert results["no_duplicate_replay"].passed
    unseen = results["guard_is_advancing"]
    assert not unseen.passed
    assert unseen.metadata["refused_unseen"] == 1
    assert unseen.sentence.startswith(
        "1 source position of orders partition 0 (offsets 1 to 1) came to screws when the guard had forgotten what lies so "
        "low: refused without ever being taken; raise max_gaps above 2"
    )


def test_a_log_that_holds_nothing_yet_has_nothing_to_judge(screws: Screws) -> None:
    results = screws.check()
    assert [result.sentence for result in results.values() if not result.passed] == []
    assert "no record yet" in results["guard_is_advancing"].sentence


@pytest.mark.parametrize("mode", ["monotone", pytest.param("exact", marks=pytest.mark.long)])
def test_outputs_of_one_input_without_ordinals_are_no_replays(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    screws = Screws(spark, tmp_path, hr.ReplayGuard(mode=mode))
    for offset in range(50):
        for output in (b'{"n": 1}', b'{"n": 2}'):
            header = json.dumps([["orders", 0, offset]])
            screws.piped.add(None, output, NOON_MS + offset, 0, {"source-chain": header})
        if offset % 7 == 0:
            screws.sequencer.append(screws.piped.take_here())
    screws.sequencer.append(screws.piped.take_here())
    results = screws.check()
    assert screws.replays() == []
    found = results["guard_is_advancing"]
    assert (found.passed, found.metadata["ambiguous_chain"]) == (False, 50)
    assert found.sentence.startswith(
        "50 records of screws (first: partition 0 offset 1) came with the source chain of another record and with other "
        "bytes: a service makes several outputs of one input."
    )
    assert "Number the outputs" in found.sentence
    assert results["replays_below"].passed
    log = spark.read.format("delta").load(screws.lake.log("screws"))
    letters = log.where("kind = 'dead_letter'").select("raw_value", "reason").collect()
    assert {bytes(row["raw_value"]) for row in letters} == {b'{"n": 2}'}
    assert all(row["reason"].startswith("ambiguous_chain: ") for row in letters)

    screws.sequencer.reset_guard("orders")
    for offset in range(50):
        for ordinal, output in enumerate((b'{"n": 1}', b'{"n": 2}')):
            header = json.dumps([["orders", 0, offset, ordinal]])
            screws.piped.add(None, output, NOON_MS + offset, 0, {"source-chain": header})
    screws.sequencer.append(screws.piped.take_here())
    results = screws.check()
    assert results["guard_is_advancing"].passed, "the outputs are numbered"
    assert screws.replays() == []

"""Streams without state as nodes: values become integers, are filtered, and branch; one branch goes to a sink.

The example is that of Kafka's processor client proposal (KIP-28) for its DSL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.quality import check_node
from tests.scenarios.timeline import MINUTE

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from headrace.sinks import Delivery
    from tests.conftest import Drive


WORDS = hr.Topic("words", value="text STRING", idle_timeout=None)
NUMBERS = WORDS.with_column("n", "CAST(text AS INT)").select("n").where("n % 2 = 0")


class Sent:
    """A sink that keeps each row by its place."""

    name = "sent"

    def __init__(self) -> None:
        self.rows: dict[tuple[int, bytes], int] = {}

    def deliver(self, rows: Any, delivery: Delivery) -> None:
        raise AssertionError("few rows start no Spark")

    def deliver_table(self, rows: pa.Table, delivery: Delivery) -> None:
        for row in rows.to_pylist():
            assert not row["__deleted"]
            self.rows[row["__sequence"], bytes(row["__place"])] = row["n"]


@pytest.mark.spark
def test_values_are_cast_filtered_and_branched_and_one_branch_goes_to_a_sink(
    drive: Drive, tmp_path: Path
) -> None:
    sent = Sent()
    large, small = NUMBERS.branch("n > 10", "n <= 10")
    driver = drive(large.to(sent).named("large"), small.named("small"), WORDS.named("all_words"))
    for number, text in enumerate(("4", "12", "7", "many", "10", "40", None, "12")):
        value = None if text is None else {"text": text}
        driver.pipe("words", value=value, timestamp_ms=number * MINUTE, partition=number % 2)
        if number == 3:
            driver.crash("after outputs", "large")
            driver.cut()
    driver.pipe("words", value=b"{", timestamp_ms=9 * MINUTE)
    driver.cut()
    assert sorted(row["n"] for row in driver.rows("large")) == [12, 12, 40]
    assert sorted(row["n"] for row in driver.rows("small")) == [4, 10]
    assert len(driver.rows("all_words")) == 7
    assert [n for _, n in sorted(sent.rows.items())] == [12, 40, 12]
    assert driver.fates("large") == {"used": 3, "filtered": 4, "tombstone": 1, "dead_letter": 1}
    for node in (large.named("large"), small.named("small"), WORDS.named("all_words")):
        name = node.required_name
        driver.check(name)
    judged = check_node(driver.spark, driver._lake, large.named("large"), str(tmp_path))
    assert [result.sentence for result in judged if not result.passed] == []


@pytest.mark.fast
def test_a_name_changes_nothing_of_what_is_made_of_the_stream(drive: Drive) -> None:
    readings = hr.Topic("readings", key="sensor STRING", value="value INT", idle_timeout=None)
    kept = readings.where("value > 0")
    totals = [
        stream.group_by("sensor").aggregate(total=hr.sum("value")) for stream in (kept.named("kept"), kept)
    ]
    driver = drive(kept.named("kept"), totals[0].named("of_named"), totals[1].named("of_stream"))
    assert totals[0].named("t").fingerprint() == totals[1].named("t").fingerprint()
    for value in (1, -1, 5):
        driver.pipe("readings", key="s", value={"value": value}, timestamp_ms=value * MINUTE)
    driver.cut()
    assert driver.rows("of_named") == driver.rows("of_stream")
    assert [row["total"] for row in driver.rows("of_named")] == [6]

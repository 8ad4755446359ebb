"""Running aggregates, one fact each."""

from __future__ import annotations

import statistics
from typing import Any

import pytest

import headrace as hr
from tests.conftest import Drive
from tests.laws import tables

pytestmark = pytest.mark.fast

SECOND = 1_000


def totals(topic: hr.Topic) -> Any:
    return (
        topic.where("value IS NULL OR value >= 0")
        .group_by()
        .aggregate(
            n=hr.count(),
            total=hr.sum("value"),
            lowest=hr.min("value"),
            highest=hr.max("value"),
            mean=hr.avg("value"),
            spread=hr.variance("value"),
            deviation=hr.stddev("value"),
            oldest=hr.first("value"),
            newest=hr.last("value"),
            some=hr.collect("value", max_items=3),
        )
        .named("totals")
    )


def test_totals_are_current_streamed_folded_crashed_and_backfilled(drive: Drive) -> None:
    topic = hr.Topic("readings", key="sensor STRING", value="value DOUBLE")
    driver = drive(totals(topic))
    values: dict[str, list[float | None]] = {"a": [], "b": []}
    for cut in range(6):
        for number in range(3):
            key = "b" if number == 2 else "a"
            value = None if (cut, number) == (2, 0) else 10**8 + cut + number / 8
            values[key].append(value)
            driver.pipe(
                "readings",
                key=key,
                value={"value": value},
                timestamp_ms=(9 - cut) * SECOND,
                partition=number % 2,
            )
        driver.pipe("readings", key="a", value={"value": -1}, timestamp_ms=0)
        driver.pipe("readings", key="a", value={"value": 1e20}, timestamp_ms=0)
        if cut in (1, 4):
            driver.crash("after state" if cut == 1 else "before outputs")
        driver.cut()
        read = {row["sensor"]: row for row in driver.rows("totals")}
        for key, seen in values.items():
            known = [value for value in seen if value is not None]
            row = read[key]
            assert (row["n"], row["total"], row["lowest"], row["highest"]) == (
                len(seen), sum(known), min(known), max(known),
            )  # fmt: skip
            assert row["mean"] == sum(known) / len(known)
            if len(known) > 1:
                assert row["spread"] == pytest.approx(statistics.variance(known), rel=1e-9)
                assert row["deviation"] == pytest.approx(statistics.stdev(known), rel=1e-9)
    driver.check("totals")
    folded = {row["sensor"]: row for row in driver.updates("totals")}
    assert {key: {k: v for k, v in row.items() if k != "__batch"} for key, row in folded.items()} == read
    ledger = tables.ledger(driver.ledger("totals"))
    assert sum(ledger.values()) == 30
    assert ledger[0, "filtered"] == ledger[0, "dead_letter"] == 6
    assert driver.dead_letters("readings")[0]["reason"] == "out of range: value for variance spread"

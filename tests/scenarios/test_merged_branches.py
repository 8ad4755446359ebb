"""Branches of one topic after different steps, merged: a record is there once for each that lets it pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import headrace as hr

if TYPE_CHECKING:
    from tests.conftest import Drive

pytestmark = pytest.mark.fast

BOOKINGS = hr.Topic("bookings", key="account STRING", value="amount INT", idle_timeout=None)
FEES = hr.Topic("fees", key="account STRING", value="amount INT", idle_timeout=None)
LARGE = BOOKINGS.where("amount >= 10").select("account", "amount", "'large' AS kind")
EVEN = BOOKINGS.where("amount % 2 = 0").select("account", "amount * 100 AS amount", "'even' AS kind")
FEE = FEES.select("account", "amount", "'fee' AS kind")


def test_a_record_is_there_once_for_each_branch_and_a_dead_letter_once(drive: Drive) -> None:
    """By hand: 10 is large and even, 11 large, 4 even, 3 neither; a malformed one is none of them."""
    driver = drive(LARGE.merge(EVEN).named("both"))
    for amount in (10, 3, 11):
        driver.pipe("bookings", key="a", value={"amount": amount}, timestamp_ms=1_000)
    driver.crash("after outputs")
    driver.cut()
    driver.pipe("bookings", key="a", value=b"{", timestamp_ms=1_000)
    driver.pipe("bookings", key="b", value={"amount": 4}, timestamp_ms=2_000)
    driver.cut()
    rows = [(row["account"], row["amount"], row["kind"]) for row in driver.rows("both")]
    assert sorted(rows) == [("a", 10, "large"), ("a", 11, "large"), ("a", 1000, "even"), ("b", 400, "even")]
    assert driver.fates("both") == {"used": 4}  # of the rows that the step without a name gives
    (dead,) = driver.dead_letters("bookings")
    assert (dead["offset"], dead["reason"]) == (3, "malformed value: not a JSON object")
    driver.check("both")


def test_windows_over_branches_and_another_topic_wait_for_both_topics(drive: Drive) -> None:
    """By hand: window 0-60 s holds 10 (twice: 10 and 1000) and the fee 1; it closes when fees are at 70 s, too."""
    sums = (
        LARGE.merge(EVEN.merge(FEE))
        .group_by("account")
        .window(hr.tumbling("1 minute"), grace="0 seconds")
        .aggregate(n=hr.count(), total=hr.sum("amount"))
        .suppress(hr.until_window_closes())
        .named("sums")
    )
    driver = drive(sums)
    driver.pipe("bookings", key="a", value={"amount": 10}, timestamp_ms=5_000)
    driver.pipe("fees", key="a", value={"amount": 1}, timestamp_ms=6_000)
    driver.pipe("bookings", key="a", value={"amount": 12}, timestamp_ms=70_000)
    driver.cut()
    assert driver.rows("sums") == []
    driver.pipe("fees", key="a", value={"amount": 2}, timestamp_ms=70_000)
    driver.cut()
    (row,) = driver.rows("sums")
    assert (row["n"], row["total"]) == (3, 1011)
    driver.check("sums")

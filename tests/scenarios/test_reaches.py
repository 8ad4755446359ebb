"""The record with which an aggregate reaches a number, by hand and against a count in plain Python."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from tests.description.refusal import refused

if TYPE_CHECKING:
    from tests.conftest import Drive

pytestmark = pytest.mark.fast

LOGINS = hr.Topic("logins", key="user STRING", value="ok BOOLEAN, amount INT", idle_timeout=None)
BY_USER = LOGINS.group_by("user")
MINUTE = 60_000


def minutes(row: dict[str, Any]) -> tuple[int, int]:
    return int(row["window_start"].timestamp()) // 60, int(row["window_end"].timestamp()) // 60


def test_the_third_failure_within_an_hour_is_told_once_and_at_once(drive: Drive) -> None:
    """By hand: failures at 1, 50, 55 and 58 in the hour from 0: the third is 55. 61 and 62 are two of the next hour.

    59 comes while the clock is at 62 and the grace is five minutes, so it counts in the first hour, where nothing follows;
    2 comes at 66, and is late. The third of the second hour is 70. A success never counts.
    """
    hours = BY_USER.window(hr.tumbling("1 hour"), grace="5 minutes")
    node = hours.reaches(3, hr.count(where="NOT ok")).named("failing")
    driver = drive(node)
    cuts = [[1, 50], [55], [58, 61], [62, 59], [66, 2], [70]]
    for number, some in enumerate(cuts):
        for minute in some:
            value = {"ok": minute == 66, "amount": minute}
            driver.pipe("logins", key="ann", value=value, timestamp_ms=minute * MINUTE)
        if number in (1, 3):
            driver.crash("after outputs")
        driver.cut()
        if number == 1:  # at once: the hour is not over
            assert [row["amount"] for row in driver.rows("failing")] == [55]
    rows = driver.rows("failing")
    assert [(row["amount"], *minutes(row), row["reached"]) for row in rows] == [
        (55, 0, 60, 3),
        (70, 60, 120, 3),
    ]
    driver.check("failing")
    assert {*driver.fates("failing")} == {"used"}


def test_a_sum_that_falls_takes_nothing_back_and_is_not_reached_again(drive: Drive) -> None:
    """By hand: ann's sums are 6, 11 (reached), 2, 22; bob's 9, 9 (null), 10 (reached)."""
    driver = drive(BY_USER.reaches(10, hr.sum("amount")).named("rich"))
    for user, amount in [
        ("ann", 6),
        ("bob", 9),
        ("ann", 5),
        ("ann", -9),
        ("bob", None),
        ("ann", 20),
        ("bob", 1),
    ]:
        driver.pipe("logins", key=user, value={"ok": True, "amount": amount}, timestamp_ms=0)
        driver.cut()
    rows = sorted((row["user"], row["amount"], row["reached"]) for row in driver.rows("rich"))
    assert rows == [("ann", 5, 11), ("bob", 1, 10)]
    driver.check("rich")


def test_decimals_are_added_exactly(drive: Drive) -> None:
    prices = hr.Topic("prices", key="item STRING", value="price DECIMAL(9, 1)", idle_timeout=None)
    driver = drive(prices.group_by("item").reaches(Decimal("0.3"), hr.sum("price")).named("rich"))
    for _ in range(4):
        driver.pipe("prices", key="a", value={"price": 0.1}, timestamp_ms=0)
    driver.cut()
    (row,) = driver.rows("rich")
    assert row["reached"] == Decimal("0.3")
    driver.check("rich")


def test_decimals_of_many_digits_are_added_exactly(drive: Drive) -> None:
    """Before, sums had 28 digits: this one was rounded below the number, and another one up to it."""
    prices = hr.Topic("prices", key="item STRING", value="price DECIMAL(38, 18)", idle_timeout=None)
    half, price, more = (
        Decimal(f"{number}00000000000000000{end}")
        for number, end in [("9999999999.", 1), ("19999999998.", 2), ("19999999998.", 3)]
    )
    by_item = prices.group_by("item")
    driver = drive(
        by_item.reaches(price, hr.sum("price")).named("rich"),
        by_item.reaches(more, hr.sum("price")).named("richer"),
    )
    for _ in range(2):
        driver.pipe("prices", key="a", value=f'{{"price": {half}}}', timestamp_ms=0)
    driver.cut()
    assert [row["reached"] for row in driver.rows("rich")] == [price]
    assert driver.rows("richer") == []
    for name in ("rich", "richer"):
        driver.check(name)


@pytest.mark.parametrize(
    ("of", "amounts", "number", "reached"),
    [
        ("BIGINT", [5 * 10**18, 5 * 10**18, -(10**18)], 6 * 10**18, [(1, None)]),
        ("BIGINT", [2**62, 2**62 - 1, 1], 2**63 - 1, [(1, 2**63 - 1)]),
        ("BIGINT", [2**62, 2**62, 1], 2**64, []),
        ("BIGINT", [-(2**63), -(2**63), 2**62, 2**62, 2**62, 2**62, 7], 7, [(6, 7)]),
        ("DECIMAL(38, 0)", [9 * 10**37, 9 * 10**37, 5], 10**38, [(1, None)]),
        ("DECIMAL(38, 0)", [-9 * 10**37, -9 * 10**37, 9 * 10**37, 9 * 10**37, 7], 7, []),
    ],
)  # fmt: skip
@pytest.mark.parametrize("together", [True, False])
def test_a_sum_that_does_not_fit_is_null(
    drive: Drive, of: str, amounts: list[int], number: int, reached: list[Any], together: bool
) -> None:
    """Before, it stopped the node. Beyond 38 digits, by which sums are kept, nothing more is reached."""
    topic = hr.Topic("sums", key="item STRING", value=f"place INT, amount {of}", idle_timeout=None)
    driver = drive(topic.group_by("item").reaches(number, hr.sum("amount")).named("reached"))
    for place, amount in enumerate(amounts):
        driver.pipe("sums", key="a", value=f'{{"place": {place}, "amount": {amount}}}', timestamp_ms=0)
        if not together:
            driver.cut()
    driver.cut()
    assert [(row["place"], row["reached"]) for row in driver.rows("reached")] == reached
    driver.check("reached")


@pytest.mark.parametrize("of", [hr.sum("AMOUNT"), hr.count("AMOUNT")])
def test_a_column_in_another_case_is_the_same(drive: Drive, of: Any) -> None:
    """Before, the first record stopped the node: it has no column of that spelling."""
    driver = drive(BY_USER.reaches(2, of).named("reached"))
    for _ in range(2):
        driver.pipe("logins", key="ann", value={"ok": True, "amount": 1}, timestamp_ms=0)
    driver.cut()
    assert [row["reached"] for row in driver.rows("reached")] == [2]


def test_no_window_begins_before_1970(drive: Drive) -> None:
    """As windows of `.aggregate`. Before, a record of second 2 was in a window from 1969, too."""
    windows = BY_USER.window(hr.hopping("10 seconds", "5 seconds"), grace=0)
    driver = drive(windows.reaches(1).named("reached"), windows.aggregate(n=hr.count()).named("counts"))
    driver.pipe("logins", key="ann", value={"ok": True, "amount": 1}, timestamp_ms=2_000)
    driver.cut()
    starts = [[row["window_start"] for row in driver.rows(name)] for name in ("reached", "counts")]
    assert starts == [[dt.datetime(1970, 1, 1, tzinfo=dt.UTC)]] * 2
    driver.check("reached")


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.slow
def test_on_random_logs_it_is_the_record_that_plain_counting_finds(drive: Drive, seed: int) -> None:
    """The count in Python goes through each partition with its stream time, window by window."""
    rng = random.Random(seed)
    size, advance, grace, number = 10, rng.choice([5, 10]), 3, rng.randint(1, 4)
    windows = hr.hopping(f"{size} minutes", f"{advance} minutes")
    node = BY_USER.window(windows, grace=f"{grace} minutes").reaches(number).named("reached")
    driver = drive(node)
    seen, clock = Counter[tuple[str, int]](), {0: 0, 1: 0}
    expected = []
    for index in range(60):
        user, minute = rng.choice("abc"), max(0, index // 2 + rng.randint(-8, 3))
        partition = ord(user) % 2
        driver.pipe(
            "logins",
            key=user,
            value={"ok": True, "amount": index},
            timestamp_ms=minute * MINUTE,
            partition=partition,
        )
        clock[partition] = max(clock[partition], minute)
        for start in range(0, minute + 1, advance):
            if start <= minute < start + size and start + size + grace > clock[partition]:
                seen[user, start] += 1
                if seen[user, start] == number:
                    expected.append((index, start, start + size))
        if rng.random() < 0.3:
            driver.cut()
    driver.cut()
    assert sorted((row["amount"], *minutes(row)) for row in driver.rows("reached")) == sorted(expected)
    driver.check("reached")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((1.5,), "is no whole number and no Decimal"),
        ((True,), "is no whole number and no Decimal"),
        ((3, hr.max("amount")), "neither hr.count(…) nor hr.sum(…)"),
        ((3, hr.sum("CAST(amount AS DOUBLE)")), "Add up exact numbers"),
        ((3, hr.sum("amont")), "amont"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: Any, words: str) -> None:
    with refused(words):
        BY_USER.reaches(*arguments)


def test_other_windows_and_several_partitions_are_refused_with_the_way_on() -> None:
    with refused("no tumbling or hopping window of event time"):
        BY_USER.window(hr.session("5 minutes"), grace=0).reaches(3)
    with refused("order="):
        LOGINS.group_by("ok").window(hr.tumbling("1 hour"), grace=0).reaches(3)
    node = LOGINS.group_by("ok").window(hr.tumbling("1 hour"), grace=0).reaches(3, order="time")
    assert (
        node.in_words
        == "The record with which count() reaches 3, by ok and tumbling window of 1 hour, grace 0 ms."
    )

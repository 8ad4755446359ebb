"""Values of the record before, and increases of counters: meters that start again, records out of order, null readings."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from random import Random
from typing import Any

import pytest

import headrace as hr
from headrace.testing import TestDriver

pytestmark = pytest.mark.fast

SECOND = 1_000
METERS = hr.Topic("meters", key="meter STRING", value="litres INT, place STRING", idle_timeout=None)
Reading = tuple[str, int | None, int]  # meter, litres, second


def play(driver: TestDriver, readings: list[Reading], cuts: set[int]) -> None:
    for number, (meter, litres, second) in enumerate(readings):
        value = {"litres": litres, "place": f"second {second}"}
        driver.pipe("meters", key=meter, value=value, timestamp_ms=second * SECOND)
        if number in cuts:
            driver.cut()
    driver.cut()


def told(driver: TestDriver, node: str, *columns: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[name] for name in columns) for row in driver.rows(node)), key=repr)


def test_a_meter_is_exchanged_and_a_reading_is_null() -> None:
    """Read 10, 14, nothing, 20, then 3 of the new meter, 5: used are 4, 6, 3 and 2."""
    used = METERS.group_by("meter").with_previous(before="litres", used=hr.increase("litres"))
    readings: list[Reading] = [("a", 10, 0), ("a", 14, 1), ("b", 7, 1), ("a", None, 2), ("a", 20, 3), ("a", 3, 4), ("a", 5, 5)]  # fmt: skip
    for cuts in (set[int](), {0, 1, 2, 3, 4, 5}, {2}):
        driver = TestDriver([used.named("used")])
        play(driver, readings, cuts)
        assert told(driver, "used", "meter", "litres", "before", "used", "place") == sorted(
            [
                ("a", 10, None, None, "second 0"), ("a", 14, 10, 4, "second 1"), ("b", 7, None, None, "second 1"),
                ("a", None, 14, None, "second 2"), ("a", 20, None, 6, "second 3"), ("a", 3, 20, 3, "second 4"),
                ("a", 5, 3, 2, "second 5"),
            ],
            key=repr,
        )  # fmt: skip
        driver.close()


def test_a_crash_and_a_second_delivery_count_nothing_twice() -> None:
    topic = hr.Topic("meters", key="meter STRING", value="litres INT", replay_guard=hr.ReplayGuard(), idle_timeout=None)  # fmt: skip
    used = topic.group_by("meter").with_previous(used=hr.increase("litres"))
    sums = used.group_by("meter").aggregate(total=hr.sum("used"))
    driver = TestDriver([used.named("used"), sums.named("sums")])
    for number, litres in enumerate((10, 14, 14, 20)):
        place = min(number, 1) if number < 3 else 2  # the third is the second again
        chain = {"source-chain": f'[["source", 0, {place}]]'}
        driver.pipe("meters", key="a", value={"litres": litres}, timestamp_ms=number, headers=chain)
        driver.crash("after outputs")
        driver.cut()
    assert told(driver, "sums", "meter", "total") == [("a", 10)]
    driver.close()


def test_in_the_order_of_time_a_reading_out_of_order_is_no_exchange() -> None:
    """Read at 1, 3, 2 and 9 s: 10, 30, 20, 40. In the log 20 would come after 30, as after an exchange."""
    by_time = METERS.group_by("meter").with_previous(
        before="litres", used=hr.increase("litres"), order="time", grace="2 seconds"
    )
    by_log = METERS.group_by("meter").with_previous(before="litres", used=hr.increase("litres"))
    readings: list[Reading] = [
        ("a", 10, 1),
        ("a", 30, 3),
        ("a", 20, 2),
        ("a", 40, 9),
        ("a", 35, 5),
        ("b", 1, 30),
    ]
    driver = TestDriver([by_time.named("by_time"), by_log.named("by_log")])
    play(driver, readings, {0, 2, 3})
    assert told(driver, "by_time", "litres", "before", "used") == sorted(
        [(10, None, None), (20, 10, 10), (30, 20, 10), (35, None, None), (40, 30, 10)], key=repr
    )
    # At once, in the log's order: readings that are older than the last one count for no increase.
    assert told(driver, "by_log", "litres", "before", "used") == sorted(
        [(10, None, None), (30, 10, 20), (20, 30, None), (40, 20, 10), (35, 40, None), (1, None, None)],
        key=repr,
    )
    driver.close()


def expected(readings: list[Reading]) -> list[tuple[Any, ...]]:
    """The rows in the log's order, by all readings of a meter before each one."""
    earlier, rows = defaultdict[str, list[tuple[int | None, int]]](list), []
    for meter, litres, second in readings:
        known = [each for each in earlier[meter] if each[0] is not None and each[0] >= 0]
        newest = max((at for _, at in known), default=None)
        used = None
        if litres is not None and litres >= 0 and newest is not None and second >= newest:
            last = [value for value, at in known if at == newest][-1]
            assert last is not None
            used = litres - last if litres >= last else litres
        before = earlier[meter][-1][0] if earlier[meter] else None
        earlier[meter].append((litres, second))
        rows.append((meter, litres, f"second {second}", before, used))
    return rows


@pytest.mark.parametrize("seed", range(4))
def test_random_readings_in_random_cuts(seed: int) -> None:
    random, readings = Random(seed), list[Reading]()
    for number in range(60):
        litres = random.choice([None, -1, 0, *range(9)])
        readings.append((random.choice("abc"), litres, max(0, number + random.randrange(-3, 3))))
    node = METERS.group_by("meter").with_previous(before="litres", used=hr.increase("litres")).named("used")
    driver = TestDriver([node])
    play(driver, readings, {random.randrange(60) for _ in range(12)})
    rows = told(driver, "used", "meter", "litres", "place", "before", "used")
    assert rows == sorted(expected(readings), key=repr)
    driver.close()


def test_columns_may_have_the_names_of_a_function_s_own_parameters() -> None:
    names = hr.Topic("names", key="key STRING", value="self INT, record INT", idle_timeout=None)
    driver = TestDriver([names.group_by("key").with_previous(name="self", row="record").named("before")])
    for number in (1, 2):
        driver.pipe("names", key="a", value={"self": number, "record": -number})
        driver.cut()
    assert told(driver, "before", "self", "name", "row") == [(1, None, None), (2, 1, -1)]
    driver.close()


def test_an_increase_of_a_decimal_has_all_of_its_digits() -> None:
    """Before, the oracle did not keep a reading of so many digits."""
    digits = "9" * 36
    meters = hr.Topic("exact", key="meter STRING", value="read DECIMAL(38,2)", idle_timeout=None)
    driver = TestDriver([meters.group_by("meter").with_previous(used=hr.increase("read")).named("used")])
    for read in ("0.01", f"{digits}.99"):
        driver.pipe("exact", key="a", value={"read": read})
        driver.cut()
    assert told(driver, "used", "used") == [(Decimal(f"{digits}.98"),), (None,)]
    driver.check("used")
    driver.close()

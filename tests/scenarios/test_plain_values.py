"""Keys and values that are one value without a name, as Kafka's own serializers write them."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest

import headrace as hr
from headrace.errors import TerminalError
from headrace.testing import TestDriver

pytestmark = pytest.mark.fast

MINUTE = 60_000
METERS = hr.Topic(
    "meters",
    key="meter INT",
    key_format=hr.Number("int32"),
    value="litres BIGINT",
    format=hr.Number("int64"),
    idle_timeout=None,
)


def test_windows_of_numbers_by_numbers() -> None:
    """Meter 7 counts 5 + 6 litres in the first two minutes, then a value of four bytes, which no int64 has."""
    window = METERS.group_by("meter").window(hr.tumbling("2 minutes"), grace=0)
    sums = window.aggregate(n=hr.count(), total=hr.sum("litres")).suppress(hr.until_window_closes())
    driver = TestDriver([sums.named("sums")])
    records: list[tuple[Any, Any, int]] = [
        (7, 5, 0),
        (pack(">i", 7), pack(">q", 6), 1),
        (7, pack(">i", 6), 1),
        ({"meter": 8}, {"litres": -(2**63)}, 1),
        (7, 9, 2),
    ]
    for key, value, minute in records:
        driver.pipe("meters", key=key, value=value, timestamp_ms=minute * MINUTE)
        driver.cut()
    rows = [(row["meter"], row["n"], row["total"]) for row in driver.rows("sums")]
    assert sorted(rows) == [(7, 2, 11), (8, 1, -(2**63))]
    driver.close()


def test_a_key_of_digits_is_the_number_and_its_object_is_the_same_key() -> None:
    """Before, the key `1234` of an INT column was a dead letter."""
    orders = hr.Topic("orders", key="customer INT", value="price DOUBLE")
    driver = TestDriver(
        [orders.table().named("newest"), orders.group_by().aggregate(n=hr.count()).named("counts")]
    )
    for key, price in ((b"1234", 1.0), (1234, 2.0), ({"customer": 1234}, 3.0), (b"12x", 4.0)):
        driver.pipe("orders", key=key, value={"price": price})
    driver.cut()
    assert driver.rows("counts") == [{"customer": 1234, "n": 3}]
    assert [(row["customer"], row["price"]) for row in driver.rows("newest")] == [(1234, 3.0)]
    driver.close()


def test_a_tombstone_of_a_table_by_bytes() -> None:
    pictures = hr.Topic(
        "pictures",
        key="name BINARY",
        key_format=hr.Bytes(),
        value="content BINARY",
        format=hr.Bytes(),
    )
    driver = TestDriver([pictures.table().named("current")])
    for key, value in ((b"\xff", b"\x00"), (b"a", b""), (b"\xff", None)):
        driver.pipe("pictures", key=key, value=value)
        driver.cut()
    assert [(row["name"], row["content"]) for row in driver.rows("current")] == [(b"a", b"")]
    driver.close()


def test_a_driver_refuses_what_is_no_number() -> None:
    driver = TestDriver([METERS.group_by().aggregate(n=hr.count()).named("counts")])
    with pytest.raises(hr.TerminalError, match="Topic 'meters': the key 2147483648 is no int32"):
        driver.pipe("meters", key=2**31, value=1)
    driver.close()


@pytest.mark.parametrize("key", [b"123\n", b"\n12 ", b" 1\r\n", b"\n123456\n"])
def test_a_number_with_a_newline_is_json_although_it_has_the_length_of_a_number(key: bytes) -> None:
    """Before, `123` and a newline, which is four bytes, was a dead letter of an INT column."""
    of = "BIGINT" if len(key) == 8 else "INT"
    orders = hr.Topic("orders", key=f"customer {of}", value="price DOUBLE")
    driver = TestDriver([orders.group_by("customer").aggregate(n=hr.count()).named("counts")])
    driver.pipe("orders", key=key, value={"price": 1.0})
    driver.cut()
    assert driver.rows("counts") == [{"customer": int(key), "n": 1}]
    driver.close()


def test_a_number_is_no_value_of_a_topic_of_bytes() -> None:
    """Before, the value 3 was sent as three zero bytes."""
    pictures = hr.Topic("pictures", value="picture BINARY", format=hr.Bytes())
    driver = TestDriver([pictures.named("rows")])
    with pytest.raises(TerminalError, match="the value 3 is no bytes"):
        driver.pipe("pictures", value=3)
    driver.pipe("pictures", value=bytearray(b"\x00\xff"))  # type: ignore[arg-type]
    driver.cut()
    assert [row["picture"] for row in driver.rows("rows")] == [b"\x00\xff"]
    driver.close()

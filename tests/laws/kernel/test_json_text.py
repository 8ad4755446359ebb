"""Values as JSON: what Spark's `to_json` writes, for these texts are parts of stored names."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.fold.values.json_text import json_objects, json_values

pytestmark = pytest.mark.fast

UTC = datetime.UTC
STRUCT = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])
WRITTEN: list[tuple[Any, pa.DataType, str]] = [
    ('a"\\\n\x1f/é', pa.string(), '"a\\"\\\\\\n\\u001F/é"'),
    (-7, pa.int64(), "-7"),
    (True, pa.bool_(), "true"),
    (Decimal("1.50"), pa.decimal128(9, 2), "1.50"),
    (datetime.date(1969, 12, 31), pa.date32(), '"1969-12-31"'),
    (datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), pa.timestamp("us", "UTC"), '"1969-12-31T23:59:59.999Z"'),
    (datetime.datetime(2026, 1, 2, 3, 4, 5), pa.timestamp("us"), '"2026-01-02T03:04:05.000"'),
    (b"ab", pa.binary(), '"YWI="'),
    (100.0, pa.float64(), "100.0"),
    (1e7, pa.float64(), "1.0E7"),
    (0.00025, pa.float64(), "2.5E-4"),
    (-123456.789, pa.float64(), "-123456.789"),
    (0.1, pa.float32(), "0.1"),
    (float("nan"), pa.float64(), '"NaN"'),
    (float("-inf"), pa.float64(), '"-Infinity"'),
    ({"x": None, "y": ["a", None]}, STRUCT, '{"y":["a",null]}'),
    ([("a\"", 1), ("b", None)], pa.map_(pa.string(), pa.int32()), '{"a\\"":1,"b":null}'),
    ([(7, {"x": 1, "y": None})], pa.map_(pa.int64(), STRUCT), '{"7":{"x":1}}'),
    (None, pa.string(), "null"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "of", "text"), WRITTEN, ids=repr)
def test_a_value_is_written_as_spark_writes_it(value: Any, of: pa.DataType, text: str) -> None:
    found = json_values(pa.array([value, None], of)).to_pylist()
    assert found == [None if value is None else text, None]


EXACTLY: list[tuple[Any, pa.DataType, str]] = [
    (253_402_300_800_000_000, pa.timestamp("us", "UTC"), '"+10000-01-01T00:00:00.000000Z"'),
    (-62_167_219_200_000_001, pa.timestamp("us", "UTC"), '"-0001-12-31T23:59:59.999999Z"'),
    (datetime.datetime(2020, 1, 1, 0, 0, 0, 123_000), pa.timestamp("us"), '"2020-01-01T00:00:00.123000"'),
    (2_932_897, pa.date32(), '"+10000-01-01"'),
    (-719_529, pa.date32(), '"-0001-12-31"'),
    (12_000_000, pa.date32(), '"+34824-11-19"'),  # it was Arrow's "<value out of range: 12000000>"
    (-(2**31), pa.date32(), '"-5877641-06-23"'),
    (-0.0, pa.float64(), "-0.0"),
    ({"x": None, "y": [None, "a"]}, STRUCT, '{"x":null,"y":[null,"a"]}'),
    ({"x": None, "y": None}, STRUCT, '{"x":null,"y":null}'),
    ([(datetime.date(2020, 1, 1), 1)], pa.map_(pa.date32(), pa.int32()), '{"18262":1}'),
    ([(1_577_836_800_500_000, 1)], pa.map_(pa.timestamp("us", "UTC"), pa.int32()), '{"1577836800500000":1}'),
    ([(1.5, None), (float("nan"), 2)], pa.map_(pa.float64(), pa.int64()), '{"1.5":null,"NaN":2}'),
]  # fmt: skip


@pytest.mark.parametrize(("value", "of", "text"), EXACTLY, ids=repr)
def test_a_value_that_is_read_back_is_written_as_spark_writes_it(
    value: Any, of: pa.DataType, text: str
) -> None:
    assert json_values(pa.array([None, value, None], of)[1:], exact=True).to_pylist() == [text, None]


@given(st.lists(st.tuples(st.text(), st.integers(-(2**63), 2**63 - 1)), min_size=1))
@pytest.mark.slow
def test_objects_can_be_read_back(rows: list[tuple[str, int]]) -> None:
    texts, numbers = (pa.array([row[n] for row in rows]) for n in (0, 1))
    found = json_objects({'na"me': texts, "n": numbers.cast(pa.int64())})
    assert [json.loads(text) for text in found.to_pylist()] == [{'na"me': text, "n": n} for text, n in rows]

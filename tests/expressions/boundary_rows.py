"""Rows of boundary values: what expressions are compared over."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INTS = {
    bits: [None, 0, 1, -1, 2, 3, 5, 7, -8, 10, -15, 45, 100, (1 << bits - 1) - 1, -(1 << bits - 1)]
    for bits in (8, 16, 32, 64)
}
DOUBLES = [None, 0.0, -0.0, 1.0, -1.5, 2.5, 0.1, 1e-300, 5e-324, 1e300, 1.7976931348623157e308, float("nan"), float("inf"),
           float("-inf"), 123456789.987654321, -2147483649.5, 9.3e18, 16777217.0, 0.5, -0.5, -2.5, 2.675, 1.005, -0.285, 1250.0,
           1e22, float(2**53 + 2), 1234567.8915, 5e-8]  # fmt: skip
TEXTS = [None, "", " ", "a", "A", "abc", "  padded ", "%", "a%b", "a_b", "a.b.c", ",", "x,y,,z", "ß", "İı", "ΑΣ", "é",
         "e\u0301", "日本語テキスト", "😀 smile", "line\nbreak", "tab\t", "quote'", 'double"', "back\\slash", "NULL", "true",
         "12", "-3.5", "1e3", "2026-11-28", "ﬀ", "ǆ", "x" * 300]  # fmt: skip
DATES = [None, date(1970, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date(2023, 3, 1), date(1, 1, 1), date(9999, 12, 31),
         date(2026, 11, 28), date(2026, 1, 4), date(2021, 1, 3), date(1582, 10, 15), date(1900, 2, 28)]  # fmt: skip
TIMES = [None, EPOCH, EPOCH - timedelta(microseconds=1), EPOCH - timedelta(seconds=1), datetime(2024, 2, 29, 23, 59, 59, 999999, UTC),
         datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, UTC), datetime(2026, 11, 28, 12, 30, 15, 250000, UTC),
         datetime(2026, 3, 29, 1, 30, tzinfo=UTC), datetime(1900, 1, 1, 0, 0, 1, tzinfo=UTC)]  # fmt: skip
DECIMALS = [None, Decimal("0.00"), Decimal("1.00"), Decimal("-1.25"), Decimal("2.50"), Decimal("99999999.99"),
            Decimal("-99999999.99"), Decimal("0.01"), Decimal("10.00"), Decimal("0.05"), Decimal("-0.45"), Decimal("4.50"), Decimal("1250.00")]  # fmt: skip
WIDE = [
    None,
    Decimal("0"),
    Decimal("1." + "0" * 17 + "1"),
    Decimal("-9" * 1 + "9" * 19 + "." + "9" * 18),
    Decimal("12345.678"),
]
BOOLEANS = [None, True, False]
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "t": (pa.int8(), INTS[8]),
    "h": (pa.int16(), INTS[16]),
    "i": (pa.int32(), INTS[32]),
    "j": (pa.int32(), INTS[32]),
    "l": (pa.int64(), INTS[64]),
    "f": (pa.float32(), [x if x is None or abs(x) < 1e38 or x != x or x in (float("inf"), float("-inf")) else 3e38 for x in DOUBLES]),
    "x": (pa.float64(), DOUBLES),
    "y": (pa.float64(), DOUBLES),
    "d": (pa.decimal128(10, 2), DECIMALS),
    "w": (pa.decimal128(38, 18), WIDE),
    "s": (pa.string(), TEXTS),
    "u": (pa.string(), TEXTS),
    "b": (pa.bool_(), BOOLEANS),
    "c": (pa.bool_(), BOOLEANS),
    "day": (pa.date32(), DATES),
    "ts": (pa.timestamp("us", "UTC"), TIMES),
    "at": (pa.timestamp("us", "UTC"), TIMES),
    "st": (
        pa.struct([("Id", pa.string()), ("n", pa.int32()), ("deep", pa.struct([("v", pa.float64())]))]),
        [None, {"Id": "a", "n": 1, "deep": {"v": 1.5}}, {"Id": None, "n": None, "deep": None}],
    ),
    "ar": (pa.list_(pa.field("element", pa.int32())), [None, [], [1], [None, 2], [3, 4, 5]]),
    "m": (
        pa.map_(pa.string(), pa.int32()),
        [None, [], [("a", 1)], [("b", None), ("A", 2), ("a", 3)], [("é", 4), ("a", None)], [("", 5)]],
    ),
    "n": (pa.map_(pa.int32(), pa.string()), [None, [], [(0, "zero"), (1, None)], [(-1, "a"), (3, "b")]]),
}  # fmt: skip
SCHEMA = pa.schema([(name, of) for name, (of, _) in COLUMNS.items()])


def boundary_rows(number: int = 60, seed: int = 7) -> pa.Table:
    """Rows in which each value of each column occurs, next to others by chance."""
    rng = random.Random(seed)
    arrays = []
    for of, values in COLUMNS.values():
        chosen = [*values, *(rng.choice(values) for _ in range(number))][:number]
        rng.shuffle(chosen)
        arrays.append(pa.array(chosen, of))
    return pa.Table.from_arrays(arrays, schema=SCHEMA)

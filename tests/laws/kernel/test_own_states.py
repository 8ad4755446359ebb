"""States of users' aggregates become what Arrow would keep and give back."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from headrace.fold.aggregates.own_state import as_kept

pytestmark = pytest.mark.fast
TYPES = [
    pa.bool_(), pa.int8(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32(),
    pa.timestamp("us", "UTC"), pa.decimal128(5, 2), pa.list_(pa.int8()), pa.map_(pa.string(), pa.int8()),
    pa.struct([("a", pa.float64()), ("b", pa.list_(pa.string()))]),
]  # fmt: skip
VALUES: list[Any] = [
    None, True, 1, 127, 128, -128, 1 << 63, -(1 << 63), 0.5, -0.0, float("inf"), "a", "é", "\ud800", b"a", date(2026, 1, 1),
    datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1), Decimal("1.00"), Decimal(1), Decimal("999.99"),
    Decimal("1000.00"),
    Decimal("1.001"), Decimal("NaN"), [], [1, None], [300], (1, 2), {1}, {}, {"a": 1}, {"a": None}, {None: 1}, [("a", 1)],
    [("a", 300)], [["a", 1]], [("a", 1, 2)], {"a": 1, "b": ["x"]}, {"b": None, "a": 1.5}, {"a": 1.5, "b": None, "c": 0},
    {"a": 1.5},
]  # fmt: skip


@pytest.mark.parametrize(("of", "value"), [*product(TYPES, VALUES)], ids=repr)
def test_a_value_becomes_what_arrow_gives_back(of: pa.DataType, value: Any) -> None:
    for type in (of, pa.struct([("only", of)])):
        given = value if type == of else {"only": value}
        assert outcome(lambda: as_kept(type)(given)) == outcome(lambda: pa.scalar(given, type).as_py())  # noqa: B023


def outcome(compute: Any) -> str:
    try:
        return repr(compute())
    except Exception:
        return "raises"

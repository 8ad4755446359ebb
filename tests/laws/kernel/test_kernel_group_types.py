"""Groups of any type: NaN is one group, -0.0 is 0.0, null fields are values, and null is a group."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.fold.windows import Windows
from headrace.operators.totals.fold import Totals
from tests.laws.kernel.harness import run
from tests.laws.kernel.logs import SECOND, Sequenced, World
from tests.laws.kernel.plans import Plan
from tests.oracle.log_oracle import Arrival, Commit, sequence

pytestmark = pytest.mark.fast

CASES: list[tuple[str, pa.DataType, list[Any], list[list[Any]]]] = [
    ("DOUBLE", pa.float64(), [0.0, -0.0, math.nan, -math.nan, 1.5], [[0.0, 2], [1.5, 1], [math.nan, 2]]),
    ("FLOAT", pa.float32(), [0.0, -0.0, math.nan, 0.1], [[0.0, 2], [0.10000000149011612, 1], [math.nan, 1]]),
    ("DECIMAL(10,2)", pa.decimal128(10, 2), [Decimal("1.00"), Decimal("1.00")], [[Decimal("1.00"), 2]]),
    ("DATE", pa.date32(), [dt.date(2020, 1, 1), dt.date(1960, 1, 1)], [[dt.date(1960, 1, 1), 1], [dt.date(2020, 1, 1), 1]]),
    ("BINARY", pa.binary(), [b"\x00", b"", b"\x00"], [[b"", 1], [b"\x00", 2]]),
    ("BOOLEAN", pa.bool_(), [True, False, True], [[False, 1], [True, 2]]),
    (
        "STRUCT<a: DOUBLE, b: STRING>",
        pa.struct([("a", pa.float64()), ("b", pa.string())]),
        [{"a": -0.0, "b": None}, {"a": 0.0, "b": None}, {"a": None, "b": "x"}],
        [[{"a": 0.0, "b": None}, 2], [{"a": None, "b": "x"}, 1]],
    ),
    (
        "ARRAY<DOUBLE>",
        pa.list_(pa.float64()),
        [[0.0, None], [-0.0, None], [], [math.nan]],
        [[[], 1], [[0.0, None], 2], [[math.nan], 1]],
    ),
]  # fmt: skip
PLANS = [Plan(), Plan(sizes=(1,), buckets=(5,), seed=1), Plan(sizes=(2,), buckets=(2, 1), seed=2)]


def world(of: pa.DataType, keys: list[Any]) -> World:
    """One record of each key, a record without one, and then what closes the window."""
    arrivals = [Arrival(0, key, number) for number, key in enumerate([*keys, None])]
    commits = [Commit(1_000_000 + number, [arrival]) for number, arrival in enumerate(arrivals)]
    commits.append(Commit(2_000_000, [Arrival(0, None, 100 * SECOND)]))
    return World([Sequenced("t", sequence(commits, None, 0))], pa.int64(), of)


def in_order(rows: list[list[Any]]) -> list[str]:
    return sorted(map(repr, rows))


@pytest.mark.parametrize(("ddl", "of", "keys", "expected"), CASES, ids=[case[0] for case in CASES])
@pytest.mark.parametrize("plan", PLANS)
def test_groups_of_any_type(
    ddl: str, of: pa.DataType, keys: list[Any], expected: list[list[Any]], plan: Plan
) -> None:
    grouped = hr.Topic("t", key=f"key {ddl}", value="value BIGINT").group_by("key")
    log = world(of, keys)
    found = run(Totals.of(grouped.aggregate(n=hr.count()), log.schema).steps, log, plan)
    latest: dict[bytes, list[Any]] = {}
    for row in found.rows():
        latest[row["__key"]] = [row["key"], row["n"]]
    assert in_order([*latest.values()]) == in_order([*expected, [None, 2]])
    assert found.fates["t", 0, "dead_letter"] == 0
    node = (
        grouped.window(hr.tumbling("10 seconds"), grace="0 ms")
        .aggregate(n=hr.count())
        .suppress(hr.until_window_closes())
    )
    closed = run(Windows.of(node, log.schema).steps, log, plan)
    assert in_order([[row["key"], row["n"]] for row in closed.rows()]) == in_order([*expected, [None, 1]])

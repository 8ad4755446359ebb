"""Sessions, sliding windows and time limits of any key type and any carried type: cuts and buckets show nowhere."""

from __future__ import annotations

import datetime as dt
import math
import pickle
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.operators.sessions.fold import Sessions
from headrace.operators.time_limits.fold import TimeLimit
from headrace.operators.windows.sliding import SlidingWindows
from tests.laws.kernel.harness import assert_same, run
from tests.laws.kernel.logs import Sequenced, World
from tests.laws.kernel.plans import ONE_GO, Plan
from tests.oracle.log_oracle import Arrival, Commit, sequence

pytestmark = pytest.mark.fast

UTC = dt.UTC
KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "STRUCT<a:INT,b:STRING>": (
        pa.struct([("a", pa.int32()), ("b", pa.string())]),
        [{"a": 1, "b": "x"}, {"a": 1, "b": None}],
    ),
    "ARRAY<DOUBLE>": (pa.list_(pa.float64()), [[1.0, math.nan], [0.0], [-0.0]]),
    "DECIMAL(10,2)": (pa.decimal128(10, 2), [Decimal("1.00"), Decimal("-2.50")]),
    "DOUBLE": (pa.float64(), [0.0, -0.0, math.nan]),
    "FLOAT": (pa.float32(), [0.0, -0.0, math.nan]),
    "DATE": (pa.date32(), [dt.date(2020, 1, 1), dt.date(1960, 1, 1)]),
    "TIMESTAMP": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(2020, 1, 1, tzinfo=UTC), dt.datetime(1960, 1, 1, tzinfo=UTC)],
    ),
    "BINARY": (pa.binary(), [b"a\0", b"a"]),
    "BOOLEAN": (pa.bool_(), [True, False]),
}
VALUE = "STRUCT<x:ARRAY<INT>>"
VALUE_TYPE, VALUES = pa.struct([("x", pa.list_(pa.int32()))]), [{"x": [1, None]}, None, {"x": None}]
TOTALS: dict[str, Any] = {
    "n": hr.count(),
    "first": hr.first("value"),
    "last": hr.last("value"),
    "some": hr.collect("value", max_items=3),
}
EARLY = hr.until_time_limit("3 seconds", max_records=1, when_full="emit_early")
Operator = Sessions | SlidingWindows | TimeLimit
OPERATORS: list[Callable[[hr.Topic, pa.Schema], Operator]] = [
    lambda topic, inputs: Sessions.of(
        topic.group_by().window(hr.session("2 seconds"), grace=0).aggregate(**TOTALS), inputs
    ),
    lambda topic, inputs: SlidingWindows.of(
        topic.group_by().window(hr.sliding("2 seconds"), grace=1000).aggregate(**TOTALS), inputs
    ),
    lambda topic, inputs: TimeLimit.of(
        topic.group_by().aggregate(**TOTALS).suppress(hr.until_time_limit("3 seconds")), inputs
    ),
    lambda topic, inputs: TimeLimit.of(topic.table().suppress(hr.until_time_limit("3 seconds")), inputs),
    lambda topic, inputs: TimeLimit.of(topic.table().suppress(EARLY), inputs),
    lambda topic, inputs: TimeLimit.of(
        topic.group_by().window(hr.hopping(4000, 2000), grace=0).aggregate(**TOTALS).suppress(EARLY), inputs
    ),
]
PAIRS = [
    (key, OPERATORS[number % len(OPERATORS)])
    for place, key in enumerate(KEYS)
    for number in (2 * place, 2 * place + 1)
]


@pytest.mark.parametrize(("key", "operator"), PAIRS)
def test_a_key_of_any_type_is_one_key(key: str, operator: Callable[[hr.Topic, pa.Schema], Operator]) -> None:
    of, keys = KEYS[key]
    chance, commits = random.Random(5), []
    for number in range(4):
        arrivals = [
            Arrival(
                partition=0,
                key=chance.choice(keys),
                ts=20_000 + number * 9_000 + chance.randrange(-20, 20) * 500,
                value=chance.choice(VALUES),  # type: ignore[arg-type]
                kind=chance.choice(["record"] * 6 + ["tombstone"]),
            )
            for _ in range(6)
        ]
        commits.append(Commit(1_000_000 + number, arrivals))
    log = World([Sequenced("t", sequence(commits, None, 0))], VALUE_TYPE, of)
    made = operator(hr.Topic("t", key=f"key {key}", value=f"value {VALUE}"), log.schema)
    steps = pickle.loads(pickle.dumps(made.steps))
    cut, whole = run(steps, log, Plan(sizes=(1,), buckets=(2, 5), seed=3)), run(made.steps, log, ONE_GO)
    assert_same(cut, whole)
    assert len(whole.rows()) > 2
    assert "-0.0" not in repr([row["key"] for row in cut.rows()])

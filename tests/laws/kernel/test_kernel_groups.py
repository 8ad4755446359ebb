"""Groups of a table whose aggregates pick rows: what they read of the state, values of any type, and a day at a broker."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.fold.contract import ROW_COLUMNS, Clock, Times
from headrace.fold.grouped.alive import first_alive
from headrace.operators.relation_tree import relations_of
from tests.laws.kernel.plans import Plan
from tests.laws.kernel.test_kernel_relation_types import PLANS, folded, rows_of

pytestmark = pytest.mark.fast

POSITIONS = hr.Topic("positions", key="position STRING", value="client STRING, amount BIGINT")
SCHEMA = pa.schema([("position", pa.string()), ("client", pa.string()), ("amount", pa.int64()), *ROW_COLUMNS])
HELD = POSITIONS.table().group_by("client")
OF_CLIENT = HELD.aggregate(
    positions=hr.collect("position", max_items=100), largest=hr.max("amount"), smallest=hr.min("amount")
)


@pytest.mark.parametrize("plan", [*PLANS, Plan(sizes=(7,)), Plan(sizes=(3, 1), buckets=(3,), seed=5)])
def test_which_positions_a_client_has_follows_from_which_client_a_position_has(plan: Plan) -> None:
    records = [
        ("p2", "ann", 20),
        ("p1", "ann", 10),
        ("p3", "ben", 30),
        ("p2", "ben", 20),  # changes hands
        ("p3", "ben", 5),  # was the largest
        ("p1", None),  # sold: ann has none left
        ("p0", "ben", 40),
    ]
    outcome = folded(OF_CLIENT, {"rows": rows_of("positions", SCHEMA, records)}, plan)
    now = {key: shown(row) for (key,), row in outcome.current(["client"]).items()}
    assert now == {"ben": (["p0", "p2", "p3"], 40, 5)}
    told = {(row["__sequence"], row["client"]): shown(row) for row in outcome.rows("changes")}
    assert told == {
        (1, "ann"): (["p2"], 20, 20),
        (3, "ann"): (["p1", "p2"], 20, 10),
        (5, "ben"): (["p3"], 30, 30),
        (7, "ann"): (["p1"], 10, 10),
        (7, "ben"): (["p2", "p3"], 30, 20),
        (9, "ben"): (["p2", "p3"], 20, 5),
        (11, "ann"): None,
        (13, "ben"): (["p0", "p2", "p3"], 40, 5),
    }


def shown(row: dict[str, Any]) -> tuple[list[str], int, int] | None:
    return None if row["__deleted"] else (row["positions"], row["largest"], row["smallest"])


def test_the_rows_of_a_group_are_read_only_where_it_loses_one() -> None:
    operator = relations_of(OF_CLIENT, {"rows": SCHEMA})
    first, table, groups = operator.steps
    came = rows_of("positions", SCHEMA, [("p1", "ann", 1), ("p2", "ben", 2)])
    times = Times(Clock(), Clock({"positions": 9}))
    none = {name: of.empty() for name, of in table.state.items()}
    needed = {}
    for what, rows in {"gains": came, "changes": rows_of("positions", SCHEMA, [("p1", "ann", 3)], 9)}.items():
        rows = first.fold(operator.rows({"rows": rows}), {}, times).rows
        made = table.fold(rows, none, times)
        needed[what] = {name: len(need.hashes) for name, need in groups.needs(made.rows, times).items()}  # type: ignore[arg-type]
        none = {
            name: gained.append_column("__batch", pa.array([0] * len(gained), pa.int32()))
            for name, gained in made.changes.items()
        }
    assert needed == {
        "gains": {"result_groups": 2, "result_members": 0},
        "changes": {"result_groups": 1, "result_members": 1},
    }


VALUES: list[tuple[str, pa.DataType, list[Any]]] = [
    ("DOUBLE", pa.float64(), [-0.0, 1.5, math.nan, None]),
    ("STRING", pa.string(), ["", "a", "ü", None]),
    ("BOOLEAN", pa.bool_(), [False, True, None]),
    ("DECIMAL(20,2)", pa.decimal128(20, 2), [Decimal("-7.25"), Decimal("1.50"), None]),
    ("ARRAY<INT>", pa.list_(pa.int32()), [[], [1], [1, 2], None]),
    ("BIGINT", pa.int64(), [-(2**63), 0, 2**63 - 1, None]),
]


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize(("ddl", "of", "rising"), VALUES)
def test_values_of_any_type_are_picked_and_go_again(
    ddl: str, of: pa.DataType, rising: list[Any], plan: Plan
) -> None:
    schema = pa.schema([("id", pa.string()), ("value", of), ("all", pa.string()), *ROW_COLUMNS])
    held = hr.Topic("left", key="id STRING", value=f"value {ddl}, `all` STRING").table()
    records = [*((f"r{n}", value, "all") for n, value in enumerate(rising)), ("r0", None)]
    node = held.group_by("all").aggregate(
        low=hr.min("value"), high=hr.max("value"), kept=hr.collect("value", max_items=9)
    )
    outcome = folded(node, {"rows": rows_of("left", schema, records)}, plan)
    (row,) = outcome.current(["all"]).values()
    left = rising[1:-1]
    assert repr((row["low"], row["high"], row["kept"])) == repr((left[0], left[-1], left))
    first = min(outcome.rows("changes"), key=lambda row: row["__sequence"])
    assert repr(first["low"]) == repr(rising[0] + 0.0 if ddl == "DOUBLE" else rising[0])


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=12),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_the_first_rows_at_each_question_are_those_that_a_scan_finds(
    spans: list[tuple[int, int]], most: int, random: Any
) -> None:
    rank = [*range(len(spans))]
    random.shuffle(rank)
    begin, end = (np.array([span[side] for span in spans], np.int64) for side in (0, 1))
    question, row = first_alive(begin, end, np.array(rank, np.int64), most)
    scanned = []
    for at in range(13):
        there = [n for n, (first, beyond) in enumerate(spans) if first <= at < beyond]
        scanned += [(at, n) for n in sorted(there, key=lambda n: rank[n])[:most]]
    assert [*zip(question.tolist(), row.tolist(), strict=True)] == scanned

"""Tables, joins and groups take keys and values of any type: keys by their canonical bytes, values as they are."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.description import Relation
from headrace.description.feeds import leaves_of
from headrace.errors import DescriptionError
from headrace.fold.contract import ROW_COLUMNS, Clock, Times
from headrace.operators.relation_tree import relations_of
from headrace.operators.tables.fold import Tables
from tests.laws.kernel.harness import Outcome, run
from tests.laws.kernel.plans import Plan

pytestmark = pytest.mark.fast

NESTED = pa.struct([("x", pa.float64()), ("many", pa.list_(pa.int32()))])
# Of each type two keys, and other values that are equal to the first.
KEYS: list[tuple[str, pa.DataType, Any, Any, list[Any]]] = [
    ("INT", pa.int32(), 1, 2, []),
    ("BIGINT", pa.int64(), 2**62, -1, []),
    ("DOUBLE", pa.float64(), 0.0, 1.5, [-0.0]),
    ("DOUBLE", pa.float64(), math.nan, 1.5, [math.nan, -math.nan]),
    ("FLOAT", pa.float32(), 0.5, 1.5, []),
    ("DECIMAL(20,2)", pa.decimal128(20, 2), Decimal("1.50"), Decimal("-7.25"), []),
    ("DATE", pa.date32(), dt.date(2026, 1, 1), dt.date(1969, 1, 1), []),
    (
        "TIMESTAMP",
        pa.timestamp("us", "UTC"),
        dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        dt.datetime(1950, 1, 1, tzinfo=dt.UTC),
        [],
    ),
    ("BINARY", pa.binary(), b"\x00\xff", b"", []),
    ("BOOLEAN", pa.bool_(), True, False, []),
    ("STRING", pa.string(), "ü", "a\x00", []),
    (
        "STRUCT<x: DOUBLE, many: ARRAY<INT>>",
        NESTED,
        {"x": 0.0, "many": [1, None]},
        {"x": None, "many": None},
        [{"x": -0.0, "many": [1, None]}],
    ),
    ("ARRAY<INT>", pa.list_(pa.int32()), [1, 2], [], []),
]
CARRIED = pa.struct(
    [
        ("texts", pa.map_(pa.string(), pa.int32())),
        ("day", pa.date32()),
        ("numbers", pa.list_(pa.struct([("a", pa.decimal128(10, 3)), ("b", pa.float32())]))),
    ]
)
CARGO = {
    "texts": [("k", 1), ("l", None)],
    "day": dt.date(2026, 2, 3),
    "numbers": [{"a": Decimal("1.5"), "b": None}, None],
}


class Steady:
    """Worlds of given rows, each a log commit of its own."""

    topics = ("left", "right")

    def __init__(self, tables: dict[str, pa.Table], operator: Any) -> None:
        self.tables, self.operator = tables, operator

    def commits(self, topic: str | None = None) -> list[int]:
        ends = {at for table in self.tables.values() for at in table["__ingested_ms"].to_pylist()}
        return sorted(ends)

    def increment(self, after: dict[str, int], upto: dict[str, int]) -> tuple[pa.Table, Times]:
        found = {}
        for part, table in self.tables.items():
            at = table["__ingested_ms"].to_pylist()
            low, high = max(after.values(), default=0), max(upto.values())
            found[part] = table.filter(pa.array([low < each <= high for each in at]))
        clock = Clock(dict(upto))
        times = Times(Clock(dict(after)), clock, [(max(upto.values()), clock)])
        packed = self.operator.rows(found)
        return packed, times


def rows_of(
    topic: str,
    schema: pa.Schema,
    rows: list[tuple[Any, ...]],
    first_ms: int = 1,
    events: Sequence[int] | None = None,
) -> pa.Table:
    """In: rows  values, or the key and None for a tombstone; events  their times, None: those of their commits."""
    width, found = len(schema) - len(ROW_COLUMNS), []
    for number, row in enumerate(rows):
        gone = row[1:] == (None,)
        values = (row[0], *[None] * (width - 1)) if gone else row
        at = first_ms + 2 * number
        event = at if events is None else events[number]
        found.append((*values, at, topic, 0, number, event, event, 1, "tombstone" if gone else None, None))
    columns = [*zip(*found, strict=True)]
    arrays = [pa.array(c, f.type, from_pandas=False) for c, f in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def folded(node: Relation, tables: dict[str, pa.Table], plan: Plan) -> Outcome:
    schemas = {part: table.schema for part, table in tables.items()}
    operator: Any = relations_of(node, schemas) if len(leaves_of(node)) > 1 or "rows" in tables else None
    operator = operator or Tables.of(node, schemas["result"])  # type: ignore[arg-type]
    return run(operator.steps, Steady(tables, operator), plan)


PLANS = [Plan(), Plan(sizes=(1, 2), buckets=(2, 5), seed=3)]


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize(("ddl", "of", "key", "other", "equal"), KEYS)
def test_a_key_of_any_type_joins_and_is_replaced(
    ddl: str, of: pa.DataType, key: Any, other: Any, equal: list[Any], plan: Plan
) -> None:
    left = pa.schema([("id", pa.string()), ("ref", of), ("cargo", CARRIED), *ROW_COLUMNS])
    right = pa.schema([("ref", of), ("name", pa.string()), *ROW_COLUMNS])
    held = hr.Topic("left", key="id STRING", value=f"ref {ddl}, cargo STRING").table()
    known = hr.Topic("right", key="k STRING", value=f"ref {ddl}, name STRING").select("ref", "name")
    refs = [key, other, *equal, None]
    tables = {
        "left": rows_of("left", left, [(f"l{n}", ref, CARGO if n else None) for n, ref in enumerate(refs)]),
        "right": rows_of(
            "right",
            right,
            [(key, "first"), (other, "other"), *((e, "again") for e in equal), (other, None)],
            2,
        ),
    }
    node = held.join(hr.description.Table(known, ("ref",)), on="ref", how="left")
    rows = folded(node, tables, plan).current(["id"])
    name = "again" if equal else "first"
    assert [rows[f"l{n}",]["name"] for n in range(len(refs))] == [name, None, *([name] * len(equal)), None]
    assert rows["l1",]["cargo"] == pa.array([CARGO], CARRIED).to_pylist()[0]
    assert rows["l0",]["cargo"] is None
    groups = folded(held.group_by("ref").aggregate(n=hr.count()), {"rows": tables["left"]}, plan)
    counts = sorted(row["n"] for row in groups.current(["__key"]).values())
    assert counts == [1, 1, 1 + len(equal)]  # null is a group of its own
    table = folded(hr.description.Table(known, ("ref",)), {"result": tables["right"]}, plan)
    (row,) = table.current(["__key"]).values()
    assert row["name"] == name
    assert repr(row["ref"]) == repr(pa.array([key], of).to_pylist()[0])


def test_a_key_of_another_type_is_refused_and_a_wider_number_is_not() -> None:
    held = hr.Topic("left", key="id STRING", value="ref INT").table()
    known = hr.Topic("right", key="k STRING", value="name STRING").with_column("ref", "length(name)")
    node = held.join(hr.description.Table(known, ("ref",)), on="ref")
    left = pa.schema([("id", pa.string()), ("ref", pa.int32()), *ROW_COLUMNS])
    for of, refused in ((pa.int64(), False), (pa.string(), True), (pa.float64(), True)):
        right = pa.schema([("k", pa.string()), ("name", pa.string()), ("ref", of), *ROW_COLUMNS])
        if refused:
            with pytest.raises(DescriptionError, match="'ref' is int32 on the left"):
                relations_of(node, {"left": left, "right": right})
            continue
        rows = {
            "left": rows_of("left", left, [("a", 2)]),
            "right": rows_of("right", right, [("k", "no", 2)], 2),
        }
        assert folded(node, rows, Plan()).current(["id"])["a",]["name"] == "no"


def test_a_micro_batch_needs_what_it_touches_and_no_more() -> None:
    left = pa.schema([("id", pa.string()), ("ref", pa.int32()), *ROW_COLUMNS])
    right = pa.schema([("ref", pa.int32()), ("name", pa.string()), *ROW_COLUMNS])
    held = hr.Topic("left", key="id STRING", value="ref INT").table()
    known = hr.Topic("right", key="ref INT", value="name STRING").table()
    operator = relations_of(held.join(known, on="ref"), {"left": left, "right": right})
    changes: dict[str, tuple[list[Any], list[Any], dict[str, int]]] = {
        "a left row": ([("a", 2)], [], {"left_by_reference": 0, "right_by_key": 1}),
        "a right row": ([], [(2, "two"), (3, "three")], {"left_by_reference": 2, "right_by_key": 2}),
        "neither": ([("a", None)], [], {"left_by_reference": 0, "right_by_key": 0}),
    }
    for what, (of_left, of_right, touched) in changes.items():
        tables = {"left": left.empty_table(), "right": right.empty_table()}
        if of_left:
            tables["left"] = rows_of("left", left, of_left)
        if of_right:
            tables["right"] = rows_of("right", right, of_right)
        rows, times = operator.rows(tables), Times(Clock(), Clock({"left": 9, "right": 9}))
        for step in operator.steps[:2]:
            rows = step.fold(rows, {name: table.empty() for name, table in step.state.items()}, times).rows
        needs = operator.steps[2].needs(rows, times)
        assert {
            name: len(need.hashes) for name, need in needs.items() if need.hashes is not None
        } == touched, what


@pytest.mark.parametrize("sizes", [(3,), (1,), (2, 1)])
def test_a_group_that_had_no_rows_begins_anew(sizes: tuple[int, ...]) -> None:
    schema = pa.schema([("id", pa.string()), ("ref", pa.string()), ("amount", pa.int32()), *ROW_COLUMNS])
    held = hr.Topic("left", key="id STRING", value="ref STRING, amount INT").table()
    rows = rows_of("left", schema, [("a", "g", 5), ("a", None), ("a", "g", 7)], events=[100, 90, 50])
    node = held.group_by("ref").aggregate(total=hr.sum("amount"))
    told = folded(node, {"rows": rows}, Plan(sizes=sizes)).rows("changes")
    assert [(row["total"], row["__before_total"], row["__timestamp"]) for row in told] == [
        (5, None, 100),
        (None, 5, 90),
        (7, None, 50),
    ]


def test_the_later_of_two_records_in_a_commit_is_the_cause_of_a_change() -> None:
    left = pa.schema([("id", pa.string()), ("ref", pa.int32()), *ROW_COLUMNS])
    right = pa.schema([("ref", pa.int32()), ("name", pa.string()), *ROW_COLUMNS])
    tables = {
        "left": rows_of("left", left, [("a", 1), ("a", 2)]),
        "right": rows_of("right", right, [(1, "one"), (2, "two")]),
    }
    held = hr.Topic("left", key="id STRING", value="ref INT").table()
    known = hr.Topic("right", key="ref INT", value="name STRING").table()
    told = folded(held.join(known, on="ref"), tables, Plan(sizes=(2,), buckets=(5,))).rows("changes")
    found = sorted((row["__sequence"], row["__topic"], row["name"]) for row in told)
    assert found == [(1, "right", "one"), (3, "right", "two")]
    assert [row["__before_name"] for row in told if row["__sequence"] == 3] == ["one"]

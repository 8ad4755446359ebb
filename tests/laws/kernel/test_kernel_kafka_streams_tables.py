"""Joins of two tables by the key of both give, record by record, what Kafka Streams gives.

Source: the input of AbstractJoinIntegrationTest and the results that TableTableJoinIntegrationTest of Kafka Streams expects
without caching. Each record is a log commit of its own.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import headrace as hr
from headrace.fold.contract import ROW_COLUMNS
from tests.laws.kernel.plans import Plan
from tests.laws.kernel.test_kernel_relation_types import folded

pytestmark = pytest.mark.fast

# The topic and the value of each record; the first one is dated 1.
RECORDS = [
    ("left", None), ("right", None), ("left", "A"), ("right", "a"), ("left", "B"), ("right", "b"), ("left", None),
    ("right", None), ("left", "C"), ("right", "c"), ("right", None), ("left", None), ("right", None), ("right", "d"),
    ("left", "D"),
]  # fmt: skip
GONE = None
# By the time of the record what the row then is, and its event time. Kafka Streams tells nothing of the other records.
EXPECTED = {
    "inner": {4: "A-a", 5: "B-a", 6: "B-b", 7: GONE, 10: "C-c", 11: GONE, 15: "D-d"},
    "left": {
        3: "A-null", 4: "A-a", 5: "B-a", 6: "B-b", 7: GONE, 9: "C-null", 10: "C-c", 11: "C-null", 12: GONE, 15: "D-d",
    },
    "outer": {
        3: "A-null", 4: "A-a", 5: "B-a", 6: "B-b", 7: "null-b", 8: GONE, 9: "C-null", 10: "C-c", 11: "C-null", 12: GONE,
        14: "null-d", 15: "D-d",
    },
}  # fmt: skip
PLANS = [Plan(), Plan(sizes=(1,)), Plan(sizes=(4, 1, 3), buckets=(3, 1), seed=4)]


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("how", EXPECTED)
def test_each_record_changes_the_row_as_in_kafka_streams(how: str, plan: Plan) -> None:
    sides = {
        name: hr.Topic(name, key="id BIGINT", value=f"{name}_value STRING") for name in ("left", "right")
    }
    node = sides["left"].table().join(sides["right"].table(), on="id", how=how)
    told = folded(node, {side: records_of(side) for side in sides}, plan).rows("changes")
    found = {row["__sequence"]: None if row["__deleted"] else shown(row) for row in told}
    assert found == EXPECTED[how]
    there = {row["__sequence"]: row["__timestamp"] for row in told if not row["__deleted"]}
    # Kafka Streams dates a row by the later of its two; one that has lost a side by the record that took it.
    assert {at for at, event in there.items() if at != event} <= {7, 11}


def records_of(side: str) -> pa.Table:
    schema = pa.schema([("id", pa.int64()), (f"{side}_value", pa.string()), *ROW_COLUMNS])
    rows = []
    for at, (topic, value) in enumerate(RECORDS, 1):
        if topic == side:
            rows.append((7, value, at, side, 0, at, at, at, 1, None if value else "tombstone", None))
    columns = [*zip(*rows, strict=True)]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def shown(row: dict[str, str | None]) -> str:
    return f"{row['left_value'] or 'null'}-{row['right_value'] or 'null'}"

"""The joins of streams of Kafka Streams 4.1 for recorded inputs are those of the kernel, as sets of rows.

Each record is a log commit of its own. When a row leaves differs: Kafka Streams has one stream time for both topics.
Source: cases recorded by `tests/fixtures/kafka_streams` with Kafka Streams' TopologyTestDriver.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.fold.contract import ROW_COLUMNS, Clock, Times
from headrace.operators.stream_joins.fold import StreamJoins
from tests.laws.kernel.harness import Outcome, run
from tests.laws.kernel.plans import Plan

pytestmark = pytest.mark.fast

FIXTURES = Path(__file__).parents[2] / "fixtures"
ORDERS = hr.Topic("orders", key="key STRING", value="sold BIGINT")
PAYMENTS = hr.Topic("payments", key="key STRING", value="paid BIGINT")
HOWS = ("inner", "left", "outer")
PLANS = {"one go": Plan(), "uneven": Plan(sizes=(41, 1, 60), buckets=(5, 1, 2), seed=2)}
CASES = json.loads((FIXTURES / "stream_join_outer" / "cases.json").read_text(encoding="utf-8"))
WITH_LATE_RECORDS = "case05"
Row = tuple[str | None, int | None, int | None, int]  # key, the left and the right value, event time


def schema_of(value: str) -> pa.Schema:
    return pa.schema([("key", pa.string()), (value, pa.int64()), *ROW_COLUMNS])


@dataclass
class Recorded:
    """A recorded input as a world: the record at place n is committed at time n + 1."""

    records: list[dict[str, Any]]
    operator: StreamJoins
    topics: tuple[str, ...] = ("orders", "payments")

    def commits(self, topic: str | None = None) -> list[int]:
        return [n + 1 for n, record in enumerate(self.records) if topic in (None, record["topic"])]

    def clock(self, upto: Mapping[str, int]) -> Clock:
        stream: dict[tuple[str, int], int] = {}
        for number, record in enumerate(self.records):
            topic = record["topic"]
            if number < upto.get(topic, 0):
                stream[topic, 0] = max(record["timestamp"], stream.get((topic, 0), 0))
        lowest = min(stream.values()) if len(stream) == len(self.topics) else None
        return Clock({topic: at for topic, at in upto.items() if at}, stream, lowest_ms=lowest)

    def increment(self, after: Mapping[str, int], upto: Mapping[str, int]) -> tuple[pa.Table, Times]:
        rows = self.operator.rows(
            {
                "left": self._rows("orders", "sold", after, upto),
                "right": self._rows("payments", "paid", after, upto),
            }
        )
        first, last = min((after.get(t, 0) for t in upto), default=0), max(upto.values())
        clocks = [(at, self.clock(dict.fromkeys(upto, at))) for at in range(first + 1, last + 1)]
        return rows, Times(self.clock(after), self.clock(upto), clocks)

    def _rows(self, topic: str, value: str, after: Mapping[str, int], upto: Mapping[str, int]) -> pa.Table:
        found: list[tuple[Any, ...]] = []
        stream_ms = 0
        for number, record in enumerate(self.records):
            if record["topic"] != topic:
                continue
            stream_ms = max(stream_ms, record["timestamp"])
            if after.get(topic, 0) <= number < upto[topic]:
                fate = "tombstone" if record["value"] is None else None
                own = [
                    record["key"],
                    (record["value"] or {}).get("n"),
                    number + 1,
                    topic,
                    0,
                    record["offset"],
                ]
                found.append((*own, record["timestamp"], stream_ms, 0, fate, None))
        schema = schema_of(value)
        columns = [*zip(*found, strict=True)] or [()] * len(schema)
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def lines(how: str, name: str, which: str) -> list[dict[str, Any]]:
    text = (FIXTURES / f"stream_join_{how}" / f"{name}.{which}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def joined(how: str, name: str, plan: Plan) -> Outcome:
    of = CASES[name]
    node = ORDERS.join(PAYMENTS, on="key", within=of["within_ms"], grace=of["grace_ms"], how=how)
    operator = StreamJoins.of(node, schema_of("sold"), schema_of("paid"))
    return run(operator.steps, Recorded(lines(how, name, "in"), operator), plan)


def ours(how: str, name: str, plan: Plan) -> Counter[Row]:
    rows = joined(how, name, plan).rows()
    found = Counter((row["key"], row["sold"], row["paid"], row["__timestamp"]) for row in rows)
    return Counter({row: number for row, number in found.items() if row[0] != "flush"})


def theirs(how: str, name: str) -> Counter[Row]:
    rows = ((row["key"], row["value"], row["timestamp"]) for row in lines(how, name, "out"))
    numbers = ((key, *(n and n["n"] for n in (of["left"], of["right"])), at) for key, of, at in rows)
    return Counter(row for row in numbers if row[0] != "flush")


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("name", [name for name in CASES if name != WITH_LATE_RECORDS])
@pytest.mark.parametrize("plan", PLANS.values(), ids=[*PLANS])
def test_pairs_and_records_without_a_partner_are_those_of_kafka_streams(
    how: str, name: str, plan: Plan
) -> None:
    assert ours(how, name, plan) == theirs(how, name)
    alone = sum(None in row for row in theirs(how, name))
    assert (alone > 0) == (how != "inner")


@pytest.mark.parametrize("how", HOWS)
def test_a_late_record_joins_nothing_and_that_is_all_that_differs_from_kafka_streams(how: str) -> None:
    of, records = CASES[WITH_LATE_RECORDS], lines(how, WITH_LATE_RECORDS, "in")
    open_ms, highest = of["within_ms"] + of["grace_ms"], dict.fromkeys(("orders", "payments"), 0)
    stream: dict[int, int] = {}
    for number, record in enumerate(records):
        topic = record["topic"]
        highest[topic] = max(highest[topic], record["timestamp"])
        stream[number] = highest[topic]
    at = {number: record["timestamp"] for number, record in enumerate(records)}
    mine, other = ours(how, WITH_LATE_RECORDS, Plan()), theirs(how, WITH_LATE_RECORDS)

    def too_late(row: Row) -> bool:
        """Whether a record of the row is late, or came too late for the other one."""
        numbers = [number for number in row[1:3] if number is not None]
        lowest = min(at[number] for number in numbers)
        return bool(lowest + open_ms <= stream[max(numbers)])

    # A record's number is its value. Kafka Streams lets a late record find what its stores still hold, and leave at once.
    assert other - mine
    assert all(too_late(row) or None in row for row in other - mine)
    assert not any(too_late(row) for row in mine)
    lost = {number for row in other - mine if too_late(row) for number in row[1:3]}
    assert all(None in row and {*row[1:3]} & lost for row in mine - other)

"""The joined tables of Kafka Streams 4.1 for recorded inputs are those of the kernel, record by record.

Each record is a log commit of its own, so the kernel tells one change per record, as Kafka Streams does.
Source: cases recorded with Kafka Streams' TopologyTestDriver, in `tests/fixtures`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.description import Relation
from headrace.fold.contract import ROW_COLUMNS, Clock, Times
from headrace.fold.relations import Relations
from headrace.operators.relation_tree import relations_of
from tests.laws.kernel.harness import Outcome, run
from tests.laws.kernel.plans import Plan

pytestmark = pytest.mark.fast

FIXTURES = Path(__file__).parents[2] / "fixtures"
TYPES = {
    "left": {"id": pa.string(), "client": pa.string(), "ticker": pa.string(), "amount": pa.int64()},
    "right": {"ticker": pa.string(), "exchange": pa.string(), "name": pa.string(), "founded": pa.int64()},
}
TOPIC_OF = {"left": "positions", "right": "tickers"}
POSITIONS = hr.Topic("positions", key="id STRING", value="client STRING, ticker STRING, amount BIGINT")
TICKERS = hr.Topic("tickers", key="ticker STRING", value="exchange STRING, name STRING, founded BIGINT")
SHOWN = ("client", "ticker", "amount", "exchange", "name", "founded")
PLANS = {
    "one go": Plan(),
    "uneven": Plan(sizes=(97, 1, 60), buckets=(5, 1, 2), seed=2),
}
CASES = [
    (how, name)
    for how in ("inner", "left")
    for name in json.loads((FIXTURES / f"fkjoin_{how}" / "cases.json").read_text(encoding="utf-8"))
]


@dataclass
class Recorded:
    """A recorded input as a world: the record at place n is committed at time n + 1."""

    records: list[dict[str, Any]]
    operator: Relations
    topics: tuple[str, ...] = ("positions", "tickers")

    def commits(self, topic: str | None = None) -> list[int]:
        return [n + 1 for n, record in enumerate(self.records) if topic in (None, record["topic"])]

    def clock(self, upto: Mapping[str, int]) -> Clock:
        return Clock({topic: at for topic, at in upto.items() if at})

    def increment(self, after: Mapping[str, int], upto: Mapping[str, int]) -> tuple[pa.Table, Times]:
        rows = {part: self._rows(part, after, upto) for part in TYPES}
        end = self.clock(upto)
        return self.operator.rows(rows), Times(self.clock(after), end, [(max(upto.values()), end)])

    def _rows(self, part: str, after: Mapping[str, int], upto: Mapping[str, int]) -> pa.Table:
        topic, types, found = TOPIC_OF[part], TYPES[part], []
        for number, record in enumerate(self.records):
            if record["topic"] == topic and after.get(topic, 0) <= number < upto[topic]:
                value = record["value"]
                fate = "tombstone" if value is None else None
                columns = [record["key"], *((value or {}).get(name) for name in [*types][1:])]
                at = (number + 1, topic, record["partition"], record["offset"])
                found.append((*columns, *at, record["timestamp"], None, 0, fate, None))
        schema = schema_of(part)
        columns = [*zip(*found, strict=True)] or [()] * len(schema)
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def schema_of(part: str) -> pa.Schema:
    return pa.schema([*TYPES[part].items(), *ROW_COLUMNS])


def lines(how: str, name: str, which: str) -> list[dict[str, Any]]:
    text = (FIXTURES / f"fkjoin_{how}" / f"{name}.{which}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def joined(how: str, name: str, plan: Plan) -> Outcome:
    node: Relation = POSITIONS.table().join(TICKERS.table(), on="ticker", how=how)
    operator = relations_of(node, {part: schema_of(part) for part in TYPES})
    return run(operator.steps, Recorded(lines(how, name, "in"), operator), plan)


@pytest.mark.parametrize(("how", "name"), CASES)
@pytest.mark.parametrize("plan", PLANS.values(), ids=[*PLANS])
def test_each_record_changes_the_rows_that_it_changes_in_kafka_streams(
    how: str, name: str, plan: Plan
) -> None:
    outcome = joined(how, name, plan)
    ours = {(row["__sequence"] - 1, row["id"]): shown(row) for row in outcome.rows("changes")}
    told = [row for row in lines(how, name, "out") if row["kind"] == "change"]
    there: dict[str, Any] = {}
    for row in told:
        # Kafka Streams also tells that nothing has changed: a right row that was not there is deleted once more.
        same = there.get(row["key"]) == row["value"]
        assert same or (row["at"], row["key"]) in ours
        there[row["key"]] = row["value"]
    theirs = {(row["at"], row["key"]): row["value"] for row in told}
    assert ours == {at: value for at, value in theirs.items() if at in ours}
    final = {row["key"]: row["value"] for row in lines(how, name, "out") if row["kind"] == "final"}
    assert {key: shown(row) for (key,), row in outcome.current(["id"]).items()} == final


def test_event_times_are_mostly_those_of_kafka_streams() -> None:
    """They are of the rows that a value is made of; in Kafka Streams sometimes of the record that caused it."""
    for how, name in CASES:
        times = {
            (row["__sequence"] - 1, row["id"]): row["__timestamp"]
            for row in joined(how, name, Plan()).rows("changes")
            if not row["__deleted"]
        }
        compared = [
            (times[row["at"], row["key"]], row["timestamp"])
            for row in lines(how, name, "out")
            if row["kind"] == "change" and (row["at"], row["key"]) in times
        ]
        assert sum(ours == theirs for ours, theirs in compared) > 0.8 * len(compared)


def shown(row: Mapping[str, Any]) -> dict[str, Any] | None:
    return None if row["__deleted"] else {name: row[name] for name in SHOWN}

"""The law of batches: the same log gives the same batches, in any cuts, through crashes and drains, live or backfilled.

In each random world every node is compared with an oracle in plain Python: its table, its backfill, its
ledger, and what its sink got. Two nodes that differ in name alone read the log in other cuts, and
some read two topics in one order.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F

import headrace as hr
from headrace import oracle
from headrace.testing.driver import STEPS
from tests.laws import tables
from tests.laws.changelogs import ledger
from tests.laws.driving import WORLDS, in_parallel, side_by_side
from tests.laws.plain import fates, holds, row_of
from tests.laws.plain import shown as in_ms
from tests.oracle.batches_log_oracle import Log, Moment, Record, sequence

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, Row

    from headrace.description import Batches as BatchNode
    from headrace.sinks import Delivery
    from headrace.testing import TestDriver

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SECOND = 1_000
VISITS, CALLS = (
    hr.Topic(name, key="customer STRING", value="visitor STRING, seen INT, tags MAP<STRING, INT>")
    for name in ("visits", "calls")
)


@dataclass
class Remembering:
    """A sink that keeps what it was given, by identity."""

    name: str = "memory"
    rows: dict[str, Row] = field(default_factory=dict)

    def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
        for row in rows.withColumn("__sequence", F.col("__sequence")).collect():
            self.rows[row[delivery.identity[0]]] = row


@dataclass(frozen=True)
class Subject:
    """A node under test, and its sink."""

    node: BatchNode
    sink: Remembering

    @property
    def name(self) -> str:
        return self.node.required_name

    def expected(self, logs: Mapping[str, Log]) -> oracle.Results:
        """What the logs of its topics lead to."""
        rows = [row for topic in self.node.topics for row in self._rows(topic.name, logs[topic.name])]
        return oracle.results(self.node, oracle.Log({"result": rows}))

    def _rows(self, topic: str, log: Log) -> Iterator[dict[str, Any]]:
        steps = self.node.stream.branches[0].steps
        for at, records, drained in log.commits:
            for record, offset in records or ():
                fate = None if record.kind == "record" else record.kind
                values = {**dict.fromkeys(COLUMNS), **(record.value if fate is None else {})}
                values["customer"] = None if fate == "dead_letter" else record.key
                if fate is None and not all(_holds(step, values) for step in steps):
                    fate = "filtered"
                event_ms = None if fate == "dead_letter" else record.value["seen"] * SECOND
                yield row_of((at, topic, record.partition, offset), values, event_ms, None, fate, record.size)
            if records is None:
                place = (at, topic, 0, None)
                yield row_of(place, dict.fromkeys(COLUMNS), None, None, "drain" if drained else "tick")


def _holds(step: Any, values: dict[str, Any]) -> bool:
    """As `holds`; `seen % 5` is a column there."""
    step = replace(step, expression=step.expression.replace("seen % 5", "rest"))
    return holds(step, {**values, "rest": values["seen"] % 5})


def subject(name: str, *, regrouped: bool = False, merged: bool = False, **limits: Any) -> Subject:
    sink, stream = Remembering(), VISITS.merge(CALLS) if merged else VISITS.stream
    if regrouped:
        grouped = stream.where("seen % 5 <> 0").group_by("visitor")
        node = grouped.batch(collect=["seen", "customer"], **limits)
    else:
        node = stream.group_by().batch(collect=["seen", "tags"], **limits)
    return Subject(node.to(sink).named(name), sink)


COLUMNS = ("customer", "visitor", "seen", "tags")
SUBJECTS = [
    subject("by_count", max_records=3),
    subject("by_wait", max_wait="3 seconds"),
    subject("by_both", max_records=2, max_wait="5 seconds"),
    subject("by_both_twin", max_records=2, max_wait="5 seconds"),
    subject("by_all", max_records=4, max_bytes=150, max_wait="8 seconds", regrouped=True),
    subject("merged_by_both", max_records=3, max_wait="5 seconds", merged=True),
    subject("merged_by_all", max_records=5, max_bytes=200, max_wait="6 seconds", regrouped=True, merged=True),
]
NAMES = [subject.name for subject in SUBJECTS]
WAITS = [0, 0, 1, 999, 1_000, 2_000, 3_000, 4_999, 5_000, 60_000]


@dataclass(frozen=True)
class Step:
    """One cut: how long to wait before it, what arrives, which nodes run; a drain ends it, and then all run."""

    wait_ms: int
    arrivals: tuple[tuple[str, int, str | None, str, str], ...]
    runs: frozenset[str]
    drain: bool


ARRIVAL = st.tuples(
    st.sampled_from(["visits", "visits", "calls"]),
    st.sampled_from([0, 0, 0, 1, 2]),
    st.sampled_from(["a", "b", "a", "c", "ü", None]),
    st.sampled_from(["v", "w"]),
    st.sampled_from(["record"] * 9 + ["tombstone", "dead_letter"]),
)
STEP = st.builds(
    Step,
    wait_ms=st.sampled_from(WAITS),
    arrivals=st.lists(ARRIVAL, max_size=8).map(tuple),
    runs=st.frozensets(st.sampled_from(NAMES), max_size=len(NAMES) // 2),
    drain=st.sampled_from([False, False, False, True]),
)
CRASHES = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(STEPS), max_size=4)


def is_lively(steps: list[Step]) -> bool:
    """True if enough happens to try the law: the first example of Hypothesis is the simplest, an empty log."""
    return sum(len(step.arrivals) for step in steps) >= 10


driver = side_by_side(subject.node for subject in SUBJECTS)


@WORLDS
@given(steps=st.lists(STEP, min_size=3, max_size=5).filter(is_lively), crashes=CRASHES)
def test_batches_are_those_of_the_oracle(
    driver: TestDriver, steps: list[Step], crashes: dict[str, str]
) -> None:
    driver.reset()
    for each in SUBJECTS:
        each.sink.rows.clear()
    waits = {
        topic: {s.node.max_wait_ms or 0 for s in SUBJECTS if topic in s.node.topics} - {0}
        for topic in (VISITS, CALLS)
    }
    moments = live_through(driver, steps, crashes)
    logs = sequence(moments, {topic.name: of_nodes for topic, of_nodes in waits.items()})
    for topic, log in logs.items():
        assert commit_times(driver, topic) == [at for at, _, _ in log.commits]
    found = in_parallel(partial(check, driver, logs), SUBJECTS)
    assert found[2] == found[3]
    driver.spark.catalog.clearCache()


def live_through(driver: TestDriver, steps: list[Step], crashes: dict[str, str]) -> list[Moment]:
    moments, number = [], 0
    for node, mark in crashes.items():
        driver.crash(mark, node)
    for index, step in enumerate(steps):
        driver.advance_wall_clock(f"{step.wait_ms} ms")
        records = []
        for topic, partition, key, visitor, kind in step.arrivals:
            number += 1
            value = {"visitor": visitor, "seen": number, "tags": {"n": number}}
            text = {"record": json.dumps(value).encode(), "tombstone": None, "dead_letter": b"{"}[kind]
            driver.pipe(topic, key=key, value=text, timestamp_ms=number * SECOND, partition=partition)
            size = len((key or "").encode()) + len(text or b"")
            records.append(Record(partition, key, value, size, kind, topic))
        moments.append(Moment(driver.now_ms, records, step.drain))
        if step.drain:
            driver.drain()
        else:
            driver.cut(NAMES if index == len(steps) - 1 else sorted(step.runs))
    return moments


def commit_times(driver: TestDriver, topic: str) -> list[int]:
    rows = driver.log(topic).select(F.unix_millis("ingested_at").alias("at")).distinct().collect()
    return sorted(row["at"] for row in rows)


def check(driver: TestDriver, logs: Mapping[str, Log], subject: Subject) -> object:
    """Compare all that a node has with the oracle's; what it holds."""
    name, expected = subject.name, subject.expected(logs)
    wanted = {row["batch_id"]: as_row(subject, row) for row in expected.rows}

    read = by_id(subject, driver.read(name))
    assert read == wanted
    assert by_id(subject, driver.backfill(name)) == wanted

    counted = ledger(driver.ledger(name))
    assert counted == fates(expected)

    ordinals: Counter[int] = Counter()
    order = []
    for row in expected.rows:
        closed = row["__sequence"]
        order.append((row["batch_id"], closed, ordinals[closed]))
        ordinals[closed] += 1
    delivered = [(key, row["__sequence"], row["__ordinal"]) for key, row in subject.sink.rows.items()]
    assert sorted(delivered, key=lambda row: row[1:]) == order
    return read, order, counted


def as_row(subject: Subject, row: dict[str, Any]) -> tuple[Any, ...]:
    (group,) = subject.node.by
    seen = tuple(event["seen"] for event in row["events"])
    times = (in_ms(row["opened_at"]), in_ms(row["closed_at"]))
    return row[group], seen, row["records"], *times, row["closed_by"]


def by_id(subject: Subject, frame: DataFrame) -> dict[str, tuple[Any, ...]]:
    (group,) = subject.node.by
    columns = [name for name in frame.columns if not name.startswith("__")]
    found: dict[str, tuple[Any, ...]] = {}
    for row in tables.rows(frame.select(*columns)):
        assert row["batch_id"] not in found, "a batch occurs twice"
        events = [event.asDict() for event in row["events"]]
        assert all(event.get("tags", {"n": event["seen"]}) == {"n": event["seen"]} for event in events)
        seen = tuple(event["seen"] for event in events)
        found[row["batch_id"]] = (
            row[group], seen, row["records"], row["opened_at"], row["closed_at"], row["closed_by"]
        )  # fmt: skip
    return found

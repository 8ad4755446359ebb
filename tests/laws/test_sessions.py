"""The law of sessions: the same log gives the same sessions, in any cuts, through crashes and ticks, live or backfilled.

In each random world every node is compared with an oracle in plain Python: its table, its backfill, its
updates, late records and ledger. Two nodes that differ in name alone read the log in other cuts, and
their sinks get the same rows at the same places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

import headrace as hr
from headrace.nodes.operator_frames import operator_of
from tests.laws import tables
from tests.laws.driving import WORLDS, in_parallel, live_through, side_by_side
from tests.laws.plain import fates, results_of_log
from tests.laws.plain import shown as in_ms
from tests.laws.worlds import SECOND, World, is_lively, topic, worlds
from tests.oracle.log_oracle import Log, sequence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from headrace.description import WindowedAggregate
    from headrace.sinks import Delivery
    from headrace.testing import TestDriver

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TOPIC = topic("longs", "BIGINT", "5 seconds")
Shown = tuple[Any, ...]  # key, first and last event, then the aggregates


@dataclass
class Remembering:
    """A sink that keeps what it was given, in the order of the deliveries; one that is repeated changes nothing."""

    name: str = "memory"
    rows: list[Row] = field(default_factory=list)

    def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
        found = [row for row in tables.rows(rows) if row not in self.rows]
        self.rows += sorted(found, key=lambda row: (row["__sequence"], row["__ordinal"]))


@dataclass(frozen=True)
class Subject:
    """A node under test, and its sink."""

    node: WindowedAggregate
    sink: Remembering

    @property
    def name(self) -> str:
        return self.node.required_name


def subject(name: str, gap: int, grace: int, *, suppressed: bool = True, filtered: bool = False) -> Subject:
    stream, sink = TOPIC.where("value >= 0") if filtered else TOPIC.stream, Remembering()
    aggregate = stream.group_by().window(hr.session(gap), grace=grace)
    node = aggregate.aggregate(
        n=hr.count(),
        total=hr.sum("value"),
        lowest=hr.min("value"),
        highest=hr.max("value"),
        mean=hr.avg("value"),
    )
    node = node.suppress(hr.until_window_closes()) if suppressed else node
    return Subject(node.to(sink).named(name), sink)


SUBJECTS = [
    subject("graced", 1 * SECOND, 3 * SECOND),
    subject("graced_twin", 1 * SECOND, 3 * SECOND),
    subject("graceless", 2 * SECOND, 0, suppressed=False),
    subject("patient", 1_500, 12 * SECOND, suppressed=False, filtered=True),
]
NAMES = [subject.name for subject in SUBJECTS]


driver = side_by_side(subject.node for subject in SUBJECTS)


@WORLDS
@given(world=worlds((TOPIC.name,), tuple(NAMES)).filter(is_lively))
def test_sessions_are_those_of_the_oracle(driver: TestDriver, world: World) -> None:
    driver.reset()
    for each in SUBJECTS:
        each.sink.rows.clear()
    commits = live_through(world, driver)[TOPIC.name]
    log = sequence(commits, TOPIC.idle_timeout_ms, max(s.node.longest_wait_ms for s in SUBJECTS))
    decided = {(arrival.partition, offset): stream for arrival, offset, stream in log.rows}
    assert tables.stream_times(driver, TOPIC.name) == decided
    found = in_parallel(partial(check, driver, log), SUBJECTS)
    assert found[0] == found[1]
    driver.spark.catalog.clearCache()


def check(driver: TestDriver, log: Log, subject: Subject) -> object:
    """Compare all tables of a node with the oracle's; what they hold."""
    name, expected = subject.name, results_of_log(subject.node, log)
    final, still_open = shown(expected.rows), shown(expected.open)

    read = rows(driver.read(name))
    assert read == (
        final if subject.node.suppression is not None else sorted([*final, *still_open], key=repr)
    )
    assert rows(driver.backfill(name)) == read

    alone = Counter(
        row[:3] for row in [*final, *still_open]
    )  # a key may have the same session in two partitions
    updates = folded(tables.rows(driver.updates(name)))
    assert updates.keys() == alone.keys()
    assert [row for row in updates.values() if alone[row[:3]] == 1] == [
        row for row in sorted([*final, *still_open], key=repr) if alone[row[:3]] == 1
    ]

    late = tables.late(tables.rows(driver.late(name)))
    assert late == Counter(missed[1:4] for missed in expected.late)

    ledger = tables.ledger(tables.rows(driver.ledger(name)))
    assert ledger == {at[1:]: records for at, records in fates(expected).items()}
    assert sum(ledger.values()) == len(log.rows)

    places = [(row["__sequence"], row["__ordinal"]) for row in subject.sink.rows]
    assert places == sorted(set(places)), "sinks get sessions in the log's order, each at its own place"
    stored = driver.spark.read.format("delta").load(driver._lake.table(name))
    again = tables.rows(operator_of(subject.node).emitted(stored))
    assert sorted(again, key=repr) == sorted(subject.sink.rows, key=repr)
    return read, late, ledger, [tuple(row) for row in subject.sink.rows]


def rows(frame: DataFrame) -> list[Shown]:
    columns = [name for name in frame.columns if not name.startswith("__")]
    return sorted((tuple(row) for row in tables.rows(frame.select(*columns))), key=repr)


def shown(found: Iterable[dict[str, Any]]) -> list[Shown]:
    """The oracle's sessions as users see them."""
    columns = SUBJECTS[0].node.columns
    return sorted((tuple(in_ms(row[name]) for name in columns) for row in found), key=repr)


def folded(updates: Iterable[Row]) -> dict[Shown, Shown]:
    """The last word on each session: the row with the highest `__batch`, nulls last; nulls alone are a tombstone."""
    last: dict[Shown, tuple[float, Shown]] = {}
    for row in updates:
        *values, batch = tuple(row)
        rank = float("inf") if batch is None else float(batch)
        if rank >= last.get(tuple(values[:3]), (-1.0, ()))[0]:
            last[tuple(values[:3])] = (rank, tuple(values))
    standing = [row for _, row in last.values() if row[3] is not None]
    return {row[:3]: row for row in sorted(standing, key=repr)}

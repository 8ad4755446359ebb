"""The law of suppression: in any cuts, through crashes, or backfilled, what leaves is what a plain Python oracle lets go,
also when people change limits on the way, to values that a node cannot have too.

The oracle reads the log itself, partition by partition and row by row: ticks are decisions that the log records.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace import oracle
from headrace.description import Table
from tests.laws import tables
from tests.laws.changelogs import STEPS
from tests.laws.driving import FEW, in_parallel, side_by_side
from tests.laws.plain import fates, row_of
from tests.laws.plain import shown as in_ms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from headrace.description import Suppressed
    from headrace.sinks import Delivery
    from headrace.testing import TestDriver

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SECOND, BEGIN_MS = 1_000, 1_700_000_000_000
CUTS, RECORDS = 4, 30
EVENTS = hr.Topic("events", key="key STRING", value="value BIGINT")
LOGGED = (
    "ingested_at", "kind", "partition", "offset", "timestamp", "stream_time", "tombstone", "size_bytes", "key.key",
    "value.value", "control",
)  # fmt: skip
KEYS = {"a": 0, "b": 1, "c": 0, "d": 1, "e": 0, "ü": 1, "f": 0}  # each in its partition
TOTALS: dict[str, Any] = {
    "n": hr.count(), "total": hr.sum("value"), "first": hr.first("value"), "some": hr.collect("value", max_items=3),
}  # fmt: skip


class Places:
    """A sink that checks that what it gets moves on, and keeps each row by its place."""

    def __init__(self) -> None:
        self.name = "places"
        self.rows: dict[tuple[int, int], dict[str, Any]] = {}

    def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
        for row in tables.rows(rows):
            place = (row["__sequence"], row["__ordinal"])
            assert self.rows.setdefault(place, row.asDict()) == row.asDict(), "another row at the same place"


@dataclass(frozen=True)
class Subject:
    """A node under test, and its sink."""

    node: Suppressed
    sink: Places

    @property
    def name(self) -> str:
        return self.node.required_name

    @property
    def of_table(self) -> bool:
        return isinstance(self.node.updated, Table)


def subject(name: str, limit: int, updated: Any, **bound: Any) -> Subject:
    sink = Places()
    policy = hr.until_time_limit(limit, **bound, when_full="emit_early" if bound else "spill")
    return Subject(updated.suppress(policy).to(sink).named(name), sink)


def windows(size: int, advance: int, grace: int) -> Any:
    window = hr.hopping(size * SECOND, advance * SECOND)
    return EVENTS.group_by().window(window, grace=grace * SECOND).aggregate(**TOTALS)


ROWS = EVENTS.table().where("coalesce(value, 0) >= 0")
SUMS = EVENTS.where("value <> 3").group_by().aggregate(**TOTALS)
SUBJECTS = [
    subject("rows", 3 * SECOND, ROWS),
    subject("totals", 4 * SECOND, SUMS),
    subject("at_once", 0, SUMS),
    subject("overlapping", 5 * SECOND, windows(8, 3, 2)),
    subject("few_rows", 60 * SECOND, ROWS, max_records=3),
    subject("few_windows", 6 * SECOND, windows(6, 4, 1), max_records=2),
    subject("small", 8 * SECOND, SUMS, max_bytes=40),
]
NAMES = [subject.name for subject in SUBJECTS]


driver = side_by_side(subject.node for subject in SUBJECTS)


@FEW
@given(seed=st.integers(0, 2**32))
def test_streamed_in_any_cuts_and_backfilled_what_leaves_is_what_the_oracle_lets_go(
    driver: TestDriver, seed: int
) -> None:
    driver.reset()
    for subject in SUBJECTS:
        subject.sink.rows.clear()
    live(driver, Random(seed))
    log = tables.rows(driver.log(EVENTS.name).select(*LOGGED))
    in_parallel(lambda subject: check(driver, subject, log), SUBJECTS)
    driver.spark.catalog.clearCache()


def live(driver: TestDriver, random: Random) -> None:
    """A few cuts around a moving event time, in each of which some nodes run and some die; at the end all have run."""
    for name in random.sample(NAMES, 4):
        driver.crash(random.choice(STEPS), name)
    for cut in range(1, CUTS + 1):
        for subject in random.sample(SUBJECTS, random.choice([0, 2, 3])):
            driver._sequencers[EVENTS.name].set_limits(subject.name, some_limits(random))
        driver.advance_wall_clock(random.choice(["1 second", "1 second", "61 seconds"]))
        for _ in range(random.choice([0, RECORDS // 2, RECORDS])):
            key, offset = random.choice([*KEYS, None]), random.randrange(-16, 10) * 500
            value: Any = random.choice([None, {"value": None}, b"{", *[{"value": n} for n in range(-2, 9)]])
            ts = BEGIN_MS + cut * 5 * SECOND + offset
            driver.pipe(EVENTS.name, key=key, value=value, timestamp_ms=ts, partition=KEYS.get(key or "", 0))
        driver.cut(NAMES if cut == CUTS else [name for name in NAMES if random.random() < 0.6])


def some_limits(random: Random) -> dict[str, int | None]:
    """A change of one limit or two, as a control row can hold it: what a person asks for is looked at before it is written."""
    values: dict[str, Any] = {
        "limit_ms": [-SECOND, 0, 2 * SECOND, 5 * SECOND, 20 * SECOND, 90 * SECOND],
        "max_records": [0, None, 1, 2, 4, 50],
        "max_bytes": [0, None, 15, 60, 500],
    }
    names = random.sample(list(values), random.choice([1, 1, 2]))
    return {name: random.choice(values[name]) for name in names}


def check(driver: TestDriver, subject: Subject, log: list[Row]) -> None:
    """Compare all that is read of a node with the oracle's."""
    plain = [row for each in log if (row := plain_row(each, subject)) is not None]
    expected = oracle.results(subject.node, oracle.Log({"result": plain}))
    stored = tables.rows(driver.spark.read.format("delta").load(driver._lake.table(subject.name)))
    wanted = [as_read({name: in_ms(value) for name, value in row.items()}) for row in expected.rows]
    assert Counter(as_read(row.asDict()) for row in stored) == Counter(wanted)
    assert sum(row["__early"] for row in stored) == sum(row["__early"] for row in expected.rows)
    for frame in (driver.read(subject.name), driver.backfill(subject.name)):
        assert Counter(as_read(row.asDict()) for row in tables.rows(frame)) == untimed(wanted)
    delivered = [row for _, row in sorted(subject.sink.rows.items())]
    assert [as_read(row) for row in delivered] == wanted
    changes = [row.asDict() for row in tables.rows(driver.updates(subject.name).orderBy("__batch"))]
    folded = {(row["key"], row.get("window_start", 0)): values(row) for row in changes}
    assert folded == last_updates(subject, plain)
    assert tables.ledger(tables.rows(driver.ledger(subject.name))) == Counter(
        {at[1:]: n for at, n in fates(expected).items()}
    )


def plain_row(row: Row, subject: Subject) -> dict[str, Any] | None:
    """A row of the log after the node's steps; None: it only says where the log stands."""
    kind, said = row["kind"], row["control"]
    if kind == "control" and json.loads(said)["action"] != "set_limits":
        return None
    fate = None if kind == "record" else "set_limits" if kind == "control" else kind
    if fate is None and row["tombstone"]:
        fate = "tombstone"
    if fate is None and subject.node.updated == SUMS and (row["value"] is None or row["value"] == 3):
        fate = "filtered"
    place = (row["ingested_at"], EVENTS.name, row["partition"], row["offset"])
    values = {"key": row["key"], "value": row["value"]}
    times = (None if fate == "dead_letter" else row["timestamp"], row["stream_time"])
    found = row_of(place, values, *times, fate, row["size_bytes"] or 0)
    kept = row["value"] is None or row["value"] >= 0
    return found | {"__reason": said, "__passes": kept or not subject.of_table}


def last_updates(subject: Subject, plain: list[dict[str, Any]]) -> dict[Any, tuple[Any, ...]]:
    """What each entry was worth after its last update, whether it has left or not: nothing waits in a log without limits."""
    policy = hr.until_time_limit(0)
    at_once = replace(subject.node, policy=policy, sinks=())
    rows = [row for row in plain if row["__fate"] != "set_limits"]
    left = oracle.results(at_once, oracle.Log({"result": rows})).rows
    shown = [{name: in_ms(value) for name, value in row.items()} for row in left]
    return {(row["key"], row.get("window_start", 0)): values(row) for row in shown}


def as_read(row: dict[str, Any]) -> tuple[Any, ...]:
    return (row.get("__timestamp"), row["key"], row.get("window_start", 0), *values(row))


def values(row: dict[str, Any]) -> tuple[Any, ...]:
    return (row["value"],) if "value" in row else (row["n"], row["total"], row["first"], tuple(row["some"]))


def untimed(wanted: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    return Counter((None, *row[1:]) for row in wanted)

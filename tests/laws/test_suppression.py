"""The law of suppression: in any cuts, through crashes, or backfilled, what leaves is what a plain Python oracle lets go,
also when people change limits on the way, to values that a node cannot have too.

The oracle reads the log itself, partition by partition and row by row: ticks are decisions that the log records.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from tests.laws import tables
from tests.laws.changelogs import STEPS
from tests.laws.driving import FEW, in_parallel, side_by_side
from tests.oracle.suppression_oracle import Emission, Suppressor, Update

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
    """A node under test, with what the oracle has to know of it. Times in ms; size 0: no windows."""

    name: str
    limit: int
    table: bool = False
    size: int = 0
    advance: int = 0
    grace: int = 0
    max_records: int | None = None
    max_bytes: int | None = None
    sink: Places = field(default_factory=Places)

    @property
    def node(self) -> Suppressed:
        bounded = self.max_records or self.max_bytes
        policy = hr.until_time_limit(
            self.limit,
            max_records=self.max_records,
            max_bytes=self.max_bytes,
            when_full="emit_early" if bounded else "spill",
        )
        if self.table:
            node = EVENTS.table().where("coalesce(value, 0) >= 0").suppress(policy)
        elif self.size:
            windowed = EVENTS.group_by().window(hr.hopping(self.size, self.advance), grace=self.grace)
            node = windowed.aggregate(**TOTALS).suppress(policy)
        else:
            node = EVENTS.where("value <> 3").group_by().aggregate(**TOTALS).suppress(policy)
        return node.to(self.sink).named(self.name)


SUBJECTS = [
    Subject("rows", 3 * SECOND, table=True),
    Subject("totals", 4 * SECOND),
    Subject("at_once", 0),
    Subject("overlapping", 5 * SECOND, size=8 * SECOND, advance=3 * SECOND, grace=2 * SECOND),
    Subject("few_rows", 60 * SECOND, table=True, max_records=3),
    Subject("few_windows", 6 * SECOND, size=6 * SECOND, advance=4 * SECOND, grace=SECOND, max_records=2),
    Subject("small", 8 * SECOND, max_bytes=40),
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
    left: list[tuple[tuple[int, int], Emission]] = []
    fates, last = Counter[tuple[int, str]](), dict[Any, Any]()
    for partition in sorted({row["partition"] for row in log}):
        rows = sorted(
            (row for row in log if row["partition"] == partition),
            key=lambda row: (row["ingested_at"], row["offset"] is None, row["offset"]),
        )
        suppressor = Suppressor(subject.limit, subject.max_records, subject.max_bytes)
        for row, updates, fate in decided(rows, subject):
            fates[partition, fate] += 1
            for update in updates:
                left += [((row["ingested_at"], partition), e) for e in suppressor.put(update)]
                if update.entry:
                    last[update.entry] = update.value
        fates[partition, "open"] = suppressor.waiting
        fates[partition, "used"] -= suppressor.waiting
    left.sort(key=lambda emission: emission[0])  # stable: in a partition and commit as they left

    stored = tables.rows(driver.spark.read.format("delta").load(driver._lake.table(subject.name)))
    wanted = [shown(subject, e) for _, e in left]
    assert Counter(as_read(row.asDict()) for row in stored) == Counter(wanted)
    early = [e for _, e in left if e.early]
    assert sum(row["__early"] for row in stored) == len(early)
    for frame in (driver.read(subject.name), driver.backfill(subject.name)):
        assert Counter(as_read(row.asDict()) for row in tables.rows(frame)) == untimed(wanted)
    delivered = [row for _, row in sorted(subject.sink.rows.items())]
    assert [as_read(row) for row in delivered] == wanted
    changes = [row.asDict() for row in tables.rows(driver.updates(subject.name).orderBy("__batch"))]
    folded = {(row["key"].encode(), row.get("window_start", 0)): values(row) for row in changes}
    assert folded == {entry: shown_value(subject, value) for entry, value in last.items()}
    assert tables.ledger(tables.rows(driver.ledger(subject.name))) == Counter(
        {at: n for at, n in fates.items() if n and at[1] not in ("tick", "control")}
    )


def decided(rows: list[Row], subject: Subject) -> Iterator[tuple[Row, list[Update], str]]:
    """Each row of a partition with the updates that it makes, and its fate."""
    worth: dict[Any, list[tuple[int, Any]]] = defaultdict(list)
    for number, row in enumerate(rows):
        if row["kind"] == "tick":
            yield row, [Update((number, 0), row["stream_time"])], "tick"
            continue
        if row["kind"] == "control":
            said = json.loads(row["control"])
            own = said["node"] == subject.name
            yield row, [Update((number, 0), None, limits=said["limits"])] if own else [], "control"
            continue
        fate = fate_of(row, subject)
        key, ts, value = (row["key"] or "").encode(), row["timestamp"], row["value"]
        starts, updates = [0], []
        if fate == "used" and subject.size:
            first = max(0, (ts - subject.size) // subject.advance + 1) * subject.advance
            starts = [
                start
                for start in range(first, ts + 1, subject.advance)
                if start + subject.size + subject.grace > row["stream_time"]
            ]
            fate = fate if starts else "late"
        for start in starts if fate == "used" else []:
            entry = (key, start)
            if subject.table:
                gone = row["tombstone"] or (value is not None and value < 0)
                updates.append(Update((number, start), ts, entry, (gone, value), row["size_bytes"]))
            else:
                worth[entry].append((ts, value))
                highest = max(each for each, _ in worth[entry])
                own = tuple(each for _, each in worth[entry])
                updates.append(Update((number, start), highest, entry, own, row["size_bytes"]))
        yield row, updates, fate


def fate_of(row: Row, subject: Subject) -> str:
    if row["kind"] == "dead_letter":
        return "dead_letter"
    if row["tombstone"] and not subject.table:
        return "tombstone"
    plain = not subject.table and not subject.size
    if plain and (row["value"] is None or row["value"] == 3):
        return "filtered"
    return "dead_letter" if row["key"] is None else "used"


def shown(subject: Subject, emission: Emission) -> tuple[Any, ...]:
    (key, start), value = emission.entry, shown_value(subject, emission.value)
    return (emission.ts, key.decode(), start, *value)


def shown_value(subject: Subject, value: Any) -> tuple[Any, ...]:
    if subject.table:
        return (None if value[0] else value[1],)
    known = [each for each in value if each is not None]
    return (len(value), sum(known) if known else None, value[0], tuple(known[:3]))


def as_read(row: dict[str, Any]) -> tuple[Any, ...]:
    return (row.get("__timestamp"), row["key"], row.get("window_start", 0), *values(row))


def values(row: dict[str, Any]) -> tuple[Any, ...]:
    return (row["value"],) if "value" in row else (row["n"], row["total"], row["first"], tuple(row["some"]))


def untimed(wanted: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    return Counter((None, *row[1:]) for row in wanted)

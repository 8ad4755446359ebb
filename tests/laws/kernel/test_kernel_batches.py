"""The law of batches in the kernel: any cuts, buckets, repeats and upkeep lead to what the oracle finds record by record."""

from __future__ import annotations

import datetime
import math
import os
from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.fold.batches import BatchedSink
from headrace.fold.keys import with_keys
from tests.laws.kernel.harness import ONE_GO, Outcome, Plan, plans, run
from tests.laws.kernel.logs import SECOND, Sequenced, World, size_of, worlds
from tests.oracle import batches_oracle as oracle
from tests.oracle.log_oracle import Arrival, Commit, sequence

pytestmark = pytest.mark.fast

FEW = settings(max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "25")), deadline=None)
ONE, TWO = (hr.Topic(name, key="key STRING", value="value BIGINT") for name in ("one", "two"))
VALUES = st.one_of(st.none(), st.integers(-5, 5), st.integers(-(10**12), 10**12))
DRAINS = ("drain", "drain", "control")
LIMITS: list[dict[str, Any]] = [
    {"max_records": 1},
    {"max_records": 3},
    {"max_wait": "1 ms"},
    {"max_wait": "2 seconds"},
    {"max_records": 2, "max_wait": "61 seconds"},
    {"max_bytes": 13},
    {"max_records": 4, "max_bytes": 20, "max_wait": "7 seconds"},
]


def batched(limits: dict[str, Any], world: World) -> BatchedSink:
    stream = ONE.merge(TWO) if len(world.topics) > 1 else ONE
    node = stream.group_by("key").batch(collect=["value", "key"], **limits).named("batches")
    return BatchedSink.of(node, world.schema)


@FEW
@given(
    limits=st.sampled_from(LIMITS),
    world=st.sampled_from([("one",), ("one", "two")]).flatmap(
        lambda topics: worlds(VALUES, pa.int64(), topics, controls=DRAINS)
    ),
    plan=plans(),
)
def test_batches_are_those_of_the_oracle_in_any_cuts_and_buckets(
    limits: dict[str, Any], world: World, plan: Plan
) -> None:
    mine = batched(limits, world)
    found = run(mine.steps, world, plan)
    expected = batches_of(world, mine)
    assert shown(found) == [as_shown(batch) for batch in expected.closed]
    assert fates(mine, found) == +expected.fates
    assert sorted(map(repr, found.rows())) == sorted(map(repr, run(mine.steps, world, ONE_GO).rows()))


def batches_of(world: World, mine: BatchedSink) -> oracle.Batches:
    limits = mine.limits
    return oracle.batches(
        oracle.together(log_of(world)),
        group=lambda record: record.key,
        keep=lambda record: True,
        max_records=limits.max_records,
        max_wait=limits.max_wait_ms,
        max_bytes=limits.max_bytes,
    )


def log_of(world: World) -> list[oracle.Log]:
    """The logs of a world as the oracle of batches takes them; the value of a record holds its event time, too."""
    logs = []
    for each in world.logs:
        commits: dict[int, Any] = {at: (None, False) for at, _ in each.log.clocks}
        for at, (arrival, offset, _) in zip(each.log.ingested, each.log.rows, strict=True):
            record = oracle.Record(
                arrival.partition, arrival.key, (arrival.value, arrival.ts), size_of(arrival), arrival.kind, each.topic
            )  # fmt: skip
            commits[at] = ([*(commits[at][0] or []), (record, offset)], False)
        commits |= {control.at: (None, control.action == "drain") for control in each.controls}
        logs.append(oracle.Log([(at, *commits[at]) for at in sorted(commits)]))
    return logs


def as_shown(batch: oracle.Batch) -> tuple[Any, ...]:
    return (
        f"{batch.topic}/{batch.partition}/{batch.offset}/{batch.key}",
        batch.key,
        [{"value": value, "key": batch.key} for value, _ in batch.values],
        len(batch.values),
        batch.opened,
        batch.closed,
        batch.closed_by,
        batch.bytes,
        max(ts for _, ts in batch.values),
    )


def shown(found: Outcome) -> list[tuple[Any, ...]]:
    """Results in the order of sinks."""
    rows = found.rows()
    assert all(row["__sequence"] == ms(row["closed_at"]) for row in rows)
    rows.sort(
        key=lambda r: (r["__sequence"], r["opened_at"], r.get("__topic"), r["__partition"], r["__offset"])
    )
    names = ("batch_id", "key", "events", "records")
    return [
        (
            *(row[name] for name in names),
            ms(row["opened_at"]),
            ms(row["closed_at"]),
            *(row[name] for name in ("closed_by", "__bytes", "__timestamp")),
        )
        for row in rows
    ]


def fates(mine: BatchedSink, found: Outcome) -> Counter[tuple[str, int, str]]:
    """Kept records are open or used."""
    counted = Counter({at: records for at, records in found.fates.items() if at[2] != "kept"})
    kept = Counter({at[:2]: records for at, records in found.fates.items() if at[2] == "kept"})
    for row in mine.open_records(found.state[1]["waiting"], found.clock).to_pylist():
        at = (row["__topic"], row["__partition"])
        counted[(*at, "open")] += row["records"]
        kept[at] -= row["records"]
    for at, records in kept.items():
        counted[(*at, "used")] += records
    return +counted


def ms(moment: datetime.datetime) -> int:
    return round(moment.timestamp() * 1000)


ODD = [0.0, -0.0, math.nan, 1.5, None]
STRUCT = pa.struct(
    [("d", pa.decimal128(9, 2)), ("m", pa.map_(pa.string(), pa.float64())), ("b", pa.list_(pa.binary()))]
)
STRUCTS = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {
            "d": st.one_of(st.none(), st.integers(-99, 99).map(lambda n: Decimal(n) / 4)),
            "m": st.one_of(st.none(), st.lists(st.tuples(st.sampled_from("xy"), st.just(0.5)), max_size=1)),
            "b": st.one_of(st.none(), st.lists(st.sampled_from([b"", b"\0\xff", None]), max_size=2)),
        }
    ),
)


@FEW
@given(world=worlds(STRUCTS, STRUCT, ("one",), ODD, controls=DRAINS), plan=plans())  # type: ignore[arg-type]
def test_any_types_are_grouped_and_collected(world: World, plan: Plan) -> None:
    world = World(world.logs, world.value, pa.float64())
    topic = hr.Topic(
        "one",
        key="key DOUBLE",
        value="value STRUCT<d: DECIMAL(9, 2), m: MAP<STRING, DOUBLE>, b: ARRAY<BINARY>>",
    )
    node = (
        topic.group_by("key").batch(collect=["value"], max_records=3, max_wait="8 seconds").named("batches")
    )
    mine = BatchedSink.of(node, world.schema)
    found = run(mine.steps, world, plan)
    expected = oracle.batches(
        oracle.together(log_of(world)), lambda r: name_of(r.key), lambda r: True, 3, 8 * SECOND, None
    )
    got = [
        (row["batch_id"].rsplit("/", 1)[1], [event["value"] for event in row["events"]], row["closed_by"])
        for row in sorted(found.rows(), key=lambda row: row["batch_id"])
    ]
    closed = sorted(expected.closed, key=lambda b: f"{b.topic}/{b.partition}/{b.offset}/{b.key}")
    assert got == [(b.key, [value for value, _ in b.values], b.closed_by) for b in closed]
    assert all(math.copysign(1, row["key"]) == 1 for row in found.rows())


def name_of(key: Any) -> str | None:
    """How the group is written in a batch's name."""
    if key is None:
        return None
    return '{"key":"NaN"}' if math.isnan(key) else f'{{"key":{key + 0.0}}}'


def test_a_group_whose_last_batch_has_closed_by_its_deadline_gathers_the_records_of_the_next_alone() -> None:
    records = [Arrival(0, "a", 0, 1), Arrival(0, "b", 0, 2), Arrival(0, "a", 0, 3), Arrival(0, "b", 0, 4)]
    moments = [Commit(1_000, records[:1]), Commit(5_000, records[1:3]), Commit(9_000, records[3:])]
    world = World([Sequenced("one", sequence(moments, None, 0))], pa.int64())
    mine = batched({"max_wait": "3 seconds"}, world)
    state = [step.state["open" if number == 0 else "waiting"] for number, step in enumerate(mine.steps)]
    known, found, before = [table.empty() for table in state], [], dict[str, int]()
    for number, at in enumerate(world.commits()):
        rows, times = world.increment(before, {"one": at})
        rows, before = with_keys(rows, mine.by), {"one": at}
        for place, (step, name) in enumerate(zip(mine.steps, ("open", "waiting"), strict=True)):
            folded = step.fold(
                rows, {name: known[place]}, times
            )  # a caller that hands over everything that it has
            gained = folded.changes[name]
            marked = gained.append_column("__batch", pa.array([number] * gained.num_rows, pa.int32()))
            known[place] = state[place].merge(pa.concat_tables([known[place], marked]))
            rows = rows if folded.rows is None else folded.rows
        found += folded.outputs["results"].to_pylist()
    assert [(row["key"], [event["value"] for event in row["events"]]) for row in found] == [
        ("a", [1]),
        ("b", [2]),
        ("a", [3]),
    ]

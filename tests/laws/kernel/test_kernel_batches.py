"""What the law of every operator leaves out of batches: groups and events of any type, and what a caller hands over too much."""

from __future__ import annotations

import math
import os
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

import headrace as hr
from headrace import oracle
from headrace.fold.keys import with_keys
from headrace.operators.batches.fold import BatchedSink
from tests.laws.kernel.harness import run
from tests.laws.kernel.logs import Sequenced, World, worlds
from tests.laws.kernel.plans import Plan, plans
from tests.laws.kernel.reading import Reading
from tests.oracle.log_oracle import Arrival, Commit, sequence

pytestmark = pytest.mark.fast

FEW = settings(max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "25")), deadline=None)
DRAINS = ("drain", "drain", "control")


ODD = [0.0, -0.0, math.nan, 1.5, None]
STRUCT = pa.struct(
    [("d", pa.decimal128(9, 2)), ("m", pa.map_(pa.string(), pa.float64())), ("b", pa.list_(pa.binary()))]
)
MAPS: tuple[Any, ...]
LISTS: tuple[Any, ...]
MAPS, LISTS = (None, [], [("x", 0.5)], [("y", 0.5)]), (None, [], [b""], [b"\0\xff", None])


def struct_of(number: int) -> Any:
    """Null, or a value with a DECIMAL, a map and an array."""
    if not number:
        return None
    number, of_map = divmod(number, len(MAPS))
    number, of_list = divmod(number, len(LISTS))
    return {"d": None if not number else Decimal(number) / 4, "m": MAPS[of_map], "b": LISTS[of_list]}


@FEW
@given(world=worlds(struct_of, STRUCT, ("one",), ODD, controls=DRAINS), plan=plans())
@pytest.mark.slow
def test_any_types_are_grouped_and_collected(world: World, plan: Plan) -> None:
    world = World(world.logs, world.value, pa.float64())
    value = "value STRUCT<d: DECIMAL(9, 2), m: MAP<STRING, DOUBLE>, b: ARRAY<BINARY>>"
    topic = hr.Topic("one", key="key DOUBLE", value=value)
    node = topic.group_by("key").batch(collect=["value"], max_records=3, max_wait="8 seconds")
    reading = Reading(node.named("batches"), world)
    found = run(reading.operator.steps, reading, plan).rows()
    wanted = oracle.results(reading.node, reading.log).rows
    assert sorted(map(shown, found)) == sorted(map(shown, wanted))
    assert {row["batch_id"].rsplit("/", 1)[1] for row in found} <= {name_of(key) for key in ODD}
    assert all(row["key"] is None or math.copysign(1, row["key"]) == 1 for row in found)


def shown(row: dict[str, Any]) -> str:
    """What a batch holds; its name is that of its first record and of its group."""
    return repr([row["key"], row["__partition"], row["__offset"], row["events"], row["closed_by"]])


def name_of(key: Any) -> str:
    """How the group is written in a batch's name."""
    if key is None:
        return '{"key":null}'
    return '{"key":"NaN"}' if math.isnan(key) else f'{{"key":{key + 0.0}}}'


def test_a_group_whose_last_batch_has_closed_by_its_deadline_gathers_the_records_of_the_next_alone() -> None:
    records = [Arrival(0, "a", 0, 1), Arrival(0, "b", 0, 2), Arrival(0, "a", 0, 3), Arrival(0, "b", 0, 4)]
    moments = [Commit(1_000, records[:1]), Commit(5_000, records[1:3]), Commit(9_000, records[3:])]
    world = World([Sequenced("one", sequence(moments, None, 0))], pa.int64())
    topic = hr.Topic("one", key="key STRING", value="value BIGINT")
    node = topic.group_by("key").batch(collect=["value", "key"], max_wait="3 seconds").named("batches")
    mine = BatchedSink.of(node, world.schema)
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

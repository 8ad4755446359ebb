"""The law of sessions in the kernel: any cuts, buckets, repeats and upkeep lead to what the oracle finds record by record."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.fold.keys import with_keys
from headrace.fold.sessions import Sessions
from tests.laws.kernel.harness import Outcome, Plan, plans, run
from tests.laws.kernel.logs import SECOND, World, worlds
from tests.oracle.log_oracle import Log
from tests.oracle.sessions_oracle import Group, Session, sessions
from tests.oracle.windows_oracle import aggregates

pytestmark = pytest.mark.fast

FEW = settings(max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "12")), deadline=None)
TOPIC = hr.Topic("t", key="key STRING", value="value BIGINT")
AGGREGATES: dict[str, Any] = {
    "n": hr.count(),
    "total": hr.sum("value"),
    "lowest": hr.min("value"),
    "highest": hr.max("value"),
    "mean": hr.avg("value"),
    "first": hr.first("value"),
    "some": hr.collect("value", max_items=3),
}
VALUES = st.one_of(st.none(), st.integers(-5, 5), st.integers(-(10**15), 10**15))
SHAPES = [(1 * SECOND, 3 * SECOND), (2 * SECOND, 0), (1_500, 12 * SECOND)]  # gap and grace
Shown = tuple[Any, ...]  # key, partition, first and last event, then the values


def operator(gap: int, grace: int, world: World) -> Sessions:
    windowed = TOPIC.group_by().window(hr.session(gap), grace=grace)
    return Sessions.of(windowed.aggregate(**AGGREGATES).named("sessions"), world.schema)


@pytest.mark.parametrize(("gap", "grace"), SHAPES)
@FEW
@given(world=worlds(VALUES, pa.int64()), plan=plans())
def test_sessions_are_those_of_the_oracle_in_any_cuts_and_buckets(
    gap: int, grace: int, world: World, plan: Plan
) -> None:
    mine, log = operator(gap, grace, world), world.logs[0].log
    expected = sessions(log, gap, grace)
    found = run(mine.steps, world, plan)
    assert shown(found.rows()) == wanted(expected.final, log)
    for row in found.rows():
        assert row["__sequence"] == closing_commit(row, log, gap + grace)
    (state,) = found.state[-1].values()
    assert shown(mine.open_sessions(state, found.clock).to_pylist()) == wanted(expected.open, log)
    told = [row for row in mine.updates(state).to_pylist() if not row["__deleted"]]
    still = [row for row in told if row["__timestamp"] + gap + grace > log.stream[row["__partition"]]]
    assert shown(still) == wanted(expected.open, log)
    waiting = Counter[int]()
    for row in mine.open_records(state, found.clock).to_pylist():
        waiting[row["__partition"]] += row["__records"]
    assert fates(found, waiting) == +expected.fates
    assert late(mine, world) == expected.late


def closing_commit(row: dict[str, Any], log: Log, wait: int) -> int:
    """The first log commit after which the partition's stream time has reached the session's deadline."""
    deadline = row["__timestamp"] + wait
    return min(at for at, stream in log.clocks if stream.get(row["__partition"], -1) >= deadline)


def late(mine: Sessions, world: World) -> Counter[tuple[int, int, int]]:
    rows, times = world.increment({}, dict.fromkeys(world.topics, 2**62))
    rows = rows.take(pa.array(np.random.default_rng(0).permutation(rows.num_rows)))
    found = mine.late(with_keys(rows, ["key", "__topic", "__partition"]), times).to_pylist()
    return Counter((row["partition"], row["offset"], milliseconds(row["window_end"])) for row in found)


def fates(found: Outcome, waiting: Counter[int]) -> Counter[tuple[int, str]]:
    """Kept records are open or used."""
    counted = Counter[tuple[int, str]]()
    for (_, partition, fate), records in found.fates.items():
        if fate == "kept":
            counted[partition, "used"] += records - waiting[partition]
            counted[partition, "open"] += waiting[partition]
        else:
            counted[partition, fate] += records
    return +counted


def shown(rows: Iterable[dict[str, Any]]) -> list[Shown]:
    names = ("n", "total", "lowest", "highest", "mean", "first")
    table = []
    for row in rows:
        bounds = (milliseconds(row["window_start"]), milliseconds(row["window_end"]))
        values = (*(row[name] for name in names), tuple(row["some"]))
        table.append((row["key"], row["__partition"], *bounds, *values, row["__records"], row["__timestamp"]))
    return sorted(table, key=repr)


def wanted(found: Iterable[tuple[Group, Session]], log: Log) -> list[Shown]:
    table, offsets = [], {id(arrival): offset for arrival, offset, _ in log.rows}
    for (key, partition), session in found:
        arrivals = sorted(session.arrivals, key=lambda arrival: offsets[id(arrival)])
        values = aggregates(arrivals)
        values["total"] = None if values["total"] is None else int(values["total"])
        there = [arrival.value for arrival in arrivals if arrival.value is not None]
        named = tuple(values[name] for name in ("n", "total", "lowest", "highest", "mean"))
        bounds = (key, partition, session.start, session.end)
        table.append((*bounds, *named, arrivals[0].value, tuple(there[:3]), len(arrivals), session.end))
    return sorted(table, key=repr)


def milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)

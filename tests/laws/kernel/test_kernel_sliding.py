"""The law of sliding windows in the kernel: any cuts, buckets, repeats and upkeep lead to what the oracle finds."""

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
from headrace.fold.sliding import SlidingWindows
from tests.laws.kernel.harness import Outcome, Plan, plans, run
from tests.laws.kernel.logs import SECOND, World, worlds
from tests.oracle.log_oracle import Log
from tests.oracle.sliding_oracle import sliding

pytestmark = pytest.mark.fast

FEW = settings(max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "12")), deadline=None)
TOPIC = hr.Topic("t", key="key STRING", value="value BIGINT")
AGGREGATES: dict[str, Any] = {
    "n": hr.count(),
    "total": hr.sum("value"),
    "lowest": hr.min("value"),
    "highest": hr.max("value"),
    "mean": hr.avg("value"),
}
VALUES = st.one_of(st.none(), st.integers(-5, 5), st.integers(-(10**15), 10**15))
SHAPES = [(5 * SECOND, 3 * SECOND), (3 * SECOND, 0), (1_500, 12 * SECOND)]  # time difference and grace
Shown = tuple[Any, ...]  # key, start, end, then the values


def operator(difference: int, grace: int, world: World) -> SlidingWindows:
    windowed = TOPIC.group_by().window(hr.sliding(difference), grace=grace)
    return SlidingWindows.of(windowed.aggregate(**AGGREGATES).named("sliding"), world.schema)


@pytest.mark.parametrize(("difference", "grace"), SHAPES)
@FEW
@given(world=worlds(VALUES, pa.int64()), plan=plans())
def test_sliding_windows_are_those_of_the_oracle_in_any_cuts_and_buckets(
    difference: int, grace: int, world: World, plan: Plan
) -> None:
    mine, log = operator(difference, grace, world), world.logs[0].log
    expected = sliding(log, difference, grace)
    found = run(mine.steps, world, plan)
    assert shown(found.rows()) == wanted(expected.final, difference)
    for row in found.rows():
        end = milliseconds(row["window_end"])
        assert row["__sequence"] == closing_commit(end + grace, log)
    (state,) = found.state[-1].values()
    assert shown(mine.open_windows(state, found.clock).to_pylist()) == wanted(expected.open, difference)
    last = {
        (r["key"], r["window_end"]): r
        for r in mine.updates(state, found.clock).sort_by("__batch").to_pylist()
    }
    assert shown(last.values()) == wanted(expected.open, difference)
    waiting = Counter[int]()
    for row in mine.open_records(state, found.clock).to_pylist():
        waiting[row["__partition"]] += row["__records"]
    assert fates(found, waiting) == +expected.fates
    assert late(mine, world) == expected.late


def closing_commit(deadline: int, log: Log) -> int:
    """The first log commit after which the lowest stream time has reached a deadline."""
    return min(at for at, stream in log.clocks if stream and min(stream.values()) >= deadline)


def late(mine: SlidingWindows, world: World) -> Counter[tuple[int, int, int, int]]:
    rows, _ = world.increment({}, dict.fromkeys(world.topics, 2**62))
    rows = rows.take(pa.array(np.random.default_rng(0).permutation(rows.num_rows)))
    found = mine.late(with_keys(rows, ["key"])).to_pylist()
    return Counter((0, row["partition"], row["offset"], milliseconds(row["window_start"])) for row in found)


def fates(found: Outcome, waiting: Counter[int]) -> Counter[tuple[int, int, str]]:
    """Kept records are open or used."""
    counted = Counter[tuple[int, int, str]]()
    for (_, partition, fate), records in found.fates.items():
        if fate == "kept":
            counted[0, partition, "used"] += records - waiting[partition]
            counted[0, partition, "open"] += waiting[partition]
        else:
            counted[0, partition, fate] += records
    return +counted


def shown(rows: Iterable[dict[str, Any]]) -> list[Shown]:
    table = []
    for row in rows:
        bounds = (milliseconds(row["window_start"]), milliseconds(row["window_end"]))
        table.append((row["key"], *bounds, *(row[name] for name in AGGREGATES), row["__timestamp"]))
    return sorted(table, key=repr)


def wanted(found: dict[tuple[str, int], dict[str, Any]], difference: int) -> list[Shown]:
    table = []
    for (key, start), values in found.items():
        total = None if values["total"] is None else int(values["total"])
        named = {**values, "total": total}
        table.append((key, start, start + difference, *(named[name] for name in AGGREGATES), values["ts"]))
    return sorted(table, key=repr)


def milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)

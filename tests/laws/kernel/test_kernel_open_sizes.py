"""The law of bounds: how much of windows of any kind is open after each commit does not depend on how the log is cut."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace import oracle
from headrace.description import Bound, WindowedAggregate
from headrace.fold.bounds import judge
from tests.laws.kernel.harness import run
from tests.laws.kernel.logs import SECOND, World, worlds
from tests.laws.kernel.plans import Plan, plans
from tests.laws.kernel.reading import Reading
from tests.laws.kernel.subjects import T, U, whole

pytestmark = pytest.mark.fast

EXAMPLES = settings(max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "12")), deadline=None)
TOTALS: dict[str, Any] = {
    "n": hr.count(),
    "total": hr.sum("value"),
    "lowest": hr.min("value"),
    "highest": hr.max("value"),
    "mean": hr.avg("value"),
}
BOTH = T.merge(U)
# Each with its grace in seconds. A group of sessions lives in one partition.
HOPPING = [(BOTH, hr.hopping(size * SECOND, advance * SECOND), grace) for size, advance, grace in (
    (10, 10, 0), (6, 6, 5), (10, 5, 3), (10, 4, 0), (9, 2, 2), (7, 1, 1))]  # fmt: skip
SLIDING = [(BOTH, hr.sliding(ms), grace) for ms, grace in ((5_000, 3), (3_000, 0), (1_500, 12))]
SESSIONS = [(T, hr.session(ms), grace) for ms, grace in ((1_000, 3), (2_000, 0), (1_500, 12))]
KINDS: dict[str, list[Any]] = {"hopping": HOPPING, "sliding": SLIDING, "sessions": SESSIONS}


@pytest.mark.parametrize("kind", KINDS)
@EXAMPLES
@given(st.data(), worlds(whole, pa.int64(), ("t", "u")), plans(), st.integers(1, 6))
@pytest.mark.slow
def test_what_is_open_after_each_commit_is_judged_alike_in_any_cut(
    kind: str, data: st.DataObject, world: World, plan: Plan, most: int
) -> None:
    stream, window, grace = data.draw(st.sampled_from(KINDS[kind]))
    reading = Reading(described(stream, window, grace, most), world)
    found = run(reading.operator.steps, reading, plan, per_bucket=["open_sizes"])
    bound = Bound(most, None, "shut_down")
    sizes: Any = {}
    refusals = []
    for table in found.outputs["open_sizes"]:
        sizes, refusal = judge(sizes, [table], lambda at_ms: bound, "n", "open windows")
        refusals += [str(refusal)] if refusal else []
    history = [open_sizes(reading, at_ms) for at_ms in world.commits()]
    assert sizes == (history[-1] if history else {})
    over = [each for each in history if any(records > most for records, _ in each.values())]
    assert bool(over) == bool(refusals)
    if over:
        partition, records = min(
            (place, records) for place, (records, _) in over[0].items() if records > most
        )
        assert f"{records:,} records of open windows would wait in partition {partition[1]};" in refusals[0]


def described(stream: Any, window: Any, grace: int, most: int) -> WindowedAggregate:
    made = stream.group_by("key").window(window, grace=grace * SECOND).aggregate(**TOTALS)
    policy = hr.until_window_closes(max_records=most, when_full="shut_down")
    suppressed: WindowedAggregate = made.suppress(policy).named("windows")
    return suppressed


def open_sizes(reading: Reading, at_ms: int) -> dict[tuple[str, int], tuple[int, int]]:
    """Windows that are open after a commit, each partition's by themselves, and the bytes of their rows as JSON."""
    rows = [row for row in reading.log.plain["result"] if row["__ingested_ms"] <= at_ms]
    history = [commit for commit in reading.log.all_commits if commit.at_ms <= at_ms]
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for place in {(row["__topic"], row["__partition"]) for row in rows}:
        mine = [row for row in rows if (row["__topic"], row["__partition"]) == place]
        still = oracle.results(reading.node, oracle.Log({"result": mine}, history)).open
        if still:
            found[place] = len(still), sum(len(text_of(row).encode()) for row in still)
    return found


def text_of(row: dict[str, Any]) -> str:
    """The row of an open window as JSON, without fields that are null; its bounds have as many letters as any."""
    moment = "2023-01-01T00:00:00.000Z"
    bounds = {"window_start": moment, "window_end": moment}
    fields = {"key": row["key"], **bounds, **{name: row[name] for name in TOTALS}}
    shown = {name: value for name, value in fields.items() if value is not None}
    text = json.dumps(shown, separators=(",", ":"), ensure_ascii=False)
    mean = row["mean"]
    return text if mean is None else text.replace(f":{json.dumps(mean)}}}", f":{java(mean)}}}")


def java(value: float) -> str:
    """As Java writes a double: with an exponent below 0.001 and from ten million."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    rest = "".join(map(str, digits[1:])) or "0"
    return f"{'-' * sign}{digits[0]}.{rest}E{len(digits) + exponent - 1}"

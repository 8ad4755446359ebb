"""The law of windows: any cut, bucket and repeat leads to the windows that plain Python finds."""

from __future__ import annotations

import json
import math
import os
from collections import Counter, defaultdict
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.description import Bound
from headrace.fold.bounds import judge
from headrace.fold.keys import with_keys
from headrace.fold.windows import Windows, merge_panes
from tests.laws.kernel.harness import ONE_GO, Outcome, Plan, frontiers, plans, run
from tests.laws.kernel.logs import SECOND, Sequenced, World, worlds
from tests.oracle.log_oracle import Arrival, Commit, sequence
from tests.oracle.windows_oracle import Windows as Expected
from tests.oracle.windows_oracle import aggregates, unusable, windows

pytestmark = pytest.mark.fast

EXAMPLES = settings(max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "15")), deadline=None)
DOUBLES = st.one_of(
    st.sampled_from([0.1, 0.2, 0.7, -0.0, 0.0, 5e-7, 1.5e-6, -5e-7, 1e15 + 0.1, -1e15, 1e21, None]),
    st.floats(-1e6, 1e6),
    st.sampled_from([1e300, math.nan, -math.inf]),
)
LONGS = st.one_of(st.none(), st.integers(-5, 5), st.integers(-(10**15), 10**15))
# Size, advance and grace in seconds: tumbling, with grace, hopping, uneven, many windows of one pane.
SHAPES = st.sampled_from([(10, 10, 0), (6, 6, 5), (10, 5, 3), (10, 4, 0), (9, 2, 2), (7, 1, 1)])


def node(shape: tuple[int, int, int], topics: list[str], value: str = "DOUBLE", **policy: Any) -> Any:
    size, advance, grace = (seconds * SECOND for seconds in shape)
    streams = [hr.Topic(name, key="key STRING", value=f"value {value}") for name in topics]
    stream = streams[0] if len(streams) == 1 else streams[0].merge(*streams[1:])
    made = (
        stream.group_by("key")
        .window(hr.hopping(size, size if size == advance else advance), grace=grace)
        .aggregate(
            n=hr.count(),
            total=hr.sum("value"),
            lowest=hr.min("value"),
            highest=hr.max("value"),
            mean=hr.avg("value"),
        )
    )
    return made.suppress(hr.until_window_closes(**policy))


def in_ms(shape: tuple[int, int, int]) -> tuple[int, int, int]:
    return shape[0] * SECOND, shape[1] * SECOND, shape[2] * SECOND


def ms(moment: Any) -> int:
    found: int = round(moment.timestamp() * 1000)
    return found


def by_window(rows: list[dict[str, Any]]) -> dict[tuple[str, int], dict[str, Any]]:
    found = {(row["key"], ms(row["window_start"])): row for row in rows}
    assert len(found) == len(rows), "a window was emitted twice"
    return found


def compare(found: dict[Any, Any], expected: dict[Any, Any]) -> None:
    assert {*found} == {*expected}
    for window, row in found.items():
        row["ts"] = row["__timestamp"]
        for name, wanted in expected[window].items():
            value = float(wanted) if isinstance(row[name], float) and wanted is not None else wanted
            assert repr(row[name]) == repr(value) or row[name] == value, (window, name, row[name], wanted)


def check(world: World, plan: Plan, shape: tuple[int, int, int], value: str = "DOUBLE") -> Outcome:
    operator = Windows.of(node(shape, world.topics, value), world.schema)
    found = run(operator.steps, world, plan)
    expected = windows([each.log for each in world.logs], *in_ms(shape))
    compare(by_window(found.rows()), expected.final)
    state = found.state[0]["panes"]
    compare(by_window(operator.open_windows(state, found.clock).to_pylist()), expected.open)
    assert ledger(found, operator, state) == fates(world, expected)
    everything = world.rows({}, dict.fromkeys(world.topics, 10**15))
    late = operator.late(with_keys(everything, ["key"])).to_pylist()
    missed = Counter((row["topic"], row["partition"], row["offset"], ms(row["window_start"])) for row in late)
    assert missed == Counter({(world.topics[n], *rest): count for (n, *rest), count in expected.late.items()})
    for row in late:
        closed_at = ms(row["window_end"]) + shape[2] * SECOND
        assert row["late_by_ms"] == ms(row["stream_time"]) - closed_at >= 0
    return found


def ledger(found: Outcome, operator: Windows, state: pa.Table) -> Counter[tuple[str, int, str]]:
    """Kept records are open or used: the state tells how many are open, and the results how many are used."""
    fates, kept, opened = Counter(found.fates), 0, 0
    for row in operator.open_records(state, found.clock).to_pylist():
        place = (row["__topic"], row["__partition"])
        fates[(*place, "open")] += row["__records"]
        fates[(*place, "kept")] -= row["__records"]
        opened += row["__records"]
    kept = sum(n for (_, _, fate), n in found.fates.items() if fate == "kept")
    assert kept == opened + sum(row["__records"] for row in found.rows())
    return Counter({(t, p, "used" if fate == "kept" else fate): n for (t, p, fate), n in fates.items() if n})


def fates(world: World, expected: Expected) -> Counter[tuple[str, int, str]]:
    return Counter({(world.topics[n], p, fate): count for (n, p, fate), count in expected.fates.items()})


@EXAMPLES
@given(worlds(DOUBLES, pa.float64()), plans(), SHAPES)
def test_windows_of_one_topic(world: World, plan: Plan, shape: tuple[int, int, int]) -> None:
    check(world, plan, shape)


@EXAMPLES
@given(worlds(LONGS, pa.int64(), ("t", "u")), plans(apart=True), SHAPES)
def test_windows_of_two_topics_cut_apart(world: World, plan: Plan, shape: tuple[int, int, int]) -> None:
    check(world, plan, shape, "BIGINT")


@settings(EXAMPLES, max_examples=EXAMPLES.max_examples // 2)
@given(worlds(LONGS, pa.int64()), plans(), SHAPES)
def test_windows_made_a_few_at_a_time(world: World, plan: Plan, shape: tuple[int, int, int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge_panes, "PIECES_MAX", 3)
        check(world, plan, shape, "BIGINT")


@EXAMPLES
@given(worlds(DOUBLES, pa.float64(), ("t", "u")), plans(), SHAPES)
def test_the_commit_that_closes_a_window_does_not_depend_on_cuts(
    world: World, plan: Plan, shape: tuple[int, int, int]
) -> None:
    operator = Windows.of(node(shape, world.topics), world.schema)
    one, other = run(operator.steps, world, plan), run(operator.steps, world, ONE_GO)
    assert sorted(map(repr, one.rows())) == sorted(map(repr, other.rows()))
    for row in one.rows():
        closed_at = ms(row["window_end"]) + shape[2] * SECOND
        upto = dict.fromkeys(world.topics, row["__sequence"])
        earlier = dict.fromkeys(world.topics, row["__sequence"] - 1)
        assert (world.clock(upto).closing_ms(world.topics) or 0) >= closed_at
        before = world.clock(earlier).closing_ms(world.topics)
        assert before is None or before < closed_at


@EXAMPLES
@given(worlds(LONGS, pa.int64()), plans(), SHAPES)
def test_what_windows_were_worth_after_each_micro_batch(
    world: World, plan: Plan, shape: tuple[int, int, int]
) -> None:
    described = node(shape, world.topics, "BIGINT")
    operator = Windows.of(replace(described, suppression=None), world.schema)
    found = run(operator.steps, world, plan)
    latest: dict[Any, Any] = {}
    for row in operator.updates(found.state[0]["panes"]).sort_by("__batch").to_pylist():
        latest[row["key"], ms(row["window_start"])] = row
    expected = windows([each.log for each in world.logs], *in_ms(shape))
    compare({window: latest[window] for window in expected.open}, expected.open)


@EXAMPLES
@given(worlds(LONGS, pa.int64(), ("t", "u")), plans(apart=False), SHAPES, st.integers(1, 6))
def test_what_is_open_after_each_commit_is_judged_alike_in_any_cut(
    world: World, plan: Plan, shape: tuple[int, int, int], most: int
) -> None:
    described = node(shape, world.topics, "BIGINT", max_records=most, when_full="shut_down")
    operator = Windows.of(described, world.schema)
    found = run(operator.steps, world, plan, per_bucket=["open_sizes"])
    bound = Bound(most, None, "shut_down")
    sizes: Any = {}
    refusals = []
    for table in found.outputs["open_sizes"]:
        sizes, refusal = judge(sizes, [table], lambda at_ms: bound, "n", "open windows")
        refusals += [str(refusal)] if refusal else []
    history = [open_sizes(world, at_ms, shape) for at_ms in world.commits()]
    assert sizes == (history[-1] if history else {})
    over = [each for each in history if any(records > most for records, _ in each.values())]
    assert bool(over) == bool(refusals)
    if over:
        partition, records = min(
            (place, records) for place, (records, _) in over[0].items() if records > most
        )
        assert f"{records:,} records of open windows would wait in partition {partition[1]};" in refusals[0]


def open_sizes(
    world: World, at_ms: int, shape: tuple[int, int, int]
) -> dict[tuple[str, int], tuple[int, int]]:
    """Windows that are open after a commit, each partition's by themselves, and the bytes of their rows as JSON."""
    size, advance, grace = (seconds * SECOND for seconds in shape)
    closing = world.clock(dict.fromkeys(world.topics, at_ms)).closing_ms(world.topics)
    held: dict[Any, list[Arrival]] = defaultdict(list)
    for each in world.logs:
        for at, (arrival, _, stream) in zip(each.log.ingested, each.log.rows, strict=True):
            if at > at_ms or unusable(arrival, lambda value: True):
                continue
            first = max(0, (arrival.ts - size) // advance + 1) * advance
            for start in range(first, arrival.ts + 1, advance):
                if start + size + grace > max(stream or 0, -1 if closing is None else closing):
                    held[each.topic, arrival.partition, arrival.key, start].append(arrival)
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for (topic, partition, key, _), arrivals in held.items():
        values = aggregates(arrivals)
        row = {
            "key": key,
            "window_start": "2023-01-01T00:00:00.000Z",
            "window_end": "2023-01-01T00:00:00.000Z",
        }
        row |= {name: plain(values[name]) for name in ("n", "total", "lowest", "highest", "mean")}
        text = json.dumps(
            {n: v for n, v in row.items() if v is not None}, separators=(",", ":"), ensure_ascii=False
        )
        if values["mean"] is not None:
            text = text.replace(f":{json.dumps(values['mean'])}}}", f":{java(values['mean'])}}}")
        known = found.get((topic, partition), (0, 0))
        found[topic, partition] = (known[0] + 1, known[1] + len(text.encode()))
    return found


def plain(value: Any) -> Any:
    return int(value) if isinstance(value, Decimal) else value


def java(value: float) -> str:
    """As Java writes a double: with an exponent below 0.001 and from ten million."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    rest = "".join(map(str, digits[1:])) or "0"
    return f"{'-' * sign}{digits[0]}.{rest}E{len(digits) + exponent - 1}"


@pytest.mark.parametrize("sizes", [(1,), (2,), (1000,)])
def test_a_record_that_is_late_for_its_first_window_enters_the_next_one_alone(sizes: tuple[int, ...]) -> None:
    """Partition 1 holds all windows open; in partition 0 the window [0, 10) is over before the second record of 7."""
    seconds = [(0, 7), (1, 0), (0, 21), (0, 7), (1, 30), (0, 100), (1, 100)]
    commits = [
        Commit(1_000_000 + number, [Arrival(partition, "a", at * SECOND, number)])
        for number, (partition, at) in enumerate(seconds)
    ]
    world = World([Sequenced("t", sequence(commits, None, 0))], pa.int64())
    found = check(world, Plan(sizes=sizes), (10, 5, 10), "BIGINT")
    counts = {start: row["n"] for (_, start), row in by_window(found.rows()).items()}
    assert (counts[0], counts[5 * SECOND]) == (2, 2)


def test_frontiers_cut_whole_commits() -> None:
    assert frontiers(World([], pa.float64()), ONE_GO) == []

"""What Kafka Streams 4.1 emits for recorded inputs the kernel emits: windows, sessions, and rows that a time limit lets go.

Of sessions one rule differs: Kafka Streams still takes a record for a session that it emits at that very stream time, and
emits the session a second time with that record alone. Here the record is late. In case04 two records lie on that
boundary: `TWICE` names the rows that they lead to there.
Source: cases recorded with Kafka Streams' TopologyTestDriver, in `tests/fixtures`.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.fold.contract import Step
from headrace.fold.keys import with_keys
from headrace.fold.windows import Windows
from headrace.operators.sessions.fold import Sessions
from headrace.operators.time_limits.fold import TimeLimit
from tests.laws.kernel.harness import Outcome, run
from tests.laws.kernel.logs import Sequenced, World
from tests.laws.kernel.plans import Plan
from tests.oracle.log_oracle import Arrival, Commit, sequence

pytestmark = pytest.mark.fast

FIXTURES = Path(__file__).parents[2] / "fixtures"
SESSIONS, LIMITS = FIXTURES / "session_windows_final", FIXTURES / "suppress_time_limit"
TUMBLING, HOPPING = FIXTURES / "suppress", FIXTURES / "hopping"
TOPIC = hr.Topic("t", key="key STRING", value="value BIGINT")
TOTALS: dict[str, Any] = {"count": hr.count(), "sum": hr.sum("value")}
Line = dict[str, Any]
# key, window_start, window_end, count, sum, timestamp
TWICE = {
    "case04": Counter(
        {("k0", 780_000, 780_000, 1, 825, 780_000): 1, ("k0", 780_000, 780_000, 1, 739, 780_000): 1}
    )
}


def cases(folder: Path) -> dict[str, Line]:
    found: dict[str, Line] = json.loads((folder / "cases.json").read_text(encoding="utf-8"))
    return found


def lines(folder: Path, name: str) -> list[Line]:
    return [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]


def world(folder: Path, name: str) -> World:
    """The recorded input in log commits of some records, none of them idle."""
    chance, arrivals = random.Random(name), [arrival(line) for line in lines(folder, f"{name}.in.jsonl")]
    commits: list[Commit] = []
    while arrivals:
        size = chance.choice([1, 5, 20])
        commits.append(Commit(1_000_000 + len(commits), arrivals[:size]))
        arrivals = arrivals[size:]
    return World([Sequenced("t", sequence(commits, None, 0))], pa.int64())


def arrival(line: Line) -> Arrival:
    value = line["value"]
    kind = "tombstone" if value is None else "record"
    return Arrival(
        line["partition"], line["key"], line["timestamp"], None if value is None else value["value"], kind
    )


def folded(steps: tuple[Step, ...], log: World, seed: int) -> Outcome:
    return run(steps, log, Plan(sizes=(3, 7, 1, 12), buckets=(2, 1, 5), seed=seed))


@pytest.mark.parametrize(
    ("folder", "name"), [(folder, name) for folder in (TUMBLING, HOPPING) for name in cases(folder)]
)
def test_windows_are_those_of_kafka_streams(folder: Path, name: str) -> None:
    settings, log = cases(folder)[name], world(folder, name)
    size_ms = settings["size_ms"]
    window = hr.hopping(f"{size_ms} ms", f"{settings.get('advance_ms', size_ms)} ms")
    windowed = TOPIC.group_by().window(window, grace=f"{settings['grace_ms']} ms").aggregate(**TOTALS)
    operator = Windows.of(windowed.suppress(hr.until_window_closes()).named("n"), log.schema)
    found = folded(operator.steps, log, 7)
    theirs = lines(folder, f"{name}.out.jsonl")
    closed = last_of_each([row for row in theirs if row.get("kind", "closed") == "closed"])
    assert last_of_each(found.rows()) == closed
    if folder == HOPPING:
        still = operator.open_windows(found.state[0]["panes"], found.clock).to_pylist()
        changes = last_of_each([row for row in theirs if row["kind"] == "change"], "count", "sum")
        assert last_of_each([*found.rows(), *still], "count", "sum") == changes
    rows, _ = log.increment({}, {"t": 2**62})
    assert operator.late(with_keys(rows, ["key"])).num_rows == settings["dropped"]


def last_of_each(rows: list[Line], *names: str) -> dict[tuple[str, int], tuple[Any, ...]]:
    """The last row of each key and window: the columns named; if none is, its aggregates and its timestamp."""
    found = {}
    for row in rows:
        ours = "__timestamp" in row or not isinstance(row["window_start"], int)
        start_ms = bounds(row)[0] if ours else row["window_start"]
        values = {"timestamp": row.get("__timestamp")} | row
        found[row["key"], start_ms] = tuple(values[name] for name in names or ("count", "sum", "timestamp"))
    return found


@pytest.mark.parametrize("name", cases(SESSIONS))
def test_sessions_are_those_of_kafka_streams(name: str) -> None:
    settings, log = cases(SESSIONS)[name], world(SESSIONS, name)
    windowed = TOPIC.group_by().window(
        hr.session(f"{settings['gap_ms']} ms"), grace=f"{settings['grace_ms']} ms"
    )
    operator = Sessions.of(windowed.aggregate(**TOTALS).named("n"), log.schema)
    found = folded(operator.steps, log, 3)
    columns = ("key", "window_start", "window_end", "count", "sum", "timestamp")
    theirs = Counter(tuple(row[c] for c in columns) for row in lines(SESSIONS, f"{name}.out.jsonl"))
    ours = Counter(
        (row["key"], *bounds(row), row["count"], row["sum"], row["__timestamp"]) for row in found.rows()
    )
    twice = TWICE.get(name, Counter())
    assert ours == theirs - twice
    rows, _ = log.increment({}, {"t": 2**62})
    late = operator.late(rows)
    assert late.num_rows == settings["dropped"] + twice.total()


@pytest.mark.parametrize("name", cases(LIMITS))
def test_what_a_time_limit_lets_go_is_what_kafka_streams_lets_go_in_its_order(name: str) -> None:
    settings, log = cases(LIMITS)[name], world(LIMITS, name)
    operator = TimeLimit.of(node(settings), log.schema)
    found = folded(operator.steps, log, 5)
    ordered = sorted(found.rows(), key=lambda row: (*place(row), row["__opened_ms"], row["__key"]))
    assert [shown(row, settings) for row in ordered] == [
        (
            line["timestamp"],
            line["key"],
            line.get("window_start"),
            line.get("window_end"),
            *values(line, settings),
        )
        for line in lines(LIMITS, f"{name}.out.jsonl")
    ]
    assert sum(n for (_, _, fate), n in found.fates.items() if fate == "late") == settings["dropped"]
    assert [row["__offset"] for row in ordered] == [line["at"] for line in lines(LIMITS, f"{name}.out.jsonl")]


def node(settings: Line) -> Any:
    most = settings.get("max_records")
    policy = hr.until_time_limit(
        f"{settings['limit_ms']} ms", max_records=most, when_full="emit_early" if most else "spill"
    )
    if settings["source"] == "table":
        return TOPIC.table().suppress(policy).named("n")
    if settings["source"] == "count":
        return TOPIC.group_by().aggregate(**TOTALS).suppress(policy).named("n")
    windowed = TOPIC.group_by().window(
        hr.tumbling(f"{settings['size_ms']} ms"), grace=f"{settings['grace_ms']} ms"
    )
    return windowed.aggregate(**TOTALS).suppress(policy).named("n")


def place(row: Line) -> tuple[int, int, int]:
    return row["__sequence"], row["__offset"], row["__sub"]


def shown(row: Line, settings: Line) -> tuple[Any, ...]:
    own = (row["value"],) if settings["source"] == "table" else (row["count"], row["sum"])
    window = bounds(row) if "window_start" in row else (None, None)
    return (row["__timestamp"], row["key"], *window, *own)


def values(line: Line, settings: Line) -> tuple[Any, ...]:
    if settings["source"] == "table":
        return (None if line["value"] is None else line["value"]["value"],)
    totals = line["value"] if settings["source"] == "count" else line
    return (totals["count"], totals["sum"])


def bounds(row: Line) -> tuple[int, int]:
    start, end = (round(row[name].timestamp() * 1000) for name in ("window_start", "window_end"))
    return start, end

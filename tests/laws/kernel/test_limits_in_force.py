"""Limits that were set stand for the rest of a log, whatever bound a node is described with meanwhile."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.description.limits import Limits
from headrace.nodes.progress import Progress
from headrace.operators.time_limits.fold.limits_in_force import in_force, standing, standing_row
from tests.laws.kernel.harness import run
from tests.laws.kernel.logs import Control, Sequenced, World
from tests.laws.kernel.plans import plan_of
from tests.laws.kernel.reading import Reading
from tests.laws.kernel.subjects import T
from tests.laws.kernel.verdict import Verdict
from tests.oracle.log_oracle import Arrival, Commit, sequence

pytestmark = pytest.mark.fast

SHUT: dict[str, Any] = {"when_full": "shut_down"}
EARLY: dict[str, Any] = {"when_full": "emit_early"}
POLICIES = [
    hr.until_time_limit("1 minute"),
    hr.until_time_limit("1 minute", max_records=2, **SHUT),
    hr.until_time_limit("1 minute", max_bytes=2, **SHUT),
    hr.until_time_limit("1 minute", max_records=2, max_bytes=2, **SHUT),
    hr.until_time_limit("1 minute", max_records=2, **EARLY),
]
SET: list[dict[str, int | None]] = [
    {"max_records": 5},
    {"max_records": None},
    {"max_bytes": 7},
    {"max_bytes": None},
    {"max_records": None, "max_bytes": 8},
    {"max_records": None, "max_bytes": None},
    {"limit_ms": 9},
    {"limit_ms": 3, "max_records": 6},
    {"limit_ms": -1},
    {"max_records": 0},
    {"colour": 1},
]


def row(ms: int, limits: dict[str, int | None], node: str = "it") -> tuple[int, str]:
    return ms, json.dumps({"action": "set_limits", "node": node, "limits": limits, "request": "r"})


def told(rows: list[tuple[int, str]]) -> list[Limits]:
    return [json.loads(said)["limits"] for _, said in rows]


@pytest.mark.parametrize("seed", range(40))
def test_what_stands_for_control_rows_leads_to_the_same_under_every_description(seed: int) -> None:
    random = Random(seed)
    for _ in range(50):
        rows = [
            row(ms, random.choice(SET), random.choice(["it", "it", "it", "another"]))
            for ms in range(1, random.randrange(2, 9))
        ]
        cut = random.randrange(len(rows) + 1)
        for stands in (standing(rows, "it"), standing([*standing(rows[:cut], "it"), *rows[cut:]], "it")):
            for policy in POLICIES:
                found, wanted = in_force(policy, "it", stands), in_force(policy, "it", rows)
                assert found.begun == found.last == wanted.last, rows


def test_limits_that_are_set_again_and_again_take_no_room() -> None:
    rows = [row(ms, {name: ms}) for ms in range(1, 100) for name in ("limit_ms", "max_records", "max_bytes")]
    assert told(standing(rows, "it")) == [{"limit_ms": 99}, {"max_records": 99}, {"max_bytes": 99}]


def test_a_time_limit_stays_when_a_node_with_a_bound_that_was_set_begins_to_spill() -> None:
    stands = standing([row(1, {"limit_ms": 9}), row(2, {"max_records": 5})], "it")
    assert in_force(hr.until_time_limit("1 minute"), "it", stands).last.limit_ms == 9


def test_progress_keeps_the_limits() -> None:
    progress = Progress(limits=[{"limit_ms": 9}, {"max_records": None}])
    assert Progress.from_json(json.loads(json.dumps(progress.to_json()))) == progress
    assert progress.standing_limits("it") == [standing_row("it", limits) for limits in progress.limits]


@pytest.mark.parametrize("number", [0, 1, 5])
def test_limits_count_from_the_commit_of_their_control_row_on(number: int) -> None:
    """A wait of a minute is over when the limit becomes a second, and not with the next commit."""
    commits = [
        Commit(at, [Arrival(0, key, ms, 1, "record")])
        for at, key, ms in ((1_000, "a", 100), (2_000, "b", 5_100), (4_000, "c", 5_200))
    ]
    _, said = row(0, {"limit_ms": 1_000})
    control = Control(3_000, "set_limits", said)
    world = World([Sequenced("t", sequence(commits, None, 60_000), [control])], pa.int64())
    node = T.group_by().aggregate(n=hr.count()).suppress(hr.until_time_limit("1 minute")).named("it")
    reading, plan = Reading(node, world), plan_of(number, 4)
    Verdict(reading).check(plan)
    rows = run(reading.operator.steps, reading, plan).rows()
    assert [(row["key"], row["__sequence"]) for row in rows] == [("a", 3_000)]

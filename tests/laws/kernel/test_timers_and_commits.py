"""The law of timers: what a group's timers find and give does not depend on how the log was committed.

Each random log is committed in three ways, with the same rows and stream times. Values, their order in a group, event times
and clocks are the same. HEADRACE_COMMITTED_LOGS tries more logs, from seed HEADRACE_COMMITTED_FIRST on; a message has the
failing seed.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from typing import Any

import pytest

import headrace as hr
from headrace.description import Node, NodeOutput
from tests.laws.kernel.acts import acts
from tests.laws.kernel.chained import ChainedReading, log_of, logs_of
from tests.laws.kernel.committed import random_partitions, three_ways
from tests.laws.kernel.harness import run
from tests.laws.kernel.logs import World
from tests.laws.kernel.plans import NUMBERS, plan_of
from tests.laws.kernel.reading import Reading
from tests.laws.kernel.subjects import T, U
from tests.laws.kernel.timelines import in_order
from tests.laws.kernel.verdict import Verdict

pytestmark = pytest.mark.fast

LOGS = int(os.environ.get("HEADRACE_COMMITTED_LOGS", "20"))
FIRST_SEED = int(os.environ.get("HEADRACE_COMMITTED_FIRST", "0"))
BOTH = T.merge(U).group_by("key")
SUBJECTS: dict[str, tuple[Node, tuple[str, ...], int, bool]] = {
    "of one partition": (acts(T.group_by("key")), ("t",), 1, False),
    "of keys of three partitions": (acts(T.group_by("key")), ("t",), 3, True),
    "of three partitions": (acts(T), ("t",), 3, False),
    "by time": (acts(BOTH, order="time"), ("t", "u"), 2, False),
    "by time with a grace": (acts(BOTH, order="time", grace="3 ms"), ("t", "u"), 2, False),
}


def given(reading: Reading, seed: int) -> dict[str, list[Any]]:
    """What each group gives, in its order: values, event time and clock."""
    rows = run(reading.operator.steps, reading, plan_of(seed % NUMBERS, 1 + seed % 3)).rows()
    groups: dict[str, list[Any]] = defaultdict(list)
    for row in in_order(reading.node, rows):
        groups[row["who"]].append((row["what"], row["__timestamp"], row["__clock_ms"]))
    return dict(groups)


@pytest.mark.parametrize("name", SUBJECTS)
def test_the_calls_of_a_group_do_not_depend_on_how_the_log_was_committed(name: str) -> None:
    node, topics, partitions, confined = SUBJECTS[name]
    for seed in range(FIRST_SEED, FIRST_SEED + max(LOGS // len(SUBJECTS), 1)):
        rng = random.Random(seed)
        records = random_partitions(rng, topics, partitions, confined=confined)
        worlds = three_ways(rng, records)
        wanted, *others = (given(Reading(node, world), seed + way) for way, world in enumerate(worlds))
        for other in others:
            assert other == wanted, f"seed {seed}"
        if seed % 10 == 0:
            verdict = Verdict(Reading(node, worlds[-1]))
            verdict.check(plan_of(seed % NUMBERS, 2))


LISTS = hr.Topic("t", key="key STRING", value="value ARRAY<BIGINT>")
FLAT = LISTS.flat_map("value AS value").named("flat")
LOOKED_UP = T.lookup(U.select("key", "value AS other").table(), on="key").named("looked_up")
WINDOWS = (
    T.group_by("key")
    .window(hr.tumbling("5 ms"), grace="2 ms")
    .aggregate(n=hr.count())
    .suppress(hr.until_window_closes())
    .named("windows")
)
V, W = (hr.Topic(name, key="key STRING", value="value BIGINT") for name in "vw")
MERGED = (
    T.merge(U).lookup(V.select("key", "value AS other").table(), on="key", complete_first=False).named("both")
)
AGAIN = MERGED.lookup(V.select("key", "value AS more").table(), on="key", complete_first=False).named("again")
IN_TIME = acts(BOTH, order="time")
DATED = MERGED.lookup(V.select("key", "value AS more").table(), on="key", as_of="event", complete_first=False)
DATED = DATED.named("dated")
VALUES = LOOKED_UP.select("key", "value")
FIRST = acts(T.group_by("key"))
LIMITED = T.table().suppress(hr.until_time_limit("4 ms")).named("limited")
NOTED = LIMITED.select("key", "value").lookup(
    V.select("key", "value AS more").table(), on="key", complete_first=False
)
NOTED = NOTED.named("noted")
PRIOR = VALUES.join_prior(W.select("key", "value AS before"), on="key", grace="3 ms").named("prior")
PAIRS = VALUES.join(W.select("key", "value AS more"), on="key", within="4 ms", grace="2 ms").named("pairs")


def timed(node: Any) -> Any:
    """A processor of a node's rows in the order of time: their ties go by their causes."""
    return acts(node.select("key", "value").group_by("key"), order="time", grace="2 ms")


CHAINS: dict[str, tuple[list[Node], tuple[str, ...], int, bool]] = {
    "behind a flat map": ([FLAT, acts(FLAT.group_by("key"))], ("t",), 3, True),
    "behind a flat map, by time": (
        [FLAT, acts(FLAT.group_by("key"), order="time", grace="3 ms")],
        ("t",),
        1,
        False,
    ),
    "behind a lookup": (
        [LOOKED_UP, acts(LOOKED_UP.select("key", "value").group_by("key"))],
        ("t", "u"),
        3,
        True,
    ),
    "behind windows": ([WINDOWS, acts(WINDOWS.as_stream().group_by("key"), "n")], ("t",), 3, True),
    "behind a time limit, by time": ([LIMITED, timed(LIMITED)], ("t",), 3, False),
    "behind a lookup after a time limit, by time": ([LIMITED, NOTED, timed(NOTED)], ("t", "v"), 3, False),
    "behind a processor": (
        [FIRST, acts(FIRST.select("key", "what").group_by("key"), "what")],
        ("t",),
        3,
        True,
    ),
    "regrouped behind a processor, by time": (
        [FIRST, acts(FIRST.select("key", "kind", "what").group_by("kind"), "what", order="time")],
        ("t",),
        3,
        True,
    ),
    "behind a lookup of two topics, by time": (
        [MERGED, acts(MERGED.select("key", "value").group_by("key"), order="time")],
        ("t", "u", "v"),
        2,
        False,
    ),
    "regrouped behind a lookup, by time": (
        [LOOKED_UP, acts(VALUES.group_by("key"), order="time")],
        ("t", "u"),
        3,
        False,
    ),
    "behind a lookup and a topic, by time": (
        [LOOKED_UP, acts(VALUES.merge(W).group_by("key"), order="time")],
        ("t", "u", "w"),
        2,
        False,
    ),
    "behind windows, by time": (
        [WINDOWS, acts(WINDOWS.as_stream().group_by("key"), "n", order="time")],
        ("t",),
        3,
        False,
    ),
    "regrouped behind a processor in the order of time": (
        [IN_TIME, acts(IN_TIME.select("key", "kind", "what").group_by("kind"), "what", order="time")],
        ("t", "u"),
        2,
        False,
    ),
    "behind a lookup as of event time, by time": ([MERGED, DATED, timed(DATED)], ("t", "u", "v"), 2, False),
    "behind the earlier record, by time": ([LOOKED_UP, PRIOR, timed(PRIOR)], ("t", "u", "w"), 2, False),
    "behind a join of streams, by time": ([LOOKED_UP, PAIRS, timed(PAIRS)], ("t", "u", "w"), 2, False),
    "behind two nodes, by time": (
        [MERGED, AGAIN, acts(AGAIN.select("key", "value").group_by("key"), order="time")],
        ("t", "u", "v"),
        2,
        False,
    ),
}


def through(nodes: list[Node], world: World, seed: int) -> dict[str, list[Any]]:
    """What each group of the last node gives; the others write logs."""
    logs = logs_of(world)
    for node in nodes[:-1]:
        reading = ChainedReading(node, logs)
        outcome = run(
            reading.operator.steps, reading, plan_of(seed % NUMBERS, 2), revised=reading.operator.revises
        )
        logs[NodeOutput.of(node).name] = log_of(reading.operator, outcome, logs)
    return given(ChainedReading(nodes[-1], logs), seed)


@pytest.mark.parametrize("name", CHAINS)
def test_behind_nodes_the_calls_of_a_group_do_not_depend_on_commits_either(name: str) -> None:
    nodes, topics, partitions, confined = CHAINS[name]
    for seed in range(FIRST_SEED, FIRST_SEED + max(LOGS // len(CHAINS), 1)):
        rng = random.Random(seed)
        records = random_partitions(rng, topics, partitions, confined=confined)
        records = records.as_lists() if nodes[0] is FLAT else records
        wanted, *others = (
            through(nodes, world, seed + way) for way, world in enumerate(three_ways(rng, records))
        )
        for other in others:
            assert other == wanted, f"seed {seed}"


def test_a_random_log_gives_calls_of_every_kind() -> None:
    node, topics, partitions, confined = SUBJECTS["of keys of three partitions"]
    calls, before_records = 0, 0
    for seed in range(20):
        rng = random.Random(seed)
        world = three_ways(rng, random_partitions(rng, topics, partitions, confined=confined))[0]
        reading = Reading(node, world)
        rows = run(reading.operator.steps, reading).rows()
        calls += sum(row["__due"] is not None for row in rows)
        before_records += sum(row["__due"] is not None and row["__offset"] is not None for row in rows)
    assert calls > 100
    assert before_records > 40

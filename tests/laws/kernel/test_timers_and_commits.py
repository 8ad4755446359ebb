"""The law of timers: what a group's timers find and give does not depend on how the log was committed.

Each random log is committed in three ways, with the same rows and stream times. Values, their order in a group, event times
and clocks are the same. HEADRACE_COMMITTED_LOGS tries more logs; a failing seed is in the message.
"""

from __future__ import annotations

import datetime as dt
import os
import random
from collections import defaultdict
from functools import partial
from hashlib import md5
from typing import Any

import pytest

import headrace as hr
from headrace.description import Node, NodeOutput, Processed
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

LOGS = int(os.environ.get("HEADRACE_COMMITTED_LOGS", "100"))
STORES = [
    hr.key_value_store("kept", "name STRING", "n BIGINT", ttl="6 ms"),
    hr.window_store("seen", "", "n BIGINT", retention="5 ms"),
]
OUTPUT = "key STRING, kind STRING, who STRING, what STRING"


class Acts(hr.Processor):
    """Does at each call what its tag and its stores say: forwards, sets and cancels timers, puts and deletes entries."""

    def __init__(self, column: str = "value") -> None:
        self.column = column

    def init(self, context: hr.Context) -> None:
        self.context, self.kept, self.seen = context, context.store("kept"), context.window_store("seen")
        context.schedule("7 ms", self.c)

    def process(self, record: hr.Record) -> None:
        self.act(f"{record[self.column]} {record.late}", is_record=True)

    def a(self, moment: dt.datetime) -> None:
        self.act(f"a {moment:%S.%f}")

    def b(self, moment: dt.datetime) -> None:
        self.act(f"b {moment:%S.%f}")

    def c(self, moment: dt.datetime) -> None:
        self.act(f"c {moment:%S.%f}")

    def act(self, tag: str, *, is_record: bool = False) -> None:
        now = self.context.stream_time
        assert now is not None
        view = [*self.kept.all()], [n for _, n in ((at, n) for at, n in self.seen.fetch(first=now, last=now))]
        who = "/".join(map(str, self.context.key.values()))
        self.context.forward(
            key=self.context.key.get("key"), kind="all", who=who, what=f"{tag} at {now:%S.%f} {view}"
        )
        number = _number(who, tag, view)
        for step in range(number % 3):
            self.do(_number(number, step), is_record=is_record)

    def do(self, number: int, *, is_record: bool) -> None:
        name, now = "abc"[number % 3], self.context.stream_time
        assert now is not None
        match (number >> 4) % 7:
            case 0 | 1:
                self.context.schedule(f"{1 + (number >> 8) % 12} ms", getattr(self, name), once=True)
            case 2 if is_record:
                self.context.schedule(f"{4 + (number >> 8) % 9} ms", getattr(self, name))
            case 3:
                self.context.cancel(name)
            case 4:
                self.kept.put(name, number % 100)
            case 5:
                self.seen.put(number % 100, at=now - dt.timedelta(milliseconds=number % 4))
            case _:
                self.kept.delete(name)


def _number(*of: Any) -> int:
    return int(md5(repr(of).encode()).hexdigest()[:8], 16)


def _acts(stream: Any, column: str = "value", **options: Any) -> Processed:
    node: Processed = stream.process(
        partial(Acts, column), output=OUTPUT, stores=STORES, stream_wait="1 second", **options
    ).named("acts")
    return node


BOTH = T.merge(U).group_by("key")
SUBJECTS: dict[str, tuple[Node, tuple[str, ...], int, bool]] = {
    "of one partition": (_acts(T.group_by("key")), ("t",), 1, False),
    "of keys of three partitions": (_acts(T.group_by("key")), ("t",), 3, True),
    "of three partitions": (_acts(T), ("t",), 3, False),
    "by time": (_acts(BOTH, order="time"), ("t", "u"), 2, False),
    "by time with a grace": (_acts(BOTH, order="time", grace="3 ms"), ("t", "u"), 2, False),
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
    for seed in range(max(LOGS // len(SUBJECTS), 1)):
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
FIRST = _acts(T.group_by("key"))
CHAINS: dict[str, tuple[list[Node], tuple[str, ...], int, bool]] = {
    "behind a flat map": ([FLAT, _acts(FLAT.group_by("key"))], ("t",), 3, True),
    "behind a flat map, by time": (
        [FLAT, _acts(FLAT.group_by("key"), order="time", grace="3 ms")],
        ("t",),
        1,
        False,
    ),
    "behind a lookup": (
        [LOOKED_UP, _acts(LOOKED_UP.select("key", "value").group_by("key"))],
        ("t", "u"),
        3,
        True,
    ),
    "behind windows": ([WINDOWS, _acts(WINDOWS.as_stream().group_by("key"), "n")], ("t",), 3, True),
    "behind a processor": (
        [FIRST, _acts(FIRST.select("key", "what").group_by("key"), "what")],
        ("t",),
        3,
        True,
    ),
    "regrouped behind a processor, by time": (
        [FIRST, _acts(FIRST.select("key", "kind", "what").group_by("kind"), "what", order="time")],
        ("t",),
        3,
        True,
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
    for seed in range(max(LOGS // (2 * len(CHAINS)), 1)):
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

"""Random worlds for the laws: logs of several topics, how each node cuts them, where it crashes.

One world is one log per topic of `SUBJECTS`, and every node of a topic reads its log in cuts of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

import headrace as hr
from headrace.description import RunningAggregate, WindowedAggregate
from headrace.description.windows import WindowKind
from headrace.testing.driver import STEPS
from tests.oracle.log_oracle import Arrival

SECOND = 1_000
WAITS = ["0 ms", "0 ms", "0 ms", "2 seconds", "6 seconds", "61 seconds", "5 minutes"]
MALFORMED = [b"", b"{", b"nonsense", b'{"value": "much"}', b'{"value": 1} {"value": 2}', b"[1]", b"\xff\xfe"]


def topic(name: str, value_type: str, idle_timeout: str | None) -> hr.Topic:
    return hr.Topic(name, key="key STRING", value=f"value {value_type}", idle_timeout=idle_timeout)


def subjects(topic: hr.Topic) -> list[WindowedAggregate]:
    """Tumbling and hopping; without and with grace; an advance that divides the size or not; filtered; unsuppressed."""
    shapes = [
        ("tumbling", 10, 10, 0, True, False),
        ("tumbling_late", 6, 6, 5, False, False),
        ("hopping", 10, 5, 3, True, False),
        ("uneven", 10, 4, 0, True, False),
        ("filtered", 9, 2, 2, False, True),
    ]
    return [subject(topic, *shape) for shape in shapes]


def subject(
    topic: hr.Topic, name: str, size: int, advance: int, grace: int, suppressed: bool, filtered: bool
) -> WindowedAggregate:
    stream = topic.where("value >= 0") if filtered else topic.stream
    if not advance:
        window: WindowKind = hr.sliding(size * SECOND)
    else:
        window = (
            hr.tumbling(size * SECOND) if size == advance else hr.hopping(size * SECOND, advance * SECOND)
        )
    aggregate = (
        stream.group_by()
        .window(window, grace=grace * SECOND)
        .aggregate(
            n=hr.count(),
            total=hr.sum("value"),
            lowest=hr.min("value"),
            highest=hr.max("value"),
            mean=hr.avg("value"),
        )
        .named(f"{topic.name}_{name}")
    )
    return aggregate.suppress(hr.until_window_closes()) if suppressed else aggregate


def running(topic: hr.Topic) -> RunningAggregate:
    """Current totals of the same records."""
    aggregate = topic.group_by().aggregate(
        n=hr.count(),
        total=hr.sum("value"),
        lowest=hr.min("value"),
        mean=hr.avg("value"),
        oldest=hr.first("value"),
        newest=hr.last("value"),
        some=hr.collect("value", max_items=3),
    )
    return aggregate.named(f"{topic.name}_running")


TOPICS = [
    topic("doubles", "DOUBLE", "1 minute"),
    topic("decimals", "DECIMAL(12,3)", None),
    topic("longs", "BIGINT", "5 seconds"),
]
SUBJECTS = {topic.name: subjects(topic) for topic in TOPICS}
# Two nodes that differ in name alone: they read the same log in different cuts.
TWINS = (SUBJECTS["doubles"][3], subject(TOPICS[0], "twin", 10, 4, 0, True, False))
SUBJECTS["doubles"].append(TWINS[1])
SUBJECTS["longs"].append(subject(TOPICS[2], "sliding", 5, 0, 3, True, False))
SUBJECTS["decimals"].append(subject(TOPICS[1], "sliding_filtered", 3, 0, 0, False, True))
RUNNING = {topic.name: running(topic) for topic in TOPICS}
NAMES = [node.required_name for group in SUBJECTS.values() for node in group]
NAMES += [node.required_name for node in RUNNING.values()]
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "doubles": st.one_of(
        st.sampled_from([0.1, 0.2, 0.7, -0.0, 0.0, 5e-7, 1.5e-6, -5e-7, 1e15 + 0.1, -1e15, 1e21, None]),
        st.floats(-1e6, 1e6, allow_nan=False),
        st.sampled_from([1e300, math.nan, -math.inf]),
    ),
    "decimals": st.one_of(
        st.none(),
        st.decimals(-999_999_999, 999_999_999, places=3),
        st.sampled_from([Decimal("0.000"), Decimal("-0.001")]),
    ),
    "longs": st.one_of(st.none(), st.integers(-5, 5), st.integers(-(10**15), 10**15)),
}


@dataclass(frozen=True)
class Step:
    """One cut: how long to wait before it, what arrives on each topic, and which nodes run."""

    wait: str
    arrivals: dict[str, list[Arrival]]
    runs: frozenset[str]


@dataclass(frozen=True)
class World:
    """Steps; after the last all nodes run. `crashes`: where a node's first micro-batches die."""

    steps: list[Step]
    crashes: dict[str, str]


def arrivals(topic: str, center: int) -> st.SearchStrategy[list[Arrival]]:
    """Arrivals around an event time on a grid of half seconds, so that ties and exact ends are common."""
    grid = st.integers(-40, 24).map(lambda half_seconds: max(0, center + half_seconds * 500))
    ts = st.one_of(grid, grid, grid, st.tuples(grid, st.sampled_from([-1, 1])).map(lambda t: max(0, sum(t))))
    arrival = st.builds(
        Arrival,
        partition=st.sampled_from([0, 0, 0, 1, 1, 2]),
        key=st.sampled_from(["a", "b", "a", "b", "a", "ü", None]),
        ts=ts,
        value=VALUES[topic],
        kind=st.sampled_from(["record"] * 8 + ["tombstone", "dead_letter"]),
    )
    return st.lists(arrival, max_size=9)


def is_lively(world: World) -> bool:
    """True if enough happens in a world to try a law: the first example of Hypothesis is the simplest, an empty log."""
    records = [len(arriving) for step in world.steps for arriving in step.arrivals.values()]
    return sum(records) >= 2 * len(records) and any(step.runs for step in world.steps)


@st.composite
def worlds(
    draw: st.DrawFn, topics: Sequence[str] = tuple(SUBJECTS), names: Sequence[str] = tuple(NAMES)
) -> World:
    base = draw(st.sampled_from([0, 1_700_000_000_000]))
    steps = []
    for number in range(draw(st.integers(2, 5))):
        arriving = {topic: draw(arrivals(topic, base + number * 9 * SECOND)) for topic in topics}
        runs = draw(st.sets(st.sampled_from(names), max_size=len(names) // 2))
        steps.append(Step(draw(st.sampled_from(WAITS)), arriving, frozenset(runs)))
    crashing = draw(st.lists(st.sampled_from(names), unique=True, max_size=6))
    return World(steps, {name: draw(st.sampled_from(STEPS)) for name in crashing})


def sent(arrival: Arrival, number: int) -> bytes | None:
    """The bytes that arrive in Kafka."""
    if arrival.kind == "tombstone":
        return None
    if arrival.kind == "dead_letter":
        return MALFORMED[number % len(MALFORMED)]
    return f'{{"value": {literal(arrival.value)}}}'.encode()


def literal(value: Any) -> str:
    special = {"None": "null", "nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}
    return special.get(str(value), str(value))

"""Random lives. Few numbers make one, and a seed makes the numbers: the same in each process, whatever else it has loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from tests.laws.kernel.pipelines import ENDS, GOING_ON, ON_A_LAKE
from tests.lives.story import (
    SINKS,
    TOPICS,
    Change,
    Crash,
    Cut,
    Drain,
    Erase,
    GoBack,
    Grow,
    Life,
    Limit,
    Lose,
    Made,
    Maintain,
    Mend,
    Overtaken,
    Recompute,
    Redeliver,
    Redrive,
    Rename,
    Rest,
    Restart,
    Retain,
    Send,
    Sent,
    SinkFault,
    Step,
    StoreFault,
    Upkeep,
    Wait,
)

NODES_MAX = 6
ALL = (*GOING_ON, *ON_A_LAKE, *ENDS)
THEMES: Sequence[Sequence[str]] = (
    ALL,
    ALL,
    ALL,
    ("batches", "merged batches", "processor of a table", "processor with timers", "merged branches", "time limit"),
    ("sessions", "sessions by another key", "named stream", "windows", "lookup", "distinct"),
    ("join of tables", "calm table", "grouped table", "changes", "refined table", "lookup", "table by another key"),
    ("time limit", "calm table", "changes", "changes of a table", "join of streams", "batches"),
)  # fmt: skip
ACTS_AFTER = 8  # steps: before, there is nothing to which anything could be done
ROUNDS = (7, 13)  # of a life, at least and at most
NODES_OF_ACTS_MAX = 4  # of a life of the second tier, in which Spark works for each act
NODE_STEPS = ("after sinks", "after outputs", "after state", "before outputs")
LOG_STEPS = ("before log commit", "after log commit")
ERASABLE = "erase-me-7f3a"  # no other text holds it, so that it can be sought in files
KEYS = ("a", "b", "ü", None, "a", "b", ERASABLE)
PARTITIONS = (0, 0, 0, 1, 1, 2)
WHAT = (*["record"] * 11, "tombstone", "tombstone", "malformed", "rolled back", "again", "again")
HALF_SECONDS = sorted(range(-40, 25), key=abs)
SECOND, HOUR = 1_000, 3_600_000
WAITS = (1, 2 * SECOND, 6 * SECOND, 61 * SECOND, 10 * 60 * SECOND, 0)
# For longer than a process trusts what it has read, and what it has committed.
PAUSES = (0, 2 * SECOND, 130 * SECOND)
# A producer's clock goes on, stands still, jumps ahead or jumps back.
GOES_ON = (*[9 * SECOND] * 6, 0, 0, 61 * SECOND, HOUR, 26 * HOUR, -30 * SECOND)
# Timers call these every three seconds, for each group: a day would be 31,000 calls and as many rows, and five minutes show
# the same.
OFTEN_CALLED, FAR_FOR_TIMERS = {"processor with timers", "processor of a table"}, 5 * 60 * SECOND


def pick(number: int, *of: Sequence[Any]) -> list[Any]:
    """One of each sequence, by the digits of a number."""
    found = []
    for some in of:
        number, digit = divmod(number, len(some))
        found.append(some[digit])
    return found


def sent(number: int, center: int) -> Sent:
    """The record that a number stands for."""
    kind, topic, partition, key, half, value, apart = pick(
        number, WHAT, ("t", "t", "u"), PARTITIONS, KEYS, HALF_SECONDS, (None, *range(-1, 7)), (0, 0, 0, 1, -1)
    )
    return Sent(topic, partition, key, center + half * 500 + apart, value, kind)


def cut(number: int, center: int) -> Step:
    """Mostly of all topics and nodes."""
    topics, commits, settles, some = pick(
        number, (TOPICS, TOPICS, TOPICS, ("t",), ("u",), ()), (1, 1, 2, 3), (True, True, False), (0, 0, 1)
    )
    chosen = tuple(place for place in range(NODES_MAX) if number >> (12 + place) & 1) if some else None
    return Cut(topics, commits, chosen, settles)


def trouble(number: int, center: int) -> Step:
    """Trouble of a process, the store or a sink."""
    what, skips = pick(number, ("crash", "overtaken", "store", "sink", "crash"), (0, 0, 0, 1, 2, 5))
    number //= 30
    if what == "sink":
        return SinkFault(*pick(number, ("after", "in", "before")))
    if what == "store":
        kind, times, some = pick(number, ("lost", "refused"), (1, 1, 2, 5, 9), range(30))
        return StoreFault(kind, some, times)
    at, records, ms, stays = pick(number, (*NODE_STEPS, *LOG_STEPS), range(3), PAUSES, (False, True))
    if what == "crash":
        return Crash(at, skips, stays)
    seeds = [number * 7919 + place * 104_729 for place in range(records)]
    meanwhile = tuple(sent(each % (1 << 24), center) for each in seeds)
    return Overtaken(at, skips, meanwhile, ms)


def decision(number: int, center: int) -> Step:
    """A decision of a person."""
    what, node, ms, records = pick(
        number,
        ("grow", "rest", "maintain", "restart", "drain", "limit", "grow", "lose", "upkeep"),
        range(NODES_MAX),
        (0, 2 * SECOND, 20 * SECOND),
        (None, None, 1, 3),
    )
    match what:
        case "grow":
            return Grow()
        case "rest":
            return Rest(node)
        case "maintain":
            return Maintain(node)
        case "restart":
            return Restart()
        case "drain":
            return Drain()
        case "lose":
            return Lose(("t", "u")[node % 2], node % 3, records or 2)
        case "upkeep":
            return Upkeep()
    return Limit(ms, records)


OTHERS: Sequence[Callable[[int, int], Step]] = (*[cut] * 2, *[trouble] * 4, *[decision] * 2)
ACTS = ("retain", "erase", "rename", "change", "change", "back", "recompute", "redeliver", "redrive", "mend")
ACT_THEMES: Sequence[Sequence[str]] = (  # acts that meet more often
    ACTS,
    ("retain", "retain", "rename", "recompute"),
    ("change", "back", "rename", "redeliver"),
    ("erase", "mend", "mend", "redrive", "rename"),
)


def act(number: int, theme: int = 0) -> Step:
    """What a person does to a lake. In: theme  the number of one of `ACT_THEMES`"""
    what, topic, node, key, dies, ms, value = pick(
        number,
        ACT_THEMES[theme],
        TOPICS,
        range(NODES_MAX),
        ("a", "b", "ü", ERASABLE),
        (None, None, None, 0, 1, 2, 3, 5, 8),
        (0, 0, 6 * SECOND, 61 * SECOND),
        (None, 1, 2),
    )
    match what:
        case "retain":
            return Retain(topic, ms)
        case "erase":
            return Erase(topic, key)
        case "rename":
            return Rename(node, dies)
        case "change":
            return Change(node, number // 7, dies)
        case "back":
            return GoBack()
        case "recompute":
            return Recompute(node)
        case "redeliver":
            return Redeliver(node)
        case "redrive":
            return Redrive(topic, value)
    return Mend(topic, 1 + node % 3)


def lives(seed: int, *, acts: bool = False) -> Iterator[Life]:
    """The lives of a seed, without end. In: acts  whether people do what needs Spark, too."""
    random = Random(seed)
    while True:
        yield life(random, acts=acts)


def life(random: Random, *, acts: bool) -> Life:
    """A pipeline of up to six nodes, and what happens to it."""
    most = NODES_OF_ACTS_MAX if acts else NODES_MAX
    theme, acts_theme = random.randrange(len(THEMES)), random.randrange(len(ACT_THEMES))
    nodes = tuple(made(number, theme) for number in numbers(random, 24, 1, most))
    farthest = FAR_FOR_TIMERS if any(node.kind in OFTEN_CALLED for node in nodes) else max(GOES_ON)
    steps: list[Step] = []
    center = 0
    for _ in range(random.randint(*ROUNDS)):
        records = numbers(random, 24, 1, 6)
        center += min(GOES_ON[records[0] % len(GOES_ON)], farthest)
        steps.append(Send(tuple(sent(number, center) for number in records)))
        steps.append(Wait(*pick(records[-1] // 7, WAITS)))
        steps += [one_step(number, center) for number in numbers(random, 30, 0, 3)]
        if records[-1] % 3:
            steps.append(Cut())
        if acts and len(steps) > ACTS_AFTER:
            steps += [act(number, acts_theme) for number in numbers(random, 30, 1, 2)]
    return Life(nodes, random.randint(1, len(nodes)), tuple(steps), dated=random.randrange(4) == 0)


def numbers(random: Random, bits: int, least: int, most: int) -> list[int]:
    """So many numbers, at least and at most. Most are small: then the same key, time and kind come again."""
    return [
        random.getrandbits(random.choice((8, 16, 16, 16, bits, bits)))
        for _ in range(random.randint(least, most))
    ]


def one_step(number: int, center: int) -> Step:
    """The step that a number stands for."""
    which, rest = number % len(OTHERS), number // len(OTHERS)
    return OTHERS[which](rest, center)


def made(number: int, theme: int = 0) -> Made:
    """The operator that a number stands for. In: theme  the number of one of `THEMES`, whose kinds meet more often"""
    kinds = THEMES[theme]
    kind, sink, rest, twin = pick(number, kinds, SINKS, range(1 << 14), (None, None, None, None, None, 0, 1))
    return Made(kind, rest, sink, twin)

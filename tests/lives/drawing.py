"""Random lives. Few numbers make one, and a seed makes the numbers: the same in each process, whatever else it has loaded.

In a swarm each life has a part of all that there is, so what is rare meets (Groce et al., "Swarm testing", ISSTA 2012).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import cycle
from random import Random
from typing import Any

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
    Pack,
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
from tests.lives.themes import (
    ACT_THEMES,
    ACTS,
    ACTS_AFTER,
    ALL,
    DECISIONS,
    ERASABLE,
    FAR_FOR_TIMERS,
    GOES_ON,
    HALF_SECONDS,
    JOINS_MAX,
    KEYS,
    LOG_STEPS,
    NEAR,
    NODE_STEPS,
    NODES_MAX,
    NODES_OF_ACTS_MAX,
    OF_A_SWARM,
    OF_ACTS,
    OFTEN_CALLED,
    PARTITIONS,
    PAUSES,
    RECORDS,
    ROUNDS,
    SECOND,
    THEMES,
    THEMES_OF_ALL,
    TROUBLES,
    WAITS,
    WHAT,
)


@dataclass(frozen=True)
class Draws:
    """The values from which the parts of a life are drawn. One that stands there twice is drawn twice as often."""

    kinds: Sequence[str] = ALL
    acts: Sequence[str] = ACTS
    steps: Sequence[str] = ("cut", "cut", *["trouble"] * 4, "decision", "decision")
    troubles: Sequence[str] = TROUBLES
    faults: Sequence[str] = ("lost", "refused")
    decisions: Sequence[str] = DECISIONS
    sinks: Sequence[str] = SINKS
    what: Sequence[str] = WHAT
    topics: Sequence[str] = ("t", "t", "u")
    partitions: Sequence[int] = PARTITIONS
    keys: Sequence[str | None] = KEYS
    halves: Sequence[int] = tuple(HALF_SECONDS)
    waits: Sequence[int] = WAITS
    commits: Sequence[int] = (1, 1, 2, 3)
    follows: Sequence[bool] = (False,)
    goes_on: Sequence[int] = GOES_ON
    records_max: int = 6  # that are sent at once
    in_turn: bool = False  # whether the nodes are of the kinds in their order

    def some(self, random: Random, *, acts: bool) -> Draws:
        """A part of each; in some lives it is one of `OF_A_SWARM`, and of the second tier of `OF_ACTS`."""
        names = [each.name for each in fields(self) if each.name not in ("halves", "records_max", "in_turn")]
        parts: dict[str, Any] = {name: part(random, getattr(self, name)) for name in names}
        parts["what"] = (*RECORDS, *parts["what"])
        parts["halves"] = self.halves[: random.choice(NEAR)]
        return Draws(**parts | random.choice((*OF_A_SWARM, *OF_ACTS) if acts else OF_A_SWARM))

    def of_one_topic(self, random: Random) -> Draws:
        """The others fall silent."""
        return replace(self, topics=(random.choice(self.topics),))


def part(random: Random, of: Sequence[Any]) -> tuple[Any, ...]:
    """Some of a sequence, at least one, and each of these as often as it was there."""
    each = [*dict.fromkeys(of)]
    chosen = random.sample(each, random.randint(1, len(each)))
    return tuple(one for one in of if one in chosen)


def pick(number: int, *of: Sequence[Any]) -> list[Any]:
    """One of each sequence, by the digits of a number."""
    found = []
    for some in of:
        number, digit = divmod(number, len(some))
        found.append(some[digit])
    return found


def sent(number: int, center: int, draws: Draws) -> Sent:
    """The record that a number stands for."""
    drawn = draws.what, draws.topics, draws.partitions, draws.keys, draws.halves
    kind, topic, partition, key, half, value, apart = pick(
        number, *drawn, (None, *range(-1, 7)), (0, 0, 0, 1, -1)
    )
    return Sent(topic, partition, key, center + half * 500 + apart, value, kind)


def cut(number: int, draws: Draws = Draws()) -> Step:
    """Mostly of all topics and nodes."""
    of_topics = (TOPICS, TOPICS, TOPICS, ("t",), ("u",), ())
    topics, commits, settles, some, looks = pick(
        number, of_topics, draws.commits, (True, True, False), (0, 0, 1), (True, True, False)
    )
    chosen = tuple(place for place in range(NODES_MAX) if number >> (12 + place) & 1) if some else None
    return Cut(topics, commits, chosen, settles, looks)


def trouble(number: int, center: int, draws: Draws) -> Step:
    """Trouble of a process, the store or a sink."""
    what, skips = pick(number, draws.troubles, (0, 0, 0, 1, 2, 5))
    number //= 6 * len(draws.troubles)
    if what == "sink":
        return SinkFault(*pick(number, ("after", "in", "before")))
    if what == "store":
        kind, times, some = pick(number, draws.faults, (1, 1, 2, 5, 9), range(30))
        return StoreFault(kind, some, times)
    at, records, ms, stays = pick(number, (*NODE_STEPS, *LOG_STEPS), range(3), PAUSES, (False, True))
    if what == "crash":
        return Crash(at, skips, stays)
    seeds = [number * 7919 + place * 104_729 for place in range(records)]
    meanwhile = tuple(sent(each % (1 << 24), center, draws) for each in seeds)
    return Overtaken(at, skips, meanwhile, ms)


def decision(number: int, draws: Draws) -> Step:
    """A decision of a person."""
    what, node, ms, records, one = pick(
        number,
        draws.decisions,
        range(NODES_MAX),
        (0, 2 * SECOND, 20 * SECOND, 5 * SECOND, 2 * SECOND),
        (None, None, 1, 3),
        (False, True),
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
    return Limit(ms, records, node if one else None)


def act(number: int, acts: Sequence[str] = ACTS, nodes: int = NODES_MAX) -> Step:
    """The act that a number stands for. In: acts  from which it is chosen; nodes: so many may be meant"""
    what, topic, node, key, dies, ms, value, unseen, later = pick(
        number,
        acts,
        TOPICS,
        range(nodes),
        ("a", "b", "ü", ERASABLE),
        (None, None, None, 0, 1, 2, 3, 5, 8),
        (0, 0, 6 * SECOND, 61 * SECOND),
        (None, 1, 2),
        (False, True),
        (False, True, False),
    )
    match what:
        case "retain":
            return Retain(topic, ms, dies)
        case "erase":
            return Erase(topic, key, dies)
        case "rename":
            return Rename(node, dies)
        case "change":
            return Change(node, number // 7, dies, leaves=later)
        case "back":
            return GoBack()
        case "recompute":
            return Recompute(node)
        case "redeliver":
            return Redeliver(node)
        case "redrive":
            return Redrive(topic, value)
        case "pack":
            return Pack(topic)
    return Mend(topic, 1 + node % 3, unseen=unseen, dies=dies, later=later)


def lives(seed: int, *, acts: bool = False, swarm: bool = False) -> Iterator[Life]:
    """The lives of a seed, without end.

    In: acts   whether people do what needs Spark, too
        swarm  whether each life has a part of all kinds, keys, times and troubles
    """
    random = Random(seed)
    while True:
        yield life(random, acts=acts, swarm=swarm)


def life(random: Random, *, acts: bool, swarm: bool) -> Life:
    """A pipeline of up to six nodes, and what happens to it."""
    most = NODES_OF_ACTS_MAX if acts else NODES_MAX
    theme = random.randrange(len(THEMES) if swarm else THEMES_OF_ALL)
    acts_theme = random.randrange(len(ACT_THEMES))
    draws = Draws(kinds=THEMES[theme], acts=ACT_THEMES[acts_theme])
    if swarm:
        draws = replace(draws, waits=(*WAITS, 2 * SECOND - 1), follows=(False, True)).some(random, acts=acts)
    fewest = len(draws.kinds) if draws.in_turn else 1
    nodes = tuple(made(number, draws) for number in numbers(random, 24, fewest, most))
    if draws.in_turn:
        nodes = tuple(
            replace(n, kind=k, twin_of=None) for n, k in zip(nodes, cycle(draws.kinds), strict=False)
        )
    joins = [place for place, node in enumerate(nodes) if node.kind == "join of streams"]
    nodes = tuple(
        replace(n, kind="windows") if place in joins[JOINS_MAX:] else n for place, n in enumerate(nodes)
    )
    people = partial(acts_of, draws=draws, nodes=len(nodes) if swarm else NODES_MAX)
    farthest = FAR_FOR_TIMERS if any(node.kind in OFTEN_CALLED for node in nodes) else max(GOES_ON)
    steps: list[Step] = []
    center = 0
    for _ in range(random.randint(*ROUNDS)):
        records = numbers(random, 24, 1, draws.records_max)
        center += min(draws.goes_on[records[0] % len(draws.goes_on)], farthest)
        now = draws.of_one_topic(random) if swarm and random.randrange(3) == 0 else draws
        steps.append(Send(tuple(sent(number, center, now) for number in records)))
        steps.append(Wait(*pick(records[-1] // 7, draws.waits)))
        steps += [one_step(number, center, draws) for number in numbers(random, 30, 0, 3)]
        if acts and swarm and random.randrange(3) == 0:  # people act on what it leaves
            steps.append(Crash(random.choice(NODE_STEPS), random.randrange(3), stays=True))
        if records[-1] % 3:
            steps.append(Cut(commits=draws.commits[records[0] // 3 % len(draws.commits)] if swarm else 1))
        if acts and len(steps) > ACTS_AFTER:
            steps += people(numbers(random, 30, 1, 3))
    if acts and swarm:  # somebody is the last one, while something waits
        if random.randrange(2):  # maybe behind a log commit without a record, which is not cut off
            steps += [Cut(), Send((Sent(draws.topics[0], 0, None, center, kind="rolled back"),)), Cut()]
        steps += [Wait(1), *people(numbers(random, 30, 1, 2))]
    begins = random.randint(fewest, len(nodes))
    return Life(nodes, begins, tuple(steps), dated=random.randrange(2 if swarm else 4) == 0)


def acts_of(some: Sequence[int], draws: Draws, nodes: int) -> list[Step]:
    """The acts that numbers stand for."""
    return [act(number, draws.acts, nodes) for number in some]


def numbers(random: Random, bits: int, least: int, most: int) -> list[int]:
    """So many numbers, at least and at most. Most are small: then the same key, time and kind come again."""
    return [
        random.getrandbits(random.choice((8, 16, 16, 16, bits, bits)))
        for _ in range(random.randint(least, most))
    ]


def one_step(number: int, center: int, draws: Draws) -> Step:
    """The step that a number stands for."""
    which, rest = draws.steps[number % len(draws.steps)], number // len(draws.steps)
    if which == "cut":
        return cut(rest, draws)
    return trouble(rest, center, draws) if which == "trouble" else decision(rest, draws)


def made(number: int, draws: Draws = Draws()) -> Made:
    """The operator that a number stands for."""
    kind, sink, follows, rest, twin = pick(
        number, draws.kinds, draws.sinks, draws.follows, range(1 << 14), (None, None, None, None, None, 0, 1)
    )
    return Made(kind, rest, sink, twin, follows)

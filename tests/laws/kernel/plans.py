"""Plans by which the laws fold a log: where it is cut, into how many buckets and pieces, and where the process dies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from headrace.fold.contract import Times


class Readable(Protocol):
    """A log that can be cut (see `logs.World`)."""

    @property
    def topics(self) -> Sequence[str]: ...

    def commits(self, topic: str | None = None) -> list[int]: ...

    def increment(self, after: dict[str, int], upto: dict[str, int]) -> tuple[pa.Table, Times]: ...


@dataclass(frozen=True)
class Plan:
    """How a log is folded.

    sizes        log commits of each micro-batch, in turn
    parts        in place of them: how many micro-batches there are; chance cuts the log
    buckets      of each micro-batch, in turn
    piece_bytes  a micro-batch of more is folded in pieces of whole log commits
    crash        the process dies in this micro-batch (of so many, counted round), once its outputs are written and its state
                 is not; so it is folded again, in other buckets and pieces. None: never
    seed         of everything else: the order of rows and buckets, what is handed over too much, upkeep
    """

    sizes: tuple[int, ...] = (1000,)
    parts: int | None = None
    buckets: tuple[int, ...] = (1,)
    piece_bytes: int = 1 << 30
    crash: int | None = None
    seed: int = 0


ONE_GO = Plan()
PIECES = (1 << 30, 1 << 30, 1 << 30, 2_000, 1)
BUCKETS = ((1,), (2,), (1, 2), (1, 1, 2), (1, 3, 1))
NUMBERS = 1 << 20  # of plans: most differ in their seeds alone


def plan_of(number: int, parts: int) -> Plan:
    """The plan of some micro-batches that a number below NUMBERS stands for; one of them is repeated after a crash."""
    digits = []
    for base in (len(BUCKETS), len(PIECES), parts):
        number, digit = divmod(number, base)
        digits.append(digit)
    return Plan(
        parts=parts,
        buckets=BUCKETS[digits[0]],
        piece_bytes=PIECES[digits[1]],
        crash=digits[2],
        seed=number,
    )


def plans() -> st.SearchStrategy[Plan]:
    """Plans of several micro-batches."""
    numbers = st.tuples(st.integers(0, NUMBERS - 1), st.sampled_from([3, 2, 5]))
    return numbers.map(lambda drawn: plan_of(*drawn))


def frontiers(world: Readable, plan: Plan) -> list[dict[str, int]]:
    """How far each micro-batch reads each topic: all through one commit time."""
    return [dict.fromkeys(world.topics, end) for end in _cut(world.commits(None), plan)]


def _cut(commits: Sequence[int], plan: Plan) -> list[int]:
    """The last commit of each micro-batch."""
    if plan.parts is not None and commits:
        chance = np.random.default_rng((plan.seed, 0))
        cuts = chance.choice(len(commits), min(plan.parts, len(commits)), replace=False)
        return [commits[at] for at in sorted({*cuts.tolist(), len(commits) - 1})]
    ends: list[int] = []
    sizes, at = plan.sizes, 0
    while at < len(commits):
        at += sizes[len(ends) % len(sizes)]
        ends.append(commits[min(at, len(commits)) - 1])
    return ends

"""A small engine for the laws: it cuts a log, distributes rows over buckets, keeps state in memory, and repeats itself.

It gives `fold` only what `needs` asks for, or by chance more. A piece of the real engine is here a micro-batch of its own:
what one changes, the next one reads.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

from headrace.fold.contract import (
    BATCH,
    FATE,
    HASH,
    KEY,
    PARTITION,
    TOPIC,
    Clock,
    Folded,
    Needs,
    Scope,
    Step,
    Times,
)
from headrace.fold.keys import bucket_of, bucket_range, with_keys
from tests.laws.kernel.logs import World

Fates = Counter[tuple[str, int, str]]  # topic, partition, fate


@dataclass(frozen=True)
class Plan:
    """How a log is folded.

    sizes    log commits of each micro-batch, in turn
    apart    whether topics are cut by themselves, instead of at one commit time
    buckets  of each micro-batch, in turn
    seed     of everything else: the order of rows and buckets, what is handed over too much, repeats, upkeep
    """

    sizes: tuple[int, ...] = (1000,)
    apart: bool = False
    buckets: tuple[int, ...] = (1,)
    seed: int = 0


ONE_GO = Plan()


def plans(apart: bool = False) -> st.SearchStrategy[Plan]:
    """Plans of at least three micro-batches where the log has so many commits."""
    return st.builds(
        Plan,
        sizes=st.lists(st.sampled_from([1, 1, 1, 2, 3]), min_size=1, max_size=4).map(tuple),
        apart=st.booleans() if apart else st.just(False),
        buckets=st.lists(st.sampled_from([1, 2, 5]), min_size=1, max_size=3).map(tuple),
        seed=st.integers(0, 2**32 - 1),
    )


@dataclass
class Outcome:
    """What a log led to.

    outputs  by name, of each micro-batch the rows of all buckets
    state    by step and table, all rows, merged
    fates    how many records met which
    clock    after the last micro-batch
    """

    outputs: dict[str, list[pa.Table]] = field(default_factory=lambda: defaultdict(list))
    state: list[dict[str, pa.Table]] = field(default_factory=list)
    fates: Fates = field(default_factory=Counter)
    clock: Clock = field(default_factory=Clock)

    def rows(self, name: str = "results") -> list[dict[str, Any]]:
        """All rows of an output, over all micro-batches."""
        return [row for table in self.outputs.get(name, []) for row in table.to_pylist()]

    def current(
        self, identity: Sequence[str], name: str = "results"
    ) -> dict[tuple[Any, ...], dict[str, Any]]:
        """A current table: the last row of each identity, without those deleted."""
        found: dict[tuple[Any, ...], dict[str, Any]] = {}
        for table in self.outputs.get(name, []):
            rows = table.to_pylist()
            names = [tuple(row[column] for column in identity) for row in rows]
            assert len(set(map(repr, names))) == len(rows), "two rows of one key in one micro-batch"
            for key, row in zip(names, rows, strict=True):
                found.pop(key, None)
                if not row["__deleted"]:
                    found[key] = row
        return found


def run(steps: Sequence[Step], world: World, plan: Plan = ONE_GO, per_bucket: Sequence[str] = ()) -> Outcome:
    """Fold a whole log. In: per_bucket  outputs that are sums over buckets, so that their rows depend on these."""
    engine, upto = _Engine(steps, plan, per_bucket), dict[str, int]()
    for number, frontier in enumerate(frontiers(world, plan)):
        rows, times = world.increment(upto, frontier)
        engine.increment(rows, times, number)
        upto = frontier
    return engine.outcome()


def frontiers(world: World, plan: Plan) -> list[dict[str, int]]:
    """How far each micro-batch reads each topic."""
    cut: dict[str, list[int]] = {}
    for place, topic in enumerate(world.topics):
        cut[topic] = _cut(
            world.commits(topic if plan.apart else None), plan.sizes[place if plan.apart else 0 :]
        )
    most = max(map(len, cut.values()), default=0)
    return [
        {topic: ends[min(number, len(ends) - 1)] for topic, ends in cut.items() if ends}
        for number in range(most)
    ]


def _cut(commits: Sequence[int], sizes: Sequence[int]) -> list[int]:
    ends: list[int] = []
    sizes, at = sizes or (1,), 0
    while at < len(commits):
        at += sizes[len(ends) % len(sizes)]
        ends.append(commits[min(at, len(commits)) - 1])
    return ends


class _Engine:
    def __init__(self, steps: Sequence[Step], plan: Plan, per_bucket: Sequence[str]) -> None:
        self.steps = steps
        self.per_bucket = per_bucket
        self.plan = plan
        self.random = np.random.default_rng(plan.seed)
        self.state: list[dict[str, pa.Table]] = [
            {name: table.empty() for name, table in step.state.items()} for step in steps
        ]
        self.found = Outcome()
        self.batch = 0

    def increment(self, rows: pa.Table, times: Times, number: int) -> None:
        """One micro-batch, or the same one again after a crash before its state was committed."""
        self.batch += 1
        buckets = self.plan.buckets[number % len(self.plan.buckets)]
        outputs, changes, fates = self._fold(rows, times, buckets)
        if self.random.random() < 0.3:
            other = self.plan.buckets[self.random.integers(len(self.plan.buckets))]
            again, changes, repeated = self._fold(rows, times, other)
            assert repeated == fates, "a repeated micro-batch counts otherwise"
            for name in {*outputs, *again} - {*self.per_bucket}:
                assert as_set(outputs.get(name)) == as_set(again.get(name)), f"{name}: repeated otherwise"
            outputs = again
        for name, table in outputs.items():
            self.found.outputs[name].append(table)
        self.found.fates.update(fates)
        for state, tables, step in zip(self.state, changes, self.steps, strict=True):
            for name, gained in tables.items():
                assert gained.schema.equals(step.state[name].schema), f"{name}: {gained.schema}"
                marked = gained.append_column(
                    BATCH, pa.repeat(pa.scalar(self.batch, pa.int32()), len(gained))
                )
                state[name] = pa.concat_tables([state[name], marked])
        self._upkeep(times.after)
        self.found.clock = times.after

    def outcome(self) -> Outcome:
        """What was found, with the state merged."""
        self.found.state = [
            {name: step.state[name].merge(table) for name, table in state.items()}
            for state, step in zip(self.state, self.steps, strict=True)
        ]
        return self.found

    def _fold(
        self, rows: pa.Table, times: Times, buckets: int
    ) -> tuple[dict[str, pa.Table], list[dict[str, pa.Table]], Fates]:
        outputs: dict[str, list[pa.Table]] = defaultdict(list)
        changes: list[dict[str, pa.Table]] = []
        fates: Fates = Counter()
        shared: pa.Table | None = None
        for step, state in zip(self.steps, self.state, strict=True):
            folded = self._step(step, rows, shared, state, times, buckets)
            gained: dict[str, list[pa.Table]] = defaultdict(list)
            for one in folded:
                for name, table in one.outputs.items():
                    outputs[name].append(table)
                for name, table in one.changes.items():
                    gained[name].append(table)
                fates.update(fates_of(one.tally))  # `+=` would drop what is below zero
            changes.append({name: pa.concat_tables(tables) for name, tables in gained.items()})
            going_on = [one.rows for one in folded if one.rows is not None]
            rows = pa.concat_tables(going_on) if going_on else rows.slice(0, 0)
            sharing = [one.shared for one in folded if one.shared is not None]
            shared = pa.concat_tables(sharing) if sharing else None
        return {name: pa.concat_tables(tables) for name, tables in outputs.items()}, changes, fates

    def _step(
        self,
        step: Step,
        rows: pa.Table,
        shared: pa.Table | None,
        state: Mapping[str, pa.Table],
        times: Times,
        buckets: int,
    ) -> list[Folded]:
        by = [] if step.scope is Scope.PARTITION else [*step.keys]
        if step.scope is not Scope.GROUP:
            by += [TOPIC, PARTITION]
        if step.scope is Scope.ANYWHERE:
            rows = self._shuffled(rows)
            number = self.random.integers(buckets, size=len(rows))
        else:
            rows = self._shuffled(with_keys(rows, by) if by or KEY not in rows.column_names else rows)
            number = bucket_of(rows[HASH].to_numpy(), buckets)
        found = []
        for bucket in self.random.permutation(buckets):
            mine = rows.filter(pa.array(number == bucket))
            if shared is not None:
                nothing = {KEY: pa.nulls(len(shared), pa.binary()), HASH: pa.nulls(len(shared), pa.int64())}
                columns = {name: shared[name] for name in shared.column_names} | nothing
                mine = self._shuffled(pa.concat_tables([mine, pa.table(columns).select(mine.schema.names)]))
            needs, touched = step.needs(mine, times), {}
            for name, need in needs.items():
                read = state[name].filter(
                    pa.array(self._asked(state[name], need, step, name, bucket, buckets))
                )
                touched[name] = self._shuffled(step.state[name].merge(self._shuffled(read)))
            found.append(step.fold(mine, touched, times))
        return found

    def _asked(
        self, table: pa.Table, need: Needs, step: Step, name: str, bucket: int, buckets: int
    ) -> np.ndarray:
        """Which rows of a state table a bucket gets: those that it needs, and by chance others of the bucket."""
        lowest, highest = bucket_range(int(bucket), buckets)
        hashes = table[HASH].to_numpy()
        mine: np.ndarray = (hashes >= lowest) & (hashes <= highest)
        if self.random.random() < 0.2:
            return mine
        needed = np.zeros(len(table), bool)
        each: Needs | None = need
        while each is not None:
            some = np.ones(len(table), bool)
            if each.hashes is not None:
                assert (each.hashes[1:] >= each.hashes[:-1]).all(), "hashes are not sorted"
                some &= np.isin(hashes, each.hashes)
            if each.times is not None:
                column = step.state[name].time_column
                assert column is not None, f"{name} has no time column"
                ms = table[column].fill_null(np.iinfo(np.int64).min).to_numpy()
                some &= (ms >= each.times[0]) & (ms <= each.times[1])
            needed |= some
            each = each.either
        return mine & needed

    def _upkeep(self, clock: Clock) -> None:
        for state, step in zip(self.state, self.steps, strict=True):
            for name, table in step.state.items():
                if self.random.random() < 0.3:
                    state[name] = self._shuffled(table.merge(state[name]))
                if table.expired is not None and self.random.random() < 0.5:
                    merged = self._shuffled(table.merge(state[name]))
                    state[name] = merged.filter(pc.invert(table.expired(merged, clock)))

    def _shuffled(self, rows: pa.Table) -> pa.Table:
        return rows.take(pa.array(self.random.permutation(rows.num_rows)))


def fates_of(tally: pa.Table | None) -> Fates:
    """A tally as a counter."""
    rows = [] if tally is None else tally.to_pylist()
    return Counter(
        {(row[TOPIC], row[PARTITION], row[FATE]): row["records"] for row in rows if row["records"]}
    )


def as_set(table: pa.Table | None) -> list[str]:
    """Rows in no order."""
    return sorted(map(repr, [] if table is None else table.to_pylist()))


def assert_same(one: Outcome, other: Outcome, names: Sequence[str] = ("results",)) -> None:
    """Two outcomes have the same appended rows and fates."""
    assert one.fates == other.fates
    for name in names:
        assert sorted(map(repr, one.rows(name))) == sorted(map(repr, other.rows(name))), name

"""A small engine for the laws: it cuts a log, distributes rows over buckets and pieces, keeps state in memory, and crashes.

It gives `fold` only what `needs` asks for, or by chance more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.folding.fold_increment import Compute, pieces_of, selections_of
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
from tests.laws.kernel.plans import ONE_GO, PIECES, Plan, Readable, frontiers

Fates = Counter[tuple[str, int, str]]  # topic, partition, fate
State = list[dict[str, pa.Table]]  # of each step its tables


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


def run(
    steps: Sequence[Step],
    world: Readable,
    plan: Plan = ONE_GO,
    per_bucket: Sequence[str] = (),
    revised: bool = False,
    compute: Compute | None = None,
) -> Outcome:
    """Fold a whole log.

    In: per_bucket  outputs that are sums over buckets, so that their rows depend on these
        revised     a later row of a key replaces the earlier one in `results`, which the state's commit holds, too
        compute     see `fold_increment`
    """
    engine, upto = _Engine(steps, plan, per_bucket, compute, revised=revised), dict[str, int]()
    ends = frontiers(world, plan)
    for number, frontier in enumerate(ends):
        rows, times = world.increment(upto, frontier)
        engine.increment(
            rows, times, number, crashes=plan.crash is not None and plan.crash % len(ends) == number
        )
        upto = frontier
    return engine.outcome()


@dataclass
class _Made:
    """What a micro-batch leads to: outputs, the whole state after it, fates."""

    outputs: dict[str, list[pa.Table]]
    state: State
    fates: Fates


class _Engine:
    def __init__(
        self,
        steps: Sequence[Step],
        plan: Plan,
        per_bucket: Sequence[str],
        compute: Compute | None,
        *,
        revised: bool,
    ) -> None:
        self.steps = steps
        self.uncommitted = {*per_bucket, *(("results",) if revised else ())}
        self.plan = plan
        self.compute = compute
        self.random = np.random.default_rng(plan.seed)
        self.state: State = [{name: table.empty() for name, table in step.state.items()} for step in steps]
        self.found = Outcome()
        self.batch = 0

    def increment(self, rows: pa.Table, times: Times, number: int, *, crashes: bool) -> None:
        """One micro-batch, or the same one again after a crash before its state was committed."""
        buckets = self.plan.buckets[number % len(self.plan.buckets)]
        made = self._pieces(rows, times, buckets, self.plan.piece_bytes)
        if crashes:
            again = self._pieces(rows, times, buckets % 3 + 1, PIECES[(number + 1) % len(PIECES)])
            assert again.fates == made.fates, "a repeated micro-batch counts otherwise"
            for name in {*made.outputs, *again.outputs} - self.uncommitted:
                one, other = (as_set(each.outputs.get(name)) for each in (made, again))
                assert one == other, f"{name}: repeated otherwise"
                again.outputs[name] = made.outputs[name]  # what was written stands
            made = again
        for name, tables in made.outputs.items():
            self.found.outputs[name] += tables
        self.found.fates.update(made.fates)
        self.state = made.state
        self._upkeep(times.after)
        self.found.clock = times.after

    def outcome(self) -> Outcome:
        """What was found, with the state merged."""
        self.found.state = [
            {name: step.state[name].merge(table) for name, table in state.items()}
            for state, step in zip(self.state, self.steps, strict=True)
        ]
        return self.found

    def _pieces(self, rows: pa.Table, times: Times, buckets: int, piece_bytes: int) -> _Made:
        """A micro-batch, piece by piece: each reads what the one before wrote. What is written stands nowhere else yet."""
        made = _Made(defaultdict(list), [dict(tables) for tables in self.state], Counter())
        for piece, clocks in pieces_of(rows, times, piece_bytes):
            self.batch += 1
            self._fold(piece, clocks, buckets, made)
        return made

    def _fold(self, rows: pa.Table, times: Times, buckets: int, made: _Made) -> None:
        shared: pa.Table | None = None
        outputs: dict[str, list[pa.Table]] = defaultdict(list)
        for step, state in zip(self.steps, made.state, strict=True):
            if selections_of(step):
                assert self.compute is not None
                rows = self.compute(selections_of(step), rows)
            folded = self._step(step, rows, shared, state, times, buckets)
            for one in folded:
                for name, table in one.outputs.items():
                    outputs[name].append(table)
                for name, gained in one.changes.items():
                    assert gained.schema.equals(step.state[name].schema), f"{name}: {gained.schema}"
                    if gained.num_rows:
                        batch = pa.repeat(pa.scalar(self.batch, pa.int32()), gained.num_rows)
                        state[name] = pa.concat_tables([state[name], gained.append_column(BATCH, batch)])
                made.fates.update(fates_of(one.tally))  # `+=` would drop what is below zero
            going_on = [one.rows for one in folded if one.rows is not None]
            rows = pa.concat_tables(going_on) if going_on else rows.slice(0, 0)
            sharing = [one.shared for one in folded if one.shared is not None]
            shared = pa.concat_tables(sharing) if sharing else None
        for name, tables in outputs.items():
            made.outputs[name].append(pa.concat_tables(tables))

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
            number = self.random.integers(buckets, size=len(rows))
        else:
            rows = with_keys(rows, by) if by or KEY not in rows.column_names else rows
            number = bucket_of(rows[HASH].to_numpy(), buckets)
        order = self.random.permutation(rows.num_rows)
        found = []
        for bucket in self.random.permutation(buckets):
            mine = rows.take(pa.array(order[number[order] == bucket]))
            if shared is not None:
                nothing = {KEY: pa.nulls(len(shared), pa.binary()), HASH: pa.nulls(len(shared), pa.int64())}
                columns = {name: shared[name] for name in shared.column_names} | nothing
                mine = self._shuffled(pa.concat_tables([mine, pa.table(columns).select(mine.schema.names)]))
            touched: dict[str, pa.Table] = {}
            for ask in (step.needs, partial(step.needs_more, state=touched)):
                for name, need in ask(mine, times=times).items():
                    touched[name] = self._read(step, name, state[name], need, int(bucket), buckets)
            found.append(folded := step.fold(mine, touched, times))
            if step.keeps_bucket and folded.rows is not None:
                assert folded.shared is None
                assert (bucket_of(folded.rows[HASH].to_numpy(), buckets) == bucket).all(), "left its bucket"
        return found

    def _read(
        self, step: Step, name: str, table: pa.Table, need: Needs, bucket: int, buckets: int
    ) -> pa.Table:
        """The rows of a state table that a bucket gets, merged."""
        if not table.num_rows:
            return table
        which = np.flatnonzero(self._asked(table, need, step, name, bucket, buckets))
        rows = step.state[name].merge(table.take(pa.array(self.random.permutation(which))))
        return self._shuffled(rows)

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
                if self.random.random() < 0.2:
                    state[name] = table.merge(state[name])
                if table.expired is not None and self.random.random() < 0.3:
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


def as_set(tables: Sequence[pa.Table] | None) -> list[str]:
    """Rows in no order."""
    return sorted(repr(row) for table in tables or () for row in table.to_pylist())


def assert_same(one: Outcome, other: Outcome, names: Sequence[str] = ("results",)) -> None:
    """Two outcomes have the same appended rows and fates."""
    assert one.fates == other.fates
    for name in names:
        assert sorted(map(repr, one.rows(name))) == sorted(map(repr, other.rows(name))), name


def run_changed(
    before: Sequence[Step],
    after: Sequence[Step],
    world: Readable,
    plan: Plan,
    at: int,
    change: Callable[[State], State],
) -> tuple[Outcome, Outcome]:
    """Fold so many micro-batches by some steps and the rest by others; what each of them led to.

    In: change  makes of the merged state of the former steps that of the latter
    """
    engines = [_Engine(steps, plan, (), None, revised=True) for steps in (before, after)]
    upto, ends = dict[str, int](), frontiers(world, plan)
    for number, frontier in enumerate(ends):
        engine = engines[number >= at]
        if number == at:
            engine.state, engine.batch = change(engines[0].outcome().state), engines[0].batch
        engine.increment(*world.increment(upto, frontier), number, crashes=False)
        upto = frontier
    return engines[0].outcome(), engines[1].outcome()

"""Drives a random log through a node's tables in a real lake: any cuts, buckets and pieces, crashes, and upkeep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

from headrace import lake
from headrace.engine.fold_increment import Distribution
from headrace.engine.node_state import NodeState, NodeTables
from headrace.engine.operators import NodeOperator
from headrace.engine.output_tables import output_tables
from headrace.fold.contract import DELETED
from tests.laws.kernel.harness import Outcome
from tests.laws.kernel.plans import Plan, frontiers

HOWS = st.builds(
    Distribution, buckets=st.sampled_from([1, 3]), piece_bytes=st.sampled_from([1, 1_500, 1 << 30])
)


class Crash(Exception):
    """The process ends here."""


class Driver:
    """One node. Chance decides where it crashes, how it goes on, and when its tables are compacted."""

    def __init__(self, folder: Path, operator: NodeOperator, how: Distribution, seed: int) -> None:
        self.folder, self.operator, self.how = folder, operator, how
        self.outputs = [*output_tables(operator)]
        self.random = np.random.default_rng(seed)
        self.crashes = 0
        self._start()

    def run(self, world: Any, plan: Plan) -> Outcome:
        """Fold the whole log."""
        ends = frontiers(world, plan)
        at = 0
        while at < len(ends):
            if self.state.pending is None and self.random.random() < 0.2:
                at = min(at + 1, len(ends) - 1)  # more of the log is there by now: another cut than planned
            upto = self.state.pending or ends[at]
            try:
                self._increment(*world.increment(self.state.progress.clock.upto_ms, upto))
                at += 1
            except Crash:
                self.crashes += 1
                self._start()
                at += _is_done(self.state, world, ends[at])
            self._upkeep()
        return self._outcome()

    def _start(self) -> None:
        """A new process: nothing is known but what the lake says."""
        lake.forget(str(self.folder))
        tables = NodeTables.create(
            self.operator,
            f"{self.folder}/state",
            {name: f"{self.folder}/{name}" for name in self.outputs},
        )
        self.state = NodeState(tables)

    def _increment(self, rows: pa.Table, times: Any) -> None:
        found = self.state.fold(rows, times, self.how)
        if found is None:
            return
        self._may_crash()
        self.state.commit_outputs(found, times)
        self._may_crash()
        self.state.commit_state(found, times)
        self._may_crash()
        assert self.state.fold(rows, times, self.how) is None, "a repeated micro-batch is not recognised"

    def _may_crash(self) -> None:
        if self.crashes < 4 and self.random.random() < 0.2:
            raise Crash

    def _upkeep(self) -> None:
        if self.random.random() < 0.3:
            self.state.compact_state(lake.TableWriter(self.state.tables.state, lake.MAINTAINER), runs_max=1)

    def _outcome(self) -> Outcome:
        tables, progress = self.state.tables, self.state.progress
        found = Outcome(clock=progress.clock, fates=Counter(progress.fates))
        for name, table in tables.outputs.items():
            found.outputs[name] = [everything(table)]
        for name in self.operator.kept:
            found.outputs[name] = [current_rows(tables)]
        found.state = [{name: tables.read_state(name) for name in step.state} for step in self.operator.steps]
        return found


def everything(table: lake.LakeTable) -> pa.Table:
    """All rows, as delta-rs reads them."""
    lake.forget(table.uri)
    read: pa.Table = lake.open_table(table.uri).with_handle(lambda handle: handle.to_pyarrow_table())
    return read


def current_rows(tables: NodeTables) -> pa.Table:
    """The current rows of results that are revised."""
    rows = tables.read_state("results")
    return rows.filter(pc.invert(rows[DELETED]))


def _is_done(state: NodeState, world: Any, upto: Mapping[str, int]) -> bool:
    _, times = world.increment({}, upto)
    return state.progress.has(times)

"""Nodes whose state is a real Delta table: any cuts, buckets, pieces, crashes and compactions lead to the oracle's rows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import lake
from headrace.engine.compact_runs import Packing
from headrace.engine.compact_tables import compact_state
from headrace.engine.folding.fold_increment import Distribution, FoldResult, Run
from headrace.engine.state_files import StateSource
from headrace.engine.state_groups import forget_state
from headrace.engine.state_layout import SHARED
from headrace.engine.state_reads import read_state
from headrace.fold.contract import Needs, Times
from headrace.lake import kinds
from tests.laws.kernel.families import FAMILIES, Family
from tests.laws.kernel.harness import Outcome, fates_of
from tests.laws.kernel.plans import Plan, frontiers, plans
from tests.laws.kernel.reading import Reading
from tests.laws.kernel.verdict import Verdict

pytestmark = pytest.mark.fast

FEW = settings(
    max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "6")),
    deadline=None,
)
SEEDS = st.integers(0, 2**32 - 1)
HOWS = st.builds(
    Distribution, buckets=st.sampled_from([1, 3]), piece_bytes=st.sampled_from([1, 1_500, 1 << 30])
)
KINDS = (
    "windows",
    "sessions",
    "totals",
    "tables",
    "batches",
    "time limits",
    "lookups in event time",
    "joins of streams",
)
WRITER = "node/it"


class StateInLake:
    """The state of one node in a Delta table. Chance decides where the process ends and when the table is compacted."""

    def __init__(self, folder: Path, reading: Reading, how: Distribution, seed: int) -> None:
        self.reading, self.operator, self.how = reading, reading.operator, how
        self.random = np.random.default_rng(seed)
        self.uri = str(folder / "state")
        self._start()

    def run(self, plan: Plan) -> Outcome:
        """Fold the whole log."""
        outcome, upto, batch = Outcome(), dict[str, int](), 0
        for frontier in frontiers(self.reading, plan):
            rows, times = self.reading.increment(upto, frontier)
            result = self._fold(rows, times, batch)
            if self.random.random() < 0.3:  # the process ends before the commit, and the next one folds again
                self._start()
                result = self._fold(rows, times, batch)
            self.writer.append(result.state, {"writer": WRITER})
            for name, tables in result.outputs.items():
                outcome.outputs[name] += tables
            outcome.fates.update(fates_of(result.tally))
            outcome.clock, upto, batch = times.after, frontier, result.last_batch + 1
            if self.random.random() < 0.3:
                maintainer = lake.TableWriter(self.state, lake.MAINTAINER)
                compact_state(
                    self.state, maintainer, self.operator.layout, times.after, [WRITER], Packing(runs_max=1)
                )
        self._start()
        outcome.state = [{name: self._read(name) for name in step.state} for step in self.operator.steps]
        for name in self.operator.kept:
            outcome.outputs[name] = [self._read(name)]
        return outcome

    def _start(self) -> None:
        """Begin as a new process does: nothing is known but the lake's content."""
        lake.forget(self.uri)
        forget_state()
        self.state = lake.create(self.uri, self.operator.layout.schema, kinds.state(tuple(SHARED.names)))
        self.writer = lake.TableWriter(self.state, lake.APPENDER, carries=[WRITER])

    def _fold(self, rows: Any, times: Times, batch: int) -> FoldResult:
        source, operator = StateSource.committed(self.state), self.operator
        run = Run(kept=operator.kept, how=self.how)
        return run.increment(operator.steps, rows, times, source, batch=batch)

    def _read(self, name: str) -> Any:
        return read_state(StateSource.committed(self.state), self.operator.layout, name, Needs()).rows


@pytest.mark.parametrize(
    "family", [each for each in FAMILIES if each.name in KINDS], ids=lambda family: family.name
)
@FEW
@given(data=st.data(), how=HOWS, seed=SEEDS)
def test_a_node_in_the_lake_has_the_rows_of_the_oracle(
    tmp_path_factory: pytest.TempPathFactory,
    family: Family,
    data: st.DataObject,
    how: Distribution,
    seed: int,
) -> None:
    subject = data.draw(st.sampled_from(family.subjects))
    reading = Reading(subject.node, data.draw(family.worlds), changes=subject.changes)
    plan = data.draw(plans())
    outcome = StateInLake(tmp_path_factory.mktemp("node"), reading, how, seed).run(plan)
    Verdict(reading).compare(reading.operator, outcome)

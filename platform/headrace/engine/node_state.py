"""A node's tables in the lake: how its micro-batches are committed, and how it goes on after a crash.

A micro-batch is committed in this order:
  1. outputs, one commit for each table that gains rows; its record says how far the logs were read;
  2. the state with progress, one commit: from then on the micro-batch counts.

Law: each micro-batch counts once. A crash between the two leaves outputs that are ahead of the state. The node then folds
exactly that increment again (`pending`), leaves out the outputs that are there, and commits the state. Outputs follow from
the log alone, so those that are there are those that it would write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from headrace.engine.bounds import judged
from headrace.engine.compact_runs import RUNS_MAX
from headrace.engine.compact_tables import compact_state
from headrace.engine.fold_increment import Compute, Distribution, FoldResult, fold_increment
from headrace.engine.operators import NodeOperator
from headrace.engine.output_tables import output_tables
from headrace.engine.progress import Progress, is_within
from headrace.engine.state_files import StateSource, read_state
from headrace.engine.state_layout import SHARED
from headrace.errors import TerminalError
from headrace.fold.contract import Needs, Times
from headrace.fold.time_limits.limits_in_force import standing
from headrace.lake import APPENDER, LakeTable, TableWriter, create, kinds, last_commit


@dataclass(frozen=True)
class NodeTables:
    """The tables of a node: one with all of its state, and one for each output that is stored."""

    operator: NodeOperator
    state: LakeTable
    outputs: Mapping[str, LakeTable]

    @classmethod
    def create(
        cls,
        operator: NodeOperator,
        state_uri: str,
        output_uris: Mapping[str, str],
    ) -> NodeTables:
        """Open the tables, and make those that are missing.

        In:     output_uris  for each output that is a table of its own (see `output_tables`) its URI
        Raises: TerminalError when a table has other columns than the description
        """
        state = create(state_uri, operator.layout.schema, kinds.state(tuple(SHARED.names)))
        schemas = output_tables(operator)
        outputs = {
            name: create(uri, _nullable(schemas[name]), kinds.RESULTS) for name, uri in output_uris.items()
        }
        return cls(operator, state, outputs)

    def read_state(self, table: str) -> pa.Table:
        """All rows of a state table as of its newest version, merged, with BATCH."""
        source = StateSource.committed(self.state)
        return read_state(source, self.operator.layout, table, Needs()).rows


class NodeState:
    """Folds and commits the micro-batches of one node, until a newer one of the same node takes over."""

    def __init__(self, tables: NodeTables) -> None:
        """Take the tables over, and only then read how far the node came.

        Raises: FencedError when others take over all the time; ForeignCommitError when somebody else has changed rows
        """
        self.tables = tables
        self._writer = f"fold/{tables.operator.node.required_name}"
        by_name = {**tables.outputs, "state": tables.state}
        self._writers = {
            name: TableWriter(t, APPENDER, carries=[self._writer]) for name, t in by_name.items()
        }
        last = last_commit(tables.state, self._writer)
        self.progress = Progress() if last is None else Progress.of_record(last.record)
        self._ahead = self._outputs_ahead()

    @property
    def pending(self) -> Mapping[str, int] | None:
        """Through which commit time of each topic the next increment has to go, for its outputs are there; None: any."""
        return next((upto for upto, _ in self._ahead.values()), None)

    def fold(
        self, rows: pa.Table, times: Times, how: Distribution | None = None, compute: Compute | None = None
    ) -> FoldResult | None:
        """Fold an increment; nothing is committed yet.

        In:     rows  as `NodeOperator.rows` gives them
        Out:    None: it was folded before
        Raises: TerminalError if the increment does not begin where the node stands, or is not the one that is pending;
                FullError if more would wait than a bound allows
        """
        if self.progress.has(times):
            return None
        self._require_next(times)
        outputs = {name: t.uri for name, t in self.tables.outputs.items() if name not in self._ahead}
        source = StateSource.committed(self.tables.state)
        clocks, batch = self._with_standing(times), self.progress.batch + 1
        steps, kept = self.tables.operator.steps, self.tables.operator.kept
        found = fold_increment(
            steps,
            rows,
            clocks,
            source,
            batch=batch,
            outputs=outputs,
            kept=kept,
            how=how,
            compute=compute,
        )
        _, refusal = judged(self.tables.operator, found, clocks, self.progress.sizes)
        if refusal is not None:
            raise refusal
        return found

    def commit_outputs(self, found: FoldResult, times: Times) -> None:
        """The first commits of a micro-batch; a table whose rows are there already gets none."""
        upto_ms = dict(times.after.upto_ms)
        record = {"writer": self._writer, "batch": found.last_batch, "upto": upto_ms}
        for name in self.tables.outputs:
            if name not in self._ahead and found.written.get(name):
                self._writers[name].append(found.written[name], record)
                self._ahead[name] = (upto_ms, found.last_batch)

    def commit_state(self, found: FoldResult, times: Times) -> None:
        """The last commit of a micro-batch: from now on it counts."""
        operator, clocks = self.tables.operator, self._with_standing(times)
        progress = Progress(
            batch=max(found.last_batch, *(batch for _, batch in self._ahead.values()), -1),
            clock=times.after,
            fates=self.progress.counted(found.tally),
            limits=standing(clocks.limits, operator.node.required_name),
            sizes=judged(operator, found, clocks, self.progress.sizes)[0],
        )
        self._writers["state"].append(found.state, {"writer": self._writer, **progress.record})
        self.progress, self._ahead = progress, {}

    def commit(self, found: FoldResult, times: Times) -> None:
        """All commits of a micro-batch, in their order."""
        self.commit_outputs(found, times)
        self.commit_state(found, times)

    def compact_state(self, maintainer: TableWriter, runs_max: int = RUNS_MAX) -> int:
        """Compact the state beside the commits. Out: how many state tables were compacted."""
        layout, clock = self.tables.operator.layout, self.progress.clock
        return compact_state(self.tables.state, maintainer, layout, clock, [self._writer], runs_max=runs_max)

    def _outputs_ahead(self) -> dict[str, tuple[Mapping[str, int], int]]:
        """For each output whose last commit is ahead of the state: the commit times through which it goes, and its BATCH."""
        ahead = {}
        for name, table in self.tables.outputs.items():
            last = last_commit(table, self._writer)
            if last is not None and not is_within(last.record["upto"], self.progress.clock.upto_ms):
                ahead[name] = (last.record["upto"], last.record["batch"])
        return ahead

    def _require_next(self, times: Times) -> None:
        if dict(times.before.upto_ms) != dict(self.progress.clock.upto_ms):
            raise TerminalError(
                f"Node '{self.tables.operator.node.name}': an increment begins at {dict(times.before.upto_ms)}, "
                f"and the node stands at {dict(self.progress.clock.upto_ms)}.",
                hint="Read the logs from where `NodeState.progress` says.",
            )
        if self.pending is not None and dict(self.pending) != dict(times.after.upto_ms):
            raise TerminalError(
                f"Node '{self.tables.operator.node.name}': an increment ends at {dict(times.after.upto_ms)}, "
                f"and outputs through {dict(self.pending)} are there already.",
                hint="Read the logs as far as `NodeState.pending` says.",
            )

    def _with_standing(self, times: Times) -> Times:
        """The clocks with the limits that were set before the increment."""
        return replace(times, limits=[*self.progress.limits, *times.limits])


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])

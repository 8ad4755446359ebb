"""A table as a step: records in, its latest rows and changes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.fold.changes.collect import CHANGES, RESULTS, changes_of, latest_changes
from headrace.fold.contract import Folded, Needs, Scope, StateTable, Times
from headrace.fold.fates import LATE, has_fate, tally_of
from headrace.fold.kernel import OneStep
from headrace.fold.keys import distinct_hashes
from headrace.fold.late_view import late_by_age
from headrace.fold.tables.decide_records import kept, kept_records
from headrace.fold.tables.latest_rows import LatestRows, latest_rows_of

if TYPE_CHECKING:
    from headrace.description import Table

ROWS = "rows"


@dataclass(frozen=True, eq=False)
class Tables(OneStep):
    """The latest row of each key (see the package).

    changes  whether each change is wanted, or the current rows alone; without changes most tables need no state

    State: `rows`, the latest row of each key with its place.
    Out:   `results`  one row per key that the micro-batch touches (see `collect.latest_changes`)
           `changes`  one row per key and commit (see `collect.changes_of`); only if they are wanted
    """

    key: tuple[str, ...]
    latest: LatestRows
    changes: bool
    scope = Scope.GROUP

    @classmethod
    def of(cls, node: Table, inputs: pa.Schema, *, changes: bool = True) -> Tables:
        """The operator of a node. In: inputs  the columns of the stream and ROW_COLUMNS; PASSES if it has conditions."""
        return cls(node.key, latest_rows_of(node, inputs, node.columns, per_commit=changes), changes)

    revises = True  # a later row of a key replaces the earlier one

    def decide(self, rows: pa.Table) -> pa.Table:
        """See `LatestRows.decide`."""
        return self.latest.decide(rows, self.key)

    @property
    def late_scope(self) -> Scope | None:
        """Each row by itself; None: no delete is forgotten."""
        return None if self.latest.forget_ms is None else Scope.ANYWHERE

    def late(self, rows: pa.Table) -> pa.Table:
        """Records that a delete which is forgotten might have beaten, as `late_by_age` shows them."""
        decided = self.decide(rows)
        return late_by_age(decided.filter(pa.array(has_fate(decided, LATE))), self.latest.forget_ms or 0)

    @property
    def keys(self) -> tuple[str, ...]:  # type: ignore[override]
        """The key."""
        return self.key

    @cached_property
    def state(self) -> Mapping[str, StateTable]:  # type: ignore[override]
        """See the class."""
        return {ROWS: self.latest.state}

    def needs(self, rows: pa.Table, times: Times) -> Mapping[str, Needs]:
        """The rows of the same keys, unless the latest record of a micro-batch is the latest of all."""
        if not self.latest.remembers and not self.changes:
            return {}
        return {ROWS: Needs(distinct_hashes(kept(self.decide(rows))))}

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """See the package."""
        decided, latest = self.decide(rows), self.latest
        puts = latest.puts(latest.reduced(kept_records(decided, self.key)))
        known = state.get(ROWS, self.state[ROWS].empty())
        if not latest.remembers and not self.changes:
            known = known.slice(0, 0)
        deltas, gained = latest.advance(puts, known)
        if not self.changes and not latest.remembers:
            deltas = puts  # a delete of a key that may not be there is told, too
        columns = [name for name in latest.columns.names if name not in self.key]
        outputs = {RESULTS: latest_changes(deltas, self.key, columns, per_commit=self.changes)}
        if self.changes:
            outputs[CHANGES] = changes_of(deltas, self.key, columns)
        return Folded(outputs=outputs, changes={ROWS: gained}, tally=tally_of(decided))

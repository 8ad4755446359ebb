"""Upkeep of a node's state beside its micro-batches: fewer files, and none with rows that nothing reads any more."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from headrace import lake as lakes
from headrace.engine.compact_runs import Packing, is_due
from headrace.engine.compact_tables import compact_state, part_mixed_files
from headrace.engine.state_copies import COPIES
from headrace.engine.state_files import StateSource
from headrace.engine.state_layout import StateLayout
from headrace.fold.changes.collect import RESULTS
from headrace.fold.contract import BATCH
from headrace.fold.segments import HIGHEST
from headrace.lake import ConflictError, as_maintainer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.engine.folding.operators import NodeOperator
    from headrace.fold.contract import Clock
    from headrace.lake import DataFile, LakeTable, TableWriter


class StateUpkeep:
    """Compaction of one state table. It may run at the same time as the node: the fence lets both commit."""

    def __init__(self, state: LakeTable, operator: NodeOperator, writer: str) -> None:
        """In: writer  the name of the node's own commits, whose newest record every commit here repeats."""
        self._state, self._appends_as, self._whole = state, writer, operator.layout
        # Current results stay as micro-batches wrote them: how far a base is folded is told by micro-batches.
        self._layout = StateLayout(
            {name: table for name, table in operator.layout.tables.items() if name not in operator.kept}
        )

    def is_due(self, *, at_rest: bool) -> bool:
        """Whether a state table has many large runs. In: at_rest  see `compact_runs.is_due`."""
        source = StateSource.committed(self._state, recent=True)
        return any(is_due(source.only(name).files, at_rest=at_rest) for name in self._layout.tables)

    def pack(self, clock: Clock, packing: Packing) -> None:
        """Put runs of each state table into one. In: clock  where the node stands."""

        def compact(writer: TableWriter) -> int:
            if packing.whole:
                part_mixed_files(self._state, writer, self._whole, [self._appends_as])
            return compact_state(self._state, writer, self._layout, clock, [self._appends_as], packing)

        with suppress(ConflictError):  # another maintainer has put others in their place
            as_maintainer(self._state, compact, carries=[self._appends_as])
        COPIES.keep(self._state.uri, self._state.snapshot().files)

    def drop(self, through: int) -> None:
        """Drop the files of current results that hold no row of a micro-batch after this one."""
        current = StateSource.committed(self._state).only(RESULTS).files
        gone = {name: file for name, file in current.items() if _highest(file) <= through}
        if gone:
            with suppress(ConflictError):  # another maintainer has put others in their place
                as_maintainer(self._state, partial(self._remove, gone=gone), carries=[self._appends_as])

    def changes(self, after: int, through: int) -> Mapping[str, DataFile]:
        """The files of current results that hold rows of micro-batches after one, through another."""
        current = StateSource.committed(self._state).of(RESULTS).files
        return {
            name: file
            for name, file in current.items()
            if after < _highest(file) and _lowest(file) <= through
        }

    def _remove(self, writer: TableWriter, *, gone: Mapping[str, DataFile]) -> int:
        # Only now: what is carried has to reach to the commit before this one, and a new epoch is a commit, too.
        record = {"writer": "upkeep", **lakes.carried(self._state, [self._appends_as])}
        return writer.replace(gone, [], record, changes_data=True)


def _highest(file: DataFile) -> int:
    return int(file.highest.get(BATCH, HIGHEST))


def _lowest(file: DataFile) -> int:
    return int(file.lowest.get(BATCH, 0))

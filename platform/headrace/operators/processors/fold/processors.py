"""The operator: which records a processor takes, and its step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from headrace.description import Processed
from headrace.description.feeds import RESULT
from headrace.fold.contract import ROW_COLUMNS, Step
from headrace.fold.kernel import Feeds, Kernel, OpenState
from headrace.fold.lookups.count_fates import CountFates, once
from headrace.operators.processors.fold.global_tables.global_tables import Packing
from headrace.operators.processors.fold.global_tables.keep_tables import KeepTables
from headrace.operators.processors.fold.process_batches import ProcessBatches
from headrace.operators.processors.fold.process_records import ProcessRecords
from headrace.operators.processors.fold.release import WAITING, open_records
from headrace.operators.processors.fold.shape import AsFields, Shape


@dataclass(frozen=True)
class Processors(Kernel):
    """The rows that a processor forwards (L34).

    packing  of its global tables; None: it reads none
    """

    shape: Shape
    packing: Packing | None = None

    @classmethod
    def of(cls, node: Processed, inputs: Mapping[str, pa.Schema], fields: AsFields) -> Processors:
        """The operator of a node. In: the schema of each feed; what makes Arrow's fields of declared columns."""
        shape = Shape.of(node, inputs[RESULT], fields)
        return cls(shape, Packing.of(node, shape.by, inputs))

    @property
    def steps(self) -> tuple[Step, ...]:
        """One; before it one that keeps global tables; first count, where two of the inputs read the same topic."""
        if self.packing is None:
            return (ProcessBatches(self.shape) if self.shape.vectorised else ProcessRecords(self.shape),)
        counting = (CountFates(),) if self.packing.is_shared else ()
        return (*counting, KeepTables(self.packing), ProcessRecords(self.shape, self.packing))

    @property
    def open_state(self) -> OpenState | None:
        """The records that wait for complete global tables."""
        return OpenState(WAITING, partial(open_records, shape=self.shape)) if self.shape.complete else None

    def rows(self, feeds: Feeds) -> pa.Table:
        """The rows of all feeds, as the first step takes them; with global tables they are decided."""
        return feeds[RESULT] if self.packing is None else self.packing.packed(feeds)

    def decided(self, feeds: Feeds) -> pa.Table:
        """Every record is kept; a row that several feeds have once."""
        rows = self.rows(feeds)
        if self.packing is not None:
            return once(rows).select(ROW_COLUMNS.names)
        return ProcessRecords(self.shape).decided(rows).select(rows.column_names)

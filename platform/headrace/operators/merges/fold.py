"""The fold of merged branches: the state holds nothing; the ledger counts a record once, whatever its sides do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.description.merged import LEFT, RIGHT, Merged
from headrace.fold.contract import CAUSE, ROW_COLUMNS, Folded, Scope, StatelessStep, Step, Times
from headrace.fold.fates import is_kept
from headrace.fold.kernel import Feeds, Kernel
from headrace.fold.lookups.count_fates import CountFates
from headrace.fold.records.pass_on import CHAIN, ELEMENT, decide_records, rows_of_records
from headrace.fold.values.columns import fitted


@dataclass(frozen=True)
class PassSides(StatelessStep):
    """Give each record that a side keeps.

    Out: `results` as `Records` gives them, and ELEMENT: the number of the side
    Law: a row follows from its record alone.
    """

    columns: tuple[str, ...]
    scope = Scope.ANYWHERE

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """See the class."""
        kept = rows.filter(pa.array(is_kept(rows)))
        results = rows_of_records(kept, self.columns) | {ELEMENT: kept[ELEMENT]}
        return Folded(outputs={"results": pa.table(results)})


@dataclass(frozen=True)
class MergedRecords(Kernel):
    """Merged branches: the kernel of a node. In: taken  the schema of the rows of each side."""

    columns: tuple[str, ...]
    taken: pa.Schema

    @classmethod
    def of(cls, node: Merged, inputs: Mapping[str, pa.Schema]) -> MergedRecords:
        """The kernel of a node. In: inputs  the schema of each feed."""
        columns = node.left.columns or ()
        left, right = inputs[LEFT], inputs[RIGHT]
        also = {field.name: field for side in (left, right) for field in side if field.name in (CHAIN, CAUSE)}
        fields = [*(left.field(name) for name in (*columns, *ROW_COLUMNS.names)), *also.values()]
        return cls(columns, pa.schema([field.with_nullable(True) for field in fields]))

    @property
    def steps(self) -> tuple[Step, ...]:
        """It counts each record once, then it passes both sides on."""
        return (CountFates(), PassSides(self.columns))

    def rows(self, feeds: Feeds) -> pa.Table:
        """The rows of both sides in one table, decided, with ELEMENT."""
        sides = [self._numbered(number, feeds[name]) for number, name in enumerate((LEFT, RIGHT))]
        return decide_records(pa.concat_tables(sides))

    def _numbered(self, number: int, rows: pa.Table) -> pa.Table:
        elements = pa.array(np.full(rows.num_rows, number, np.int32))
        return fitted(rows, self.taken).append_column(ELEMENT, elements)

"""Records of which each holds an array: the rows that its elements become."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import DescriptionError
from headrace.fold.contract import FATE, Folded, Scope, StatelessStep, Times
from headrace.fold.fates import FILTERED, is_kept, tally_of, with_column
from headrace.fold.kernel import OneStep
from headrace.fold.records.pass_on import ELEMENT, decide_records, rows_of_records

if TYPE_CHECKING:
    from headrace.description import FlatMapped


@dataclass(frozen=True)
class FlatMaps(OneStep, StatelessStep):
    """The operator of a flat-mapped stream: it gives each element of the arrays of the records that are kept.

    In:  array    the column of the array
         ordinal  the name of a column for the place of the element; None: there is none
    Out: `results`: the columns of the stream, with the element in place of the array; the ordinal; TOPIC, PARTITION, OFFSET,
         ELEMENT, `__ingested_at`, TIMESTAMP (event time), CLOCK and SEQUENCE (the record's commit)
    Law: the rows of a record follow from it alone. It is counted once.
    """

    columns: tuple[str, ...]
    array: str
    ordinal: str | None
    scope = Scope.ANYWHERE

    @classmethod
    def of(cls, node: FlatMapped, rows: pa.Schema) -> FlatMaps:
        """The operator of a node. In: rows  the columns of its stream; raises DescriptionError if there is no array."""
        columns = node.stream.columns
        assert columns is not None
        found = rows.field(node.array.name).type
        if not pa.types.is_list(found):
            raise DescriptionError(
                f"flat_map: {node.array.expression!r} is {found}, not an array.",
                hint="Give an expression of the type ARRAY, for example \"split(text, ' ') AS word\".",
            )
        return cls(columns, node.array.name, node.ordinal)

    def decide(self, rows: pa.Table) -> pa.Table:
        """Complete FATE: an undecided record whose array has elements is kept. Row by row; no row is dropped."""
        lengths = pc.list_value_length(rows[self.array]).fill_null(0)
        nothing = pc.and_(pc.equal(lengths, 0), rows[FATE].is_null())
        if pc.any(nothing).as_py():
            rows = with_column(rows, FATE, pc.if_else(nothing, FILTERED, rows[FATE]))
        return decide_records(rows)

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """See the class."""
        rows = self.decide(rows)
        kept = rows.filter(pa.array(is_kept(rows))).combine_chunks()
        arrays = _whole(kept[self.array])
        lengths = pc.list_value_length(arrays).to_numpy(zero_copy_only=False).astype(np.int64)
        which = np.repeat(np.arange(len(lengths)), lengths)
        place = pa.array(np.arange(len(which)) - np.repeat(np.cumsum(lengths) - lengths, lengths), pa.int32())
        elements = {self.array: arrays.flatten()}
        others = tuple(name for name in self.columns if name != self.array)
        found = rows_of_records(kept.take(pa.array(which)), others) | elements
        columns = {name: found[name] for name in self.columns}
        columns |= {} if self.ordinal is None else {self.ordinal: place}
        return Folded(outputs={"results": pa.table(columns | found | {ELEMENT: place})}, tally=tally_of(rows))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()

"""The first step of a relation: records are decided, counted, and sent on their way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.changes.deltas import PORT, Port, pack, picked
from headrace.fold.changes.ordering import PLACE, last_of_each, order
from headrace.fold.changes.station import Route
from headrace.fold.contract import (
    FATE,
    REASON,
    ROW_COLUMNS,
    Folded,
    Scope,
    StatelessStep,
    Times,
)
from headrace.fold.fates import KEPT, tally_of
from headrace.fold.keys import group
from headrace.fold.relations.leaf import Leaf, TableLeaf
from headrace.fold.tables.decide_records import kept
from headrace.fold.values.encode import encode


class DecideStep(StatelessStep):
    """Decides the records of each leaf.

    In: rows of all leaves, as `packed_logs` joins them
    """

    def __init__(self, leaves: Sequence[Leaf], routes: Mapping[str, Route], *, shares_topics: bool) -> None:
        """In: routes  how what a leaf gives goes on; shares_topics: a record may come for several leaves."""
        self.leaves, self.routes, self.shares_topics = tuple(leaves), routes, shares_topics
        # A record is counted once, so all its rows have to be in one place.
        self.scope = Scope.PARTITION if shares_topics else Scope.ANYWHERE
        self.threads = all(isinstance(leaf, TableLeaf) for leaf in leaves)

    @property
    def leaving(self) -> tuple[Port, ...]:
        """The ports of the rows that it gives, one for each leaf."""
        return tuple(Port(leaf.part, self.routes[leaf.part].columns(leaf.columns)) for leaf in self.leaves)

    def decide(self, rows: pa.Table) -> pa.Table:
        """ROW_COLUMNS with FATE and REASON completed, one row per record: what any of the leaves uses is kept."""
        return self._once(self._decided(rows))

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """See the class."""
        decided = self._decided(rows)
        came = {
            leaf.part: self.routes[leaf.part].of(leaf.prepared(kept(found)))
            for leaf, found in zip(self.leaves, decided, strict=True)
        }
        return Folded(rows=pack(came, self.leaving), tally=tally_of(self._once(decided)))

    def _decided(self, rows: pa.Table) -> list[pa.Table]:
        number = rows[PORT].to_numpy()
        return [
            leaf.decide(_own(picked(rows, np.flatnonzero(number == index)), leaf))
            for index, leaf in enumerate(self.leaves)
        ]

    def _once(self, decided: Sequence[pa.Table]) -> pa.Table:
        """Each record once: as it is kept, if it is by any leaf; of several reasons the first by its name."""
        rows = pa.concat_tables([found.select(ROW_COLUMNS.names) for found in decided]).combine_chunks()
        if not self.shares_topics or not rows.num_rows:
            return rows
        record = pa.StructArray.from_arrays([rows[name].combine_chunks() for name in PLACE], names=PLACE)
        texts = [rows[name].fill_null("") for name in (FATE, REASON)]
        is_kept = pc.equal(texts[0], KEPT).to_numpy()
        best_last = order(is_kept, *(-_text_ranks(text) for text in texts))
        return rows.take(pa.array(np.sort(last_of_each(_record_codes(record), best_last))))


def packed_logs(rows: Mapping[str, pa.Table], leaves: Sequence[Leaf]) -> pa.Table:
    """The rows of each leaf as one table: the leaf's number, ROW_COLUMNS, and the leaf's columns as `part:column`."""
    tables = []
    for number, leaf in enumerate(leaves):
        of = rows[leaf.part]
        names = [name if name in ROW_COLUMNS.names else f"{leaf.part}:{name}" for name in of.column_names]
        ports = pa.array(np.full(of.num_rows, number, np.int8))
        tables.append(of.rename_columns(names).append_column(PORT, ports))
    return pa.concat_tables(tables, promote_options="default")


def _own(rows: pa.Table, leaf: Leaf) -> pa.Table:
    names = leaf.inputs.names
    carried = [name if name in ROW_COLUMNS.names else f"{leaf.part}:{name}" for name in names]
    return rows.select(carried).rename_columns(names)


def _text_ranks(texts: pa.ChunkedArray) -> np.ndarray:
    encoded = texts.combine_chunks().dictionary_encode()
    rank = np.empty(len(encoded.dictionary), np.int64)
    rank[pc.array_sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(encoded.dictionary))
    found: np.ndarray = rank[encoded.indices.to_numpy()]
    return found


def _record_codes(record: pa.StructArray) -> np.ndarray:
    return group(encode(record)).codes

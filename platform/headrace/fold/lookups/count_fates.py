"""Count the fates of a topic that the stream and the table both read: each row of its log once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.fold.contract import FATE, Folded, Scope, StatelessStep, Times
from headrace.fold.fates import KEPT, NOT_RECORDS, has_fate, tally_of
from headrace.fold.positions import order_of, position_columns


@dataclass(frozen=True)
class CountFates(StatelessStep):
    """Count rows by position.

    In, Out: rows as `Sides.decide` gives them
    Law:     a row is kept if the stream or the table keeps it; otherwise it has the first of its fates by name.
    """

    scope = Scope.PARTITION

    def fold(self, rows: pa.Table, state: Mapping[str, pa.Table], times: Times) -> Folded:
        """See the class."""
        return Folded(rows=rows, tally=tally_of(once(rows)))


def once(rows: pa.Table) -> pa.Table:
    """The records, each once: with the fate that decides. Ticks and control rows are left out."""
    records = rows.filter(pa.array(~has_fate(rows, *NOT_RECORDS)))
    fates = records[FATE].combine_chunks().dictionary_encode()
    names = fates.dictionary.to_pylist()
    rank = np.empty(len(names), np.int64)
    rank[sorted(range(len(names)), key=lambda number: (names[number] != KEPT, names[number]))] = np.arange(
        len(names)
    )
    place = order_of(position_columns(records))
    order = np.lexsort((rank[fates.indices.to_numpy()], place))
    first = np.ones(len(order), bool)
    first[1:] = place[order][1:] != place[order][:-1]
    return records.take(pa.array(order[first]))

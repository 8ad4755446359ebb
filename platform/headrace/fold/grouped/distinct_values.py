"""How many different values the rows of a group have: a value is there while one of its rows is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.fold.aggregates.extremes import comparable
from headrace.fold.aggregates.kind import whole
from headrace.fold.grouped.picks import MEMBER, Candidates
from headrace.fold.keys import combined
from headrace.fold.segments import before, begins, running_max


@dataclass(frozen=True)
class DistinctValues:
    """One aggregate. Whether a value is a new one is told by the rows of its group alone.

    value  the column; a null is no value
    """

    name: str
    value: pa.Field
    needs_rows = True

    @property
    def read(self) -> tuple[pa.Field, ...]:
        """The columns that it reads."""
        return (self.value,)

    @property
    def result(self) -> pa.Field:
        """The column of its results."""
        return pa.field(self.name, pa.int64())

    @property
    def field(self) -> pa.Field:
        """The column of the state."""
        return pa.field(f"__{self.name}_distinct", pa.int64())

    def finish(self, counted: pa.Array) -> pa.Array:
        """The results."""
        return counted

    def among(self, candidates: Candidates, questions: int) -> pa.Array:
        """How many values are there at each question.

        Law: the rows of one value, by the question at which they come, cover the union of their intervals piece by piece:
             each adds the part of its interval that none before it has covered.
        """
        values = whole(candidates.rows[self.value.name])
        there = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        begin, end = candidates.begin[there], candidates.end[there]
        there, begin, end = (each[end > begin] for each in (there, begin, end))
        value = comparable(values.take(pa.array(there)))
        group = candidates.group[there]
        codes = combined(group, value).codes
        order = np.lexsort((begin, codes))
        first = begins(codes[order])
        covered = before(first, running_max(first, end[order]), -1) if len(order) else end
        start = np.maximum(begin[order], covered)
        grows = start < end[order]
        steps = np.bincount(start[grows], minlength=questions + 1)
        steps = steps - np.bincount(end[order][grows], minlength=questions + 1)
        return pa.array(np.cumsum(steps)[:questions], pa.int64())

    def rows_of(self, groups: pa.Table) -> tuple[np.ndarray, pa.Table]:
        """None: a number of values tells nothing of them."""
        empty = pa.table({MEMBER: pa.nulls(0, pa.binary()), self.value.name: pa.nulls(0, self.value.type)})
        return np.empty(0, np.int64), empty

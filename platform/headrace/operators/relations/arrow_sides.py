"""The sides of a join by Arrow (see `sides`), in the task that works a micro-batch out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.operators.columnar.places import PLACE, not_before, numbers_of
from headrace.operators.relations.held import columns_of
from headrace.operators.tables.columnar import LatestRows, without_values
from headrace.spark.keys import NONE, among, encoded, rows_by_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.operators.relations.held import HeldRows

MATCHED = "__matched"
INTERNAL = ("__deleted", "__event_ms", *PLACE)


class ArrowSide(ABC):
    """Current rows by key (see `sides.Side`)."""

    part: str

    @property
    @abstractmethod
    def key(self) -> tuple[str, ...]:
        """The columns of its identity."""

    @abstractmethod
    def changed(self, came: Mapping[str, pa.Table], held: HeldRows) -> pa.Table:
        """What a micro-batch changes: the columns of the node, and `INTERNAL`; one row per key.

        In: came  for each table by its part the rows that were decided
        """

    def changes(self, came: Mapping[str, pa.Table], held: HeldRows) -> pa.Table:
        """The same, and it is noted in what is held, with what changes below."""
        rows = self.changed(came, held)
        held.changes[self.part] = rows
        return rows


@dataclass(frozen=True)
class ArrowTable(ArrowSide):
    """A table (see `sides.TableSide`)."""

    part: str
    rows: LatestRows
    remembers: bool

    @property
    def key(self) -> tuple[str, ...]:
        """Of the table."""
        return self.rows.key

    def changed(self, came: Mapping[str, pa.Table], held: HeldRows) -> pa.Table:
        """The latest record of each key; where an older one can come later, the later of it and the current row."""
        rows = self.rows.of_increment(came[self.part])
        if not self.remembers:
            return rows
        known = held.lookup(self.part, self.key, self.key, columns_of(rows, self.key))
        return self.rows.of(pa.concat_tables([rows, known.select(rows.column_names)]))


@dataclass(frozen=True)
class ArrowJoin(ArrowSide):
    """A join (see `sides.JoinSide`).

    inner   whether rows without a match are left out
    values  each value's name, and the side and the column that it repeats; None: Spark computes some, of `RAW` columns
    """

    part: str
    left: ArrowSide
    right: ArrowSide
    on: tuple[str, ...]
    inner: bool
    values: tuple[tuple[str, str, str], ...] | None

    @property
    def key(self) -> tuple[str, ...]:
        """That of the left side."""
        return self.left.key

    def changed(self, came: Mapping[str, pa.Table], held: HeldRows) -> pa.Table:
        """The results of the left rows that changed, and of those that refer to a right row that changed."""
        left, right = self.left.changes(came, held), self.right.changes(came, held)
        referring = held.lookup(self.left.part, self.left.key, self.on, columns_of(right, self.right.key))
        others = _without(_alive(referring), left, self.left.key)
        wanted = columns_of(_alive(left), self.on)
        known = held.lookup(self.right.part, self.right.key, self.right.key, wanted)
        others, known = (
            each.select(of.column_names)
            for each, of in ((others, left), (_without(known, right, self.right.key), right))
        )
        return self._joined(pa.concat_tables([left, others]), _alive(pa.concat_tables([right, known])))

    def _joined(self, left: pa.Table, right: pa.Table) -> pa.Table:
        """Each left row with the right row that it refers to, if that is there (see `sides.JoinSide.joined`)."""
        left, right = left.combine_chunks(), right.combine_chunks()
        (mine, theirs), count = encoded(columns_of(left, self.on), columns_of(right, self.right.key))
        row = rows_by_key(theirs, count)[mine]
        matched = row != NONE
        of_right = pa.array(row, mask=~matched)
        deleted = left["__deleted"].to_numpy()
        if self.inner:
            deleted = deleted | ~matched
        values = self.values
        if values is None:
            rows = (("left", left), ("right", right))
            values = tuple(
                (f"{side}:{name}", side, name)
                for side, of in rows
                for name in of.column_names
                if name not in INTERNAL
            )
        columns = {name: left[name] for name in self.key}
        for name, side, column in values:
            columns[name] = left[column] if side == "left" else right[column].take(of_right)
        columns["__deleted"] = pa.array(deleted)
        columns["__event_ms"] = pc.max_element_wise(left["__event_ms"], right["__event_ms"].take(of_right))
        here, there = (
            numbers_of(left, PLACE),
            [_at(each, row) for each in numbers_of(right, PLACE)],
        )
        later = matched & not_before(there, here)
        for name, own, others in zip(PLACE, here, there, strict=True):
            columns[name] = pa.array(np.where(later, others, own))
        joined = pa.table(columns)
        if self.values is None:
            return joined.append_column(MATCHED, pa.array(matched))
        return without_values(joined, [name for name, _, _ in values])


def _at(values: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Values at rows, anything where there is none."""
    return values[row] if len(values) else np.zeros(len(row), values.dtype)


def _alive(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.invert(rows["__deleted"]))


def _without(rows: pa.Table, others: pa.Table, key: Sequence[str]) -> pa.Table:
    """The rows whose keys others do not have."""
    return rows.filter(pa.array(~among(columns_of(rows, key), columns_of(others, key))))

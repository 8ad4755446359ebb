"""The methods that a kind of aggregate must have, and the rows that it gets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from headrace.fold.positions import order_of, position_columns
from headrace.fold.values.exact import Exact, exactly

T = TypeVar("T")
Parts = Mapping[str, pa.Array]  # the partial columns of one aggregate by suffix; one row per group


class Inputs:
    """Rows to be aggregated. Work that several aggregates share is done once."""

    def __init__(self, rows: pa.Table) -> None:
        """In: rows  the input columns and, if an aggregate goes by position, those of the position."""
        self.rows = rows
        self._known: dict[Any, Any] = {}

    def column(self, name: str) -> pa.Array:
        """A column in one piece; dictionaries are decoded."""
        return self.once(("column", name), lambda: whole(self.rows[name]))

    def there(self, name: str) -> np.ndarray:
        """Where a column is not null."""
        return self.once(("there", name), lambda: _valid(self.column(name)))

    def exact(self, name: str, scale: int, digits: int) -> Exact:
        """See `exact.exactly`."""
        return self.once(("exact", name, scale, digits), lambda: exactly(self.column(name), scale, digits))

    def position(self) -> dict[str, pa.Array]:
        """See `positions.position_columns`."""
        return self.once("position", lambda: position_columns(self.rows))

    def order(self) -> np.ndarray:
        """Numbers that compare as the rows stand in the log."""
        return self.once("order", lambda: order_of(self.position()))

    def once(self, what: Any, compute: Callable[[], T]) -> T:
        """The value of this name. It is computed at the first call and kept."""
        if what not in self._known:
            self._known[what] = compute()
        found: T = self._known[what]
        return found


class Kind(ABC):
    """One aggregate over rows of one schema.

    fields      of its partial columns, by suffix
    result      type of its value
    columns     that it reads
    by_position whether it needs the columns of the position, too
    invertible  whether partials form an abelian group, so that `negate` exists
    """

    fields: Mapping[str, pa.DataType]
    result: pa.DataType
    columns: tuple[str, ...]
    by_position: bool = False
    invertible: bool = False
    refusal: str = ""  # why a row is not usable, where it is not a number that is out of range

    def usable(self, rows: Inputs) -> np.ndarray | None:
        """Which rows have inputs that can be represented; None: all."""
        return None

    @abstractmethod
    def partial(self, rows: Inputs, codes: np.ndarray, groups: int) -> Parts:
        """The partials of the rows of each group."""

    @abstractmethod
    def merge(self, parts: Parts, codes: np.ndarray, groups: int) -> Parts:
        """The partials of the partials of each group."""

    @abstractmethod
    def finish(self, parts: Parts) -> pa.Array:
        """The values of partials."""

    def running(self, parts: Parts, segment: np.ndarray) -> pa.Array | None:
        """For each row the value of its segment through it; None: there is no shorter way than to merge partials.

        In: segment  of each row the number of its segment, rising
        """
        return None

    def negate(self, parts: Parts) -> Parts:
        """Partials that take away what these add. Raises: TypeError if the kind is not invertible."""
        raise TypeError(f"{type(self).__name__} cannot take rows out again")


def count_by(codes: np.ndarray, groups: int, there: np.ndarray | None = None) -> np.ndarray:
    """How many rows each group has; `there`: how many of those."""
    if there is not None and not there.all():
        codes = codes[there]
    return np.bincount(codes, minlength=groups)


def add_by(codes: np.ndarray, groups: int, numbers: np.ndarray) -> np.ndarray:
    """The sum of each group: of int64 that are small enough."""
    found = np.zeros(groups, np.int64)
    np.add.at(found, codes, numbers)
    return found


def highest_by(codes: np.ndarray, groups: int, numbers: np.ndarray) -> np.ndarray:
    """The highest of each group; the lowest int64 of a group without rows."""
    found = np.full(groups, np.iinfo(np.int64).min)
    np.maximum.at(found, codes, numbers)
    return found


def lowest_by(codes: np.ndarray, groups: int, numbers: np.ndarray) -> np.ndarray:
    """The lowest of each group; the highest int64 of a group without rows."""
    found = np.full(groups, np.iinfo(np.int64).max)
    np.minimum.at(found, codes, numbers)
    return found


def row_with(best: np.ndarray, codes: np.ndarray, numbers: np.ndarray, rows: np.ndarray) -> pa.Array:
    """For each group the row that has its best number; null where no row has."""
    hits = numbers == best[codes]
    found = np.full(len(best), -1, np.int64)
    found[codes[hits][::-1]] = rows[hits][::-1]
    return pa.array(found, mask=found < 0)


def whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece, and without a dictionary."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _valid(values: pa.Array) -> np.ndarray:
    valid: np.ndarray = values.is_valid().to_numpy(zero_copy_only=False)
    return valid

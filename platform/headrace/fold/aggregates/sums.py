"""Count, sum, avg, variance and stddev: exact sums, which form an abelian group under addition (L20).

Each keeps how many inputs it has seen, so that a sum of 0 is told from a sum of nothing. A sum that is null had more than
38 digits, and stays null.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.aggregates.kind import Inputs, Kind, Parts, add_by, count_by
from headrace.fold.values.exact import (
    INPUT_DIGITS,
    SUM_DIGITS,
    Exact,
    as_decimals,
    limbs_of,
    places_of,
    squares,
    sum_type,
    to_doubles,
    to_integers,
    usable,
)

SPREAD_DIGITS = 15  # the square of an input has twice its digits
N, SUM, SQUARES = "n", "sum", "squares"


class Count(Kind):
    """The number of records or, with a column, of values that are not null."""

    invertible = True

    def __init__(self, column: str | None) -> None:
        self.columns = () if column is None else (column,)
        self.fields = {N: pa.int64()}
        self.result = pa.int64()

    def partial(self, rows: Inputs, codes: np.ndarray, groups: int) -> Parts:
        """See `Kind.partial`."""
        there = rows.there(self.columns[0]) if self.columns else None
        return {N: pa.array(count_by(codes, groups, there))}

    def merge(self, parts: Parts, codes: np.ndarray, groups: int) -> Parts:
        """See `Kind.merge`."""
        return {N: _counts(parts, codes, groups)}

    def finish(self, parts: Parts) -> pa.Array:
        """See `Kind.finish`."""
        return parts[N]

    def negate(self, parts: Parts) -> Parts:
        """See `Kind.negate`."""
        return {N: pc.negate(parts[N])}


class _Summed(Kind):
    """The common part of sum, avg, variance and stddev."""

    invertible = True
    digits = INPUT_DIGITS

    def __init__(self, column: str, of: pa.DataType, scale: int) -> None:
        self.columns = (column,)
        self.scale = scale
        self.of = of
        self.summed = sum_type(of, scale)
        self.fields = {SUM: self.summed, N: pa.int64()}
        self.result = pa.float64()

    def usable(self, rows: Inputs) -> np.ndarray | None:
        """See `Kind.usable`."""
        if pa.types.is_integer(self.of) and self.digits == INPUT_DIGITS:
            return None
        if pa.types.is_decimal128(self.of) and self.of.precision <= self.digits:
            return None
        return usable(rows.column(self.columns[0]), self.scale, self.digits)

    def partial(self, rows: Inputs, codes: np.ndarray, groups: int) -> Parts:
        """See `Kind.partial`."""
        exact = rows.exact(self.columns[0], self.scale, self.digits)
        what = (self.columns[0], self.scale, self.digits)
        return {
            SUM: rows.once((SUM, *what), lambda: _sums(exact, codes, groups, self.summed)),
            N: rows.once((N, *what), lambda: pa.array(count_by(codes, groups, exact.there))),
        }

    def merge(self, parts: Parts, codes: np.ndarray, groups: int) -> Parts:
        """See `Kind.merge`."""
        merged = {name: _merged_sums(parts[name], codes, groups) for name in self.fields if name != N}
        return {**merged, N: _counts(parts, codes, groups)}

    def negate(self, parts: Parts) -> Parts:
        """See `Kind.negate`."""
        return {name: pc.negate(part) for name, part in parts.items()}


class Sum(_Summed):
    """The sum of the values that are not null; null if there are none, or if its type does not hold it."""

    def __init__(self, column: str, of: pa.DataType, scale: int) -> None:
        super().__init__(column, of, scale)
        if pa.types.is_integer(of):
            self.result = pa.int64()
        elif pa.types.is_decimal(of):
            self.result = self.summed

    def finish(self, parts: Parts) -> pa.Array:
        """See `Kind.finish`."""
        total = _null_where(parts[SUM], pc.equal(parts[N], 0))
        if pa.types.is_integer(self.result):
            return to_integers(total)
        return to_doubles(total) if pa.types.is_floating(self.result) else total


class Avg(_Summed):
    """The sum over the count, both as doubles."""

    def finish(self, parts: Parts) -> pa.Array:
        """See `Kind.finish`."""
        return pc.divide(to_doubles(parts[SUM]), _doubled(parts[N]))


class Variance(_Summed):
    """The sample variance, null below two values; its square root, if `root`.

    With n values, their sum s and the sum of their squares q, it is (n q - s²) / (n (n - 1)). The numerator is exact, and
    rounded once.
    """

    digits = SPREAD_DIGITS

    def __init__(self, column: str, of: pa.DataType, scale: int, *, root: bool) -> None:
        super().__init__(column, of, scale)
        self.root = root
        self.places = places_of(of, scale)
        # Of DECIMAL with more decimals than that, squares are kept as whole numbers of their last decimal.
        self.squared = pa.decimal128(SUM_DIGITS, 2 * self.places if 2 * self.places <= SUM_DIGITS else 0)
        self.fields = {SUM: self.summed, SQUARES: self.squared, N: pa.int64()}

    def partial(self, rows: Inputs, codes: np.ndarray, groups: int) -> Parts:
        """See `Kind.partial`."""
        exact = rows.exact(self.columns[0], self.scale, self.digits)
        what = (SQUARES, self.columns[0], self.scale)
        found = rows.once(what, lambda: _sums(squares(exact), codes, groups, self.squared))
        parts = super().partial(rows, codes, groups)
        return {SUM: parts[SUM], SQUARES: found, N: parts[N]}

    def finish(self, parts: Parts) -> pa.Array:
        """See `Kind.finish`."""
        total, squared = _unscaled(parts[SUM], 37), _unscaled(parts[SQUARES], 38)
        products = pc.multiply(parts[N].cast(pa.decimal256(20, 0)), squared).cast(pa.decimal256(75, 0))
        spread = pc.subtract(products, pc.multiply(total, total)).view(pa.decimal256(76, 2 * self.places))
        n = parts[N].to_numpy(zero_copy_only=False).astype(np.float64)
        pairs = pa.array(n * (n - 1), mask=n < 2)
        variance = pc.divide(spread.cast(pa.string()).cast(pa.float64()), pairs)
        return pc.sqrt(variance) if self.root else variance


def _sums(exact: Exact, codes: np.ndarray, groups: int, of: pa.DataType) -> pa.Array:
    low, high, beyond = exact.sums(codes, groups)
    return as_decimals(low, high, of, beyond)


def _merged_sums(values: pa.Array, codes: np.ndarray, groups: int) -> pa.Array:
    exact = limbs_of(values)
    low, high, beyond = exact.sums(codes, groups)
    beyond[codes[~exact.there]] = True
    return as_decimals(low, high, values.type, beyond)


def _counts(parts: Parts, codes: np.ndarray, groups: int) -> pa.Array:
    return pa.array(add_by(codes, groups, parts[N].fill_null(0).to_numpy(zero_copy_only=False)))


def _doubled(counts: pa.Array) -> pa.Array:
    """Counts as doubles; null for none."""
    return _null_where(counts.cast(pa.float64()), pc.equal(counts, 0))


def _null_where(values: pa.Array, null: pa.Array) -> pa.Array:
    return pc.if_else(null, pa.scalar(None, values.type), values)


def _unscaled(values: pa.Array, digits: int) -> pa.Array:
    """DECIMAL as whole numbers of its last decimal."""
    return values.view(pa.decimal128(SUM_DIGITS, 0)).cast(pa.decimal256(digits, 0))

"""quantiles: how many numbers there are of each size, where sizes differ by the stated relative error.

Law: a number is rounded by itself, to so many binary digits; counts of rounded numbers add up exactly, and form an abelian
group (L20). So the quantiles are exact ones of rounded numbers, and follow from the multiset of numbers alone. Rounding
works on the bits of a double, without a logarithm, so it is the same on every machine.

KLL, REQ and t-digest do not obey the law: what they keep depends on chance, or on the order of values and merges.

Source: the buckets are those of HdrHistogram (Tene); the relative error as in Masson, Rim and Lee, "DDSketch" (VLDB 2019).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import DescriptionError
from headrace.fold.aggregates.kind import Inputs, Kind, Parts
from headrace.fold.aggregates.nested import fields_of, items_of, lists_of, structs_of
from headrace.fold.segments import begins
from headrace.fold.values.exact import to_doubles

SIZES, SIZE, N = "sizes", "size", "n"
MANTISSA_BITS = 52
EXPONENTS = 0x7FF  # the exponent of infinity and NaN
PARTS_PER_MILLION = 1_000_000


class Quantiles(Kind):
    """Quantiles of the numbers that are not null; null if there are none.

    State: each rounded number that occurs, lowest first, and how often. A rounded number stands as its sign and the first
    bits of its double (see `rounded`).
    """

    invertible = True

    def __init__(self, column: str, of: pa.DataType, at: tuple[float, ...], error: float) -> None:
        if not (pa.types.is_integer(of) or pa.types.is_floating(of) or pa.types.is_decimal(of)):
            raise DescriptionError(
                f"quantiles: column '{column}' is {of}, not a number.",
                hint=f"If it holds numbers: .with_column('{column}', 'try_cast({column} AS DOUBLE)').",
            )
        self.columns = (column,)
        self.bits = next(n for n in range(MANTISSA_BITS) if 0.5 ** (n + 1) <= error)
        self.at_millionths = np.array([round(each * PARTS_PER_MILLION) for each in at], np.int64)
        self.fields = {SIZES: pa.list_(pa.struct([(SIZE, pa.int32()), (N, pa.int64())]))}
        self.result = pa.list_(pa.float64())

    def partial(self, rows: Inputs, codes: np.ndarray, groups: int) -> Parts:
        """See `Kind.partial`."""
        (column,) = self.columns
        kept = np.flatnonzero(rows.there(column))
        sizes = rounded(rows.column(column).take(pa.array(kept)), self.bits)
        return {SIZES: _counted(sizes, np.ones(len(kept), np.int64), codes[kept], groups)}

    def merge(self, parts: Parts, codes: np.ndarray, groups: int) -> Parts:
        """See `Kind.merge`."""
        items, which = items_of(parts[SIZES], codes)
        sizes, counts = (_numbers(items, name) for name in (SIZE, N))
        return {SIZES: _counted(sizes, counts, which, groups)}

    def negate(self, parts: Parts) -> Parts:
        """See `Kind.negate`."""
        groups = len(parts[SIZES])
        items, which = items_of(parts[SIZES], np.arange(groups))
        fields = fields_of(items)
        return {SIZES: lists_of(structs_of({SIZE: fields[SIZE], N: pc.negate(fields[N])}), which, groups)}

    def finish(self, parts: Parts) -> pa.Array:
        """See `Kind.finish`."""
        groups = len(parts[SIZES])
        items, which = items_of(parts[SIZES], np.arange(groups))
        sizes, through = _numbers(items, SIZE), np.cumsum(_numbers(items, N))
        ends = np.searchsorted(which, np.arange(groups), side="right")
        upto = np.concatenate([[0], through])[np.concatenate([[0], ends])]
        count, known = np.diff(upto), np.flatnonzero(np.diff(upto) > 0)
        place = np.maximum(-(-self.at_millionths * count[known, None] // PARTS_PER_MILLION), 1)
        found = sizes[np.searchsorted(through, upto[known, None] + place)].ravel()
        wide = np.repeat(known, len(self.at_millionths))
        lists = lists_of(pa.array(numbers_of(found, self.bits), from_pandas=False), wide, groups)
        return pc.if_else(pa.array(count > 0), lists, pa.scalar(None, lists.type))


def rounded(values: pa.Array, bits: int) -> np.ndarray:
    """Numbers rounded to the nearest that have one leading binary digit and so many more; ties away from 0.

    In:  values  whole numbers, DECIMAL or floats, without nulls
    Out: int64 that compare as the rounded numbers do: the sign, and the first bits of the double. NaN is highest, infinities
         stay, no other number becomes one, and -0.0 is 0.0
    """
    values = to_doubles(values) if pa.types.is_decimal(values.type) else values.cast(pa.float64(), safe=False)
    doubles = values.to_numpy(zero_copy_only=False)
    left_out = MANTISSA_BITS - bits
    size = (np.abs(doubles).view(np.int64) + (1 << (left_out - 1))) >> left_out
    infinity = EXPONENTS << bits
    size = np.where(np.isfinite(doubles), np.minimum(size, infinity - 1), infinity)
    size = np.where(np.isnan(doubles), infinity + 1, size)
    return np.asarray(np.where(doubles < 0, -size, size))


def numbers_of(sizes: np.ndarray, bits: int) -> np.ndarray:
    """The numbers (doubles) that `rounded` tells."""
    size = (np.abs(sizes).astype(np.int64) << (MANTISSA_BITS - bits)).view(np.float64)
    return np.asarray(np.where(sizes < 0, -size, size))


def _counted(sizes: np.ndarray, counts: np.ndarray, codes: np.ndarray, groups: int) -> pa.Array:
    """For each group its sizes, sorted, each once with the sum of its counts. A size whose sum is 0 is left out."""
    order = np.lexsort((sizes, codes))
    sizes, codes = sizes[order], codes[order]
    first = np.flatnonzero(begins(codes) | begins(sizes))
    totals = np.add.reduceat(counts[order], first) if len(first) else counts
    there = totals != 0
    first, totals = first[there], totals[there]
    columns = {SIZE: pa.array(sizes[first], pa.int32()), N: pa.array(totals, pa.int64())}
    return lists_of(structs_of(columns), codes[first], groups)


def _numbers(items: pa.Array, name: str) -> np.ndarray:
    return np.asarray(fields_of(items)[name].to_numpy(zero_copy_only=False)).astype(np.int64)

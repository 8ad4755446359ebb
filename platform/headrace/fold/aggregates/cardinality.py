"""approx_count_distinct: HyperLogLog registers, merged by their maxima.

Law: a register is the maximum over the values of a group, so the registers, and the estimate, follow from the set of values
alone. The estimate uses only operations that IEEE 754 rounds in one way (no logarithm), so it is the same on every machine.

A value's hash is that of its canonical bytes (see `hashing`). Its first `bits` bits name a register; the register keeps the
highest rank, the number of zeros that follow and 1. Sketch libraries do not obey the law here: while a sketch is filled
value by value, they estimate by the order of the values, too.

Source: Flajolet and others, "HyperLogLog" (2007); the estimator is algorithm 6 of Ertl, "New cardinality estimation
algorithms for HyperLogLog sketches" (2017).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.errors import DescriptionError
from headrace.fold.aggregates.kind import Inputs, Kind, Parts
from headrace.fold.aggregates.nested import items_of, lists_of
from headrace.fold.keys import key_of_row
from headrace.fold.segments import begins

REGISTERS = "registers"
BITS_MIN, BITS_MAX = 4, 18
SPREAD = 1.04  # the standard error is this over the root of the number of registers
RANK_BITS, HASH_BITS = 6, 64
LIMIT = 0.7213475204444817  # 1 / (2 ln 2), of infinitely many registers
GROUPS_AT_ONCE = 10_000  # so that a million groups take no more memory to estimate
ROUNDS = 64  # after which neither series changes any more: see `_sigma` and `_tau`


class ApproxCountDistinct(Kind):
    """An estimate of the number of different values that are not null.

    State: the registers that are not 0, sorted, each as its number and, in the last 6 bits, its rank.
    """

    def __init__(self, column: str, of: pa.DataType, error: float) -> None:
        if pa.types.is_nested(of):
            raise DescriptionError(
                f"approx_count_distinct: column '{column}' is {of}, and values of several parts are not estimated.",
                hint="Take one of the parts with .with_column(…), or write hr.count_distinct.",
            )
        self.columns = (column,)
        self.bits = next(n for n in range(BITS_MIN, BITS_MAX + 1) if SPREAD / 2 ** (n / 2) <= error)
        self.fields = {REGISTERS: pa.list_(pa.int32())}
        self.result = pa.int64()

    def partial(self, rows: Inputs, codes: np.ndarray, groups: int) -> Parts:
        """See `Kind.partial`."""
        (column,) = self.columns
        kept = np.flatnonzero(rows.there(column))
        hashes = rows.once(("hash", column), lambda: key_of_row(rows.rows, [column])[1])
        return {REGISTERS: _highest(_registers(hashes[kept], self.bits), codes[kept], groups)}

    def merge(self, parts: Parts, codes: np.ndarray, groups: int) -> Parts:
        """See `Kind.merge`."""
        items, which = items_of(parts[REGISTERS], codes)
        return {REGISTERS: _highest(items.to_numpy(zero_copy_only=False), which, groups)}

    def finish(self, parts: Parts) -> pa.Array:
        """See `Kind.finish`."""
        registers = parts[REGISTERS]
        found = [
            np.rint(_estimates(self._ranks(registers.slice(at, GROUPS_AT_ONCE)))).astype(np.int64)
            for at in range(0, len(registers), GROUPS_AT_ONCE)
        ]
        return pa.array(np.concatenate([np.empty(0, np.int64), *found]))

    def _ranks(self, registers: pa.Array) -> np.ndarray:
        """For each group the number of registers of each rank, from 0 to the highest."""
        groups, width = len(registers), HASH_BITS - self.bits + 2
        items, which = items_of(registers, np.arange(groups))
        ranks = items.to_numpy(zero_copy_only=False) & ((1 << RANK_BITS) - 1)
        counts = np.bincount(which * width + ranks, minlength=groups * width).reshape(groups, width)
        counts[:, 0] = (1 << self.bits) - counts.sum(axis=1)
        return counts.astype(np.float64)


def _registers(hashes: np.ndarray, bits: int) -> np.ndarray:
    """The register and rank of each hash, as the state stores them."""
    words = hashes.view(np.uint64)
    rest = words << np.uint64(bits) | np.uint64(1 << (bits - 1))  # the end mark bounds the rank
    high, low = (rest >> np.uint64(32)).astype(np.float64), (rest & np.uint64(0xFFFFFFFF)).astype(np.float64)
    length = np.where(high > 0, np.frexp(high)[1] + 32, np.frexp(low)[1])
    number = (words >> np.uint64(HASH_BITS - bits)).astype(np.int64)
    return np.asarray(number << RANK_BITS | (HASH_BITS + 1 - length))


def _highest(registers: np.ndarray, codes: np.ndarray, groups: int) -> pa.Array:
    """The highest rank of each register of each group."""
    order = np.lexsort((registers, codes))
    registers, codes = registers[order], codes[order]
    last = np.ones(len(order), bool)
    last[:-1] = (begins(codes) | begins(registers >> RANK_BITS))[1:]
    return lists_of(pa.array(registers[last], pa.int32()), codes[last], groups)


def _estimates(counts: np.ndarray) -> np.ndarray:
    """The estimate of each row. In: counts  by rank how many registers have it; columns from rank 0."""
    registers = counts[0].sum()
    total = registers * _tau(1 - counts[:, -1] / registers)
    for rank in range(counts.shape[1] - 2, 0, -1):
        total = 0.5 * (total + counts[:, rank])
    total = total + registers * _sigma(counts[:, 0] / registers)
    return np.asarray(LIMIT * registers * registers / total)


def _sigma(share: np.ndarray) -> np.ndarray:
    """X + the sum of x^(2^k) 2^(k-1) from k = 1; infinite for 1. Powers of less than 1 - 2^-18 are 0 after 30 rounds."""
    power, factor, total = share, 1.0, share
    for _ in range(ROUNDS):
        power = power * power
        total = total + power * factor
        factor = factor + factor
    return np.where(share == 1, np.inf, total)


def _tau(share: np.ndarray) -> np.ndarray:
    """(1 - x - the sum of (1 - x^(2^-k))² 2^-k from k = 1) / 3; 0 for 0 and 1."""
    root, factor, total = share, 1.0, 1 - share
    for _ in range(ROUNDS):
        root = np.sqrt(root)
        factor = factor * 0.5
        total = total - (1 - root) ** 2 * factor
    return np.where((share == 0) | (share == 1), 0.0, total / 3)

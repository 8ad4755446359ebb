"""Exact arithmetic: numbers become whole numbers of their last decimal, are added without loss, and come back at the end.

Law: a sum depends on the set of its inputs alone (L9). Each float is rounded to a stated scale first, half away from zero,
by its shortest decimal form: 0.5 at scale 0 is 1, and 2.675 at scale 2 is 2.68, though the double lies beneath.
An input has at most 28 digits and a sum 38, so that ten thousand million inputs of the largest size can be added.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

INPUT_DIGITS, SUM_DIGITS = 28, 38
LIMB = 32  # bits of a limb; sums of up to 2^30 limbs fit int64
MASK = (1 << LIMB) - 1
SUM_TYPE_ROOM = 62  # bits that a sum in one piece may have


@dataclass(frozen=True)
class Exact:
    """Whole numbers, as limbs: the number is the sum of `limbs[i] * 2**(32 * i)`. One limb alone may have 64 bits.

    there  where there is a number that can be used; limbs are 0 elsewhere
    """

    limbs: tuple[np.ndarray, ...]
    there: np.ndarray

    def sums(self, codes: np.ndarray, groups: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The sum of each group, as 128 bits, and which sums need more than that."""
        limbs = self.limbs
        if len(limbs) == 1 and not _adds_up(limbs[0]):
            limbs = (limbs[0] & MASK, limbs[0] >> LIMB)
        totals = []
        for limb in limbs:
            total = np.zeros(groups, np.int64)
            np.add.at(total, codes, limb)
            totals.append(total)
        return _carried(totals)


def places_of(of: pa.DataType, scale: int) -> int:
    """How many decimals numbers of a type keep when they are added; `scale` is that of floats."""
    if pa.types.is_decimal(of):
        scale = min(int(of.scale), int(of.precision), INPUT_DIGITS)
        return scale
    return scale if pa.types.is_floating(of) else 0


def sum_type(of: pa.DataType, scale: int) -> pa.DataType:
    """The type of sums of a type."""
    return pa.decimal128(SUM_DIGITS, places_of(of, scale))


def exactly(values: pa.Array, scale: int, digits: int = INPUT_DIGITS) -> Exact:
    """Numbers with at most so many digits, as whole numbers of their last decimal (see `places_of`).

    In: values  whole numbers, DECIMAL, FLOAT or DOUBLE; any may be null
        scale   of floats
    """
    of = values.type
    if pa.types.is_floating(of):
        found = _of_doubles(values, scale)
    elif pa.types.is_decimal(of):
        found = _of_decimals(values, places_of(of, scale))
    else:
        there = values.is_valid().to_numpy(zero_copy_only=False)
        found = Exact((values.cast(pa.int64()).fill_null(0).to_numpy(),), there)
    return _within(found, digits)


def usable(values: pa.Array, scale: int, digits: int = INPUT_DIGITS) -> np.ndarray:
    """Where a value is null, or a number that `exactly` holds."""
    found: np.ndarray = values.is_null().to_numpy(zero_copy_only=False)
    of = values.type
    if pa.types.is_integer(of) and digits >= 20:
        return np.ones(len(values), bool)
    if pa.types.is_floating(of) and digits == INPUT_DIGITS:
        found = found | (np.abs(_doubles_of(values)) < _limit(scale))
    else:
        found = found | exactly(values, scale, digits).there
    return found


def limbs_of(values: pa.Array) -> Exact:
    """DECIMAL of up to 38 digits as limbs, by its unscaled number."""
    there = values.is_valid().to_numpy(zero_copy_only=False)
    low, high = _halves(values)
    low, high = np.where(there, low, 0), np.where(there, high, 0)
    if (high == low >> 63).all():
        return Exact((low,), there)
    return Exact(_split(low, high), there)


def as_decimals(
    low: np.ndarray, high: np.ndarray, of: pa.DataType, null: np.ndarray | None = None
) -> pa.Array:
    """Numbers of 128 bits as DECIMAL; null where they do not fit 38 digits, and where they shall be."""
    beyond = ~_fits(low, high, SUM_DIGITS)
    null = beyond if null is None else null | beyond
    content = pa.py_buffer(np.stack([low, high], axis=1).tobytes())
    valid = pa.array(~null).buffers()[1] if null.any() else None
    return pa.Array.from_buffers(of, len(low), [valid, content])


def to_integers(values: pa.Array) -> pa.Array:
    """DECIMAL without decimals as BIGINT; null where one does not fit."""
    low, high = _halves(values)
    null = values.is_null().to_numpy(zero_copy_only=False) | (high != low >> 63)
    return pa.array(np.where(null, 0, low), pa.int64(), mask=null)


def to_doubles(values: pa.Array) -> pa.Array:
    """The double nearest to each DECIMAL."""
    of = values.type
    # Both are doubles exactly, so is only their quotient rounded.
    if pa.types.is_decimal128(of) and of.scale <= 22:
        low, high = _halves(values)
        null = values.is_null().to_numpy(zero_copy_only=False)
        if (null | ((high == low >> 63) & (low < 1 << 53) & (low > -(1 << 53)))).all():
            return pa.array(np.where(null, 0, low) / 10.0**of.scale, pa.float64(), mask=null)
    return values.cast(pa.string()).cast(pa.float64())


def squares(exact: Exact) -> Exact:
    """The squares of numbers of at most 15 digits."""
    (number,) = exact.limbs
    number = np.abs(number)
    low, high = (number & MASK).astype(np.uint64), number >> LIMB
    square = low * low
    mixed = 2 * high * low.astype(np.int64)
    zero = (square & np.uint64(MASK)).astype(np.int64)
    one = (square >> np.uint64(LIMB)).astype(np.int64) + (mixed & MASK)
    return Exact((zero, one, (mixed >> LIMB) + high * high), exact.there)


def _of_doubles(values: pa.Array, scale: int) -> Exact:
    doubles = _doubles_of(values)
    there = np.abs(doubles) < _limit(scale)  # nothing that is not finite
    doubles = np.where(there, doubles, 0.0)
    scaled = doubles * 10.0**scale
    size, lower = np.abs(scaled), np.floor(scaled)
    # The shortest form and the product each differ from the true number by less than 2^-52 of it.
    sure = (size < 2.0**50) & (np.abs(scaled - lower - 0.5) > size * 2.0**-51)
    found = np.where(sure, lower + (scaled - lower > 0.5), 0.0).astype(np.int64)
    if sure.all():
        return Exact((found,), there)
    rest = np.flatnonzero(~sure)
    # Beyond 2^53 the shortest form of a whole number may be another one.
    whole = (
        (doubles[rest] == np.rint(doubles[rest])) & (np.abs(doubles[rest]) < 2.0**53) & (size[rest] < 2.0**62)
    )
    found[rest[whole]] = doubles[rest[whole]].astype(np.int64) * 10**scale
    rest = rest[~whole]
    if not len(rest):
        return Exact((found,), there)
    low, high = found, found >> 63
    low[rest], high[rest] = _halves(_rounded_by_digits(doubles[rest], scale))
    return limbs_of(as_decimals(low, high, pa.decimal128(SUM_DIGITS, 0), ~there))


def _rounded_by_digits(doubles: np.ndarray, scale: int) -> pa.Array:
    """Doubles by their shortest decimal form, which has at most 17 digits."""
    digits = pa.array(doubles).cast(pa.string()).cast(pa.decimal256(76, 34))
    rounded = pc.round(digits, scale, round_mode="half_towards_infinity")
    return rounded.cast(pa.decimal256(76, scale)).cast(pa.decimal128(SUM_DIGITS, scale))


def _of_decimals(values: pa.Array, places: int) -> Exact:
    of = values.type
    if places < of.scale:
        values = pc.round(
            values.cast(pa.decimal256(76, of.scale)), places, round_mode="half_towards_infinity"
        )
        values = values.cast(pa.decimal256(76, places))
    if not pa.types.is_decimal128(values.type):
        values = values.cast(pa.decimal128(SUM_DIGITS, places))
    return limbs_of(values)


def _within(exact: Exact, digits: int) -> Exact:
    """The same, without the numbers that have more digits."""
    if len(exact.limbs) == 1:
        (number,) = exact.limbs
        if digits >= 19:
            return exact
        fits = (number < 10**digits) & (number > -(10**digits))
    else:
        low, high, _ = _carried([*exact.limbs])
        fits = _fits(low, high, digits)
    if fits.all():
        return exact
    limbs = tuple(np.where(fits, limb, 0) for limb in exact.limbs)
    if digits < 19 and len(limbs) > 1:
        low, _, _ = _carried([*limbs])
        limbs = (low,)
    return Exact(limbs, exact.there & fits)


def _doubles_of(values: pa.Array) -> np.ndarray:
    doubles: np.ndarray = values.cast(pa.float64()).to_numpy(zero_copy_only=False)  # null is NaN
    return doubles


def _limit(scale: int) -> float:
    """A double must be below this number. Doubles of this size have no decimals, so none is rounded up to it."""
    return float(10 ** (INPUT_DIGITS - scale))


def _adds_up(limb: np.ndarray) -> bool:
    if not len(limb):
        return True
    largest = max(abs(int(limb.min())), abs(int(limb.max())))
    return (largest * len(limb)).bit_length() <= SUM_TYPE_ROOM


def _split(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, ...]:
    return (low & MASK, (low >> LIMB) & MASK, high & MASK, high >> LIMB)


def _carried(totals: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The lower and the upper 64 bits of sums of limbs, and where these are not enough."""
    if len(totals) == 1:
        return totals[0], totals[0] >> 63, np.zeros(len(totals[0]), bool)
    limbs, carry = [], np.zeros(len(totals[0]), np.int64)
    for number in range(4):
        total = (totals[number] if number < len(totals) else 0) + carry
        limbs.append(total & MASK)
        carry = total >> LIMB
    low, high = limbs[0] | (limbs[1] << LIMB), limbs[2] | (limbs[3] << LIMB)
    return low, high, carry != high >> 63


def _halves(values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The lower and the upper 64 bits of DECIMAL of up to 38 digits."""
    if not len(values):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    raw = np.frombuffer(values.buffers()[1], np.int64).reshape(-1, 2)
    raw = raw[values.offset : values.offset + len(values)]
    return raw[:, 0], raw[:, 1]


def _fits(low: np.ndarray, high: np.ndarray, digits: int) -> np.ndarray:
    """Where numbers of 128 bits have at most so many digits."""
    small: np.ndarray = high == low >> 63
    if digits >= 19 and small.all():
        return small
    bound = 10**digits - 1
    fits: np.ndarray = _at_most(low, high, bound) & ~_at_most(low, high, -bound - 1)
    return fits


def _at_most(low: np.ndarray, high: np.ndarray, bound: int) -> np.ndarray:
    upper, lower = np.int64(bound >> 64), np.uint64(bound & (1 << 64) - 1)
    smaller: np.ndarray = (high < upper) | ((high == upper) & (low.view(np.uint64) <= lower))
    return smaller

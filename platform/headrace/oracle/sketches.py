"""Approximate aggregates, value by value: how many values differ, and how numbers are distributed.

Law: each value is approximated by itself; what is left of the values is exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from headrace.oracle.hashing import hash_of
from headrace.oracle.values import ordered

HASH_BITS = 64
NORMAL_FROM = -1021  # the exponent (see math.frexp) from which doubles have all their digits


def estimated(values: Iterable[Any], error: float) -> int:
    """About how many of the values are different, by HyperLogLog with the estimator of Ertl (2017), algorithm 6."""
    bits = 4
    while 1.04 / math.sqrt(2**bits) > error:
        bits += 1
    ranks: dict[int, int] = {}
    for value in values:
        hashed = hash_of(value)
        register, rest = hashed >> (HASH_BITS - bits), hashed & (2 ** (HASH_BITS - bits) - 1)
        rank = HASH_BITS - bits - rest.bit_length() + 1
        ranks[register] = max(ranks.get(register, 0), rank)
    if not ranks:
        return 0
    registers, highest = 1 << bits, HASH_BITS - bits + 1
    counts = [sum(found == rank for found in ranks.values()) for rank in range(highest + 1)]
    counts[0] = registers - len(ranks)
    total = registers * _tau(1 - counts[highest] / registers)
    for rank in range(highest - 1, 0, -1):
        total = 0.5 * (total + counts[rank])
    total += registers * _sigma(counts[0] / registers)
    return round(0.7213475204444817 * registers * registers / total)


def _sigma(x: float) -> float:
    y, z, before = 1.0, x, -1.0
    while z != before:
        x, before = x * x, z
        z, y = z + x * y, y + y
    return z


def _tau(x: float) -> float:
    if x in (0, 1):
        return 0.0
    y, z, before = 1.0, 1 - x, -1.0
    while z != before:
        x, before, y = math.sqrt(x), z, y * 0.5
        z -= (1 - x) ** 2 * y
    return z / 3


def quantiles(values: Iterable[Any], at: Sequence[float], error: float) -> list[float] | None:
    """The numbers at these quantiles, rounded; None: there is no number."""
    digits = 1
    while Fraction(1, 2**digits) > Fraction(error):
        digits += 1
    numbers = sorted((rounded(float(value), digits) for value in values), key=ordered)
    if not numbers:
        return None
    places = (math.ceil(Fraction(str(q)) * len(numbers)) for q in at)
    return [numbers[max(place, 1) - 1] for place in places]


def rounded(number: float, digits: int) -> float:
    """The nearest number of so many binary digits; halves go away from 0."""
    if math.isnan(number) or math.isinf(number) or number == 0:
        return number + 0.0
    _, exponent = math.frexp(number)
    unit = Fraction(2) ** (max(exponent, NORMAL_FROM) - digits)
    size = math.floor(abs(Fraction(number)) / unit + Fraction(1, 2)) * unit
    largest = (2 - Fraction(2, 2**digits)) * 2**1023
    return math.copysign(float(min(size, largest)), number) + 0.0

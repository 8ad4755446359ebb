"""The hash of a value: XXH64 with seed 42 of its canonical bytes, after both specifications, byte by byte.

Law: values that are equal have the same bytes, and so the same hash.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from decimal import Decimal
from typing import Any

from headrace.description.exact_numbers import EXACT

SEED = 42
MASK = 2**64 - 1
P1, P2, P3, P4, P5 = (
    11400714785074694791, 14029467366897019727, 1609587929392839161, 9650029242287828579, 2870177450012600261,
)  # fmt: skip
MICROSECOND = dt.timedelta(microseconds=1)


def hash_of(value: Any) -> int:
    """The hash of a value that is neither null nor of several parts; from 0 through 2^64 - 1."""
    return xxh64(b"\x01" + canonical_bytes(value), SEED)


def canonical_bytes(value: Any) -> bytes:
    """The bytes after the first one, which tells values from null."""
    if isinstance(value, str | bytes | bytearray):
        text = value.encode() if isinstance(value, str) else bytes(value)
        return text.replace(b"\x00", b"\x00\xff") + b"\x00\x01"
    if isinstance(value, float):
        (bits,) = struct.unpack(">Q", struct.pack(">d", math.nan if math.isnan(value) else value + 0.0))
        return _eight(bits if bits < 2**63 else 2**63 - 1 - bits)
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        assert isinstance(exponent, int)
        return (int(EXACT.scaleb(value, -exponent)) + 2**127).to_bytes(16, "big")
    return _eight(_whole(value))


def _whole(value: Any) -> int:
    """Whole numbers and BOOLEAN; dates in days, times in microseconds since 1970."""
    if isinstance(value, dt.datetime):
        return (value - dt.datetime(1970, 1, 1, tzinfo=dt.UTC if value.tzinfo else None)) // MICROSECOND
    if isinstance(value, dt.date):
        return (value - dt.date(1970, 1, 1)).days
    if isinstance(value, dt.timedelta):
        return value // MICROSECOND
    return int(value)


def _eight(number: int) -> bytes:
    return (number + 2**63).to_bytes(8, "big")


def xxh64(text: bytes, seed: int) -> int:
    """XXH64 after its specification."""

    def number(at: int, width: int) -> int:
        return int.from_bytes(text[at : at + width], "little")

    at, h = 0, (seed + P5) & MASK
    if len(text) >= 32:
        lanes = [(seed + P1 + P2) & MASK, (seed + P2) & MASK, seed, (seed - P1) & MASK]
        while at + 32 <= len(text):
            lanes = [_turn(lane, number(at + 8 * i, 8)) for i, lane in enumerate(lanes)]
            at += 32
        h = sum(_rotate(lane, r) for lane, r in zip(lanes, (1, 7, 12, 18), strict=True)) & MASK
        for lane in lanes:
            h = ((h ^ _turn(0, lane)) * P1 + P4) & MASK
    h = (h + len(text)) & MASK
    while at + 8 <= len(text):
        h = (_rotate(h ^ _turn(0, number(at, 8)), 27) * P1 + P4) & MASK
        at += 8
    if at + 4 <= len(text):
        h = (_rotate(h ^ (number(at, 4) * P1 & MASK), 23) * P2 + P3) & MASK
        at += 4
    for byte in text[at:]:
        h = _rotate(h ^ (byte * P5 & MASK), 11) * P1 & MASK
    h = (h ^ (h >> 33)) * P2 & MASK
    h = (h ^ (h >> 29)) * P3 & MASK
    return h ^ (h >> 32)


def _rotate(x: int, r: int) -> int:
    return ((x << r) | (x >> (64 - r))) & MASK


def _turn(lane: int, word: int) -> int:
    return _rotate((lane + word * P2) & MASK, 31) * P1 & MASK
